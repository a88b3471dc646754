"""An encoder that costs nothing: records that a model once wrote, given out again through the chat port."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from pydantic import BaseModel

from scrubjay.datatypes import Usage
from scrubjay.errors import ModelReplyError, SettingsError
from scrubjay.formats.source import Entry, open_source
from scrubjay.formats.validation import Untrusted, check_shape
from scrubjay.llm import Completion

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from scrubjay.datatypes import JsonValue
    from scrubjay.llm import ChatRequest, Reply

NAME = "replay"


class RecordedTimes(Untrusted):
    t_ref: str | None = None
    t_valid_from: str | None = None
    t_valid_to: str | None = None


class RecordedRecord(Untrusted):
    memory_type: str
    semantic_text: str
    entities: list[str]
    tags: list[str]
    temporal: RecordedTimes
    evidence: list[str]
    speaker: str


class RecordedSegment(Untrusted):
    turns: list[str]
    topic: str
    records: list[RecordedRecord]


class RecordedConversation(Untrusted):
    segments: list[RecordedSegment]


class ReplayModel:
    """A chat model that answers with the records written about the turns it is asked about.

    Its segments need not be ours: a record goes to the segment that holds the last turn it was made from, and cites
    those of its turns that are in it. So every record comes once while segments tile the turns.
    """

    name = NAME

    def __init__(
        self,
        records: Sequence[RecordedRecord],
        *,
        count_tokens: Callable[[Sequence[str]], list[int]] | None = None,
    ) -> None:
        """Take records whose last cited turn decides where they go; `count_tokens` gives what a call would cost."""
        self._count_tokens = count_tokens
        self._of_turn: defaultdict[str, list[RecordedRecord]] = defaultdict(list)
        for record in records:
            self._of_turn[record.evidence[-1]].append(record)

    def complete(self, request: ChatRequest, output: type[Reply]) -> Completion[Reply]:
        if not issubclass(output, BaseModel):
            raise ModelReplyError("the replay knows only records: give a model to the other stages")
        number_of = {turn_id: number for number, turn_id in enumerate(request.turn_ids, start=1)}
        found = [record for turn_id in number_of for record in self._of_turn.get(turn_id, ())]
        text = json.dumps(write_reply(found, number_of), ensure_ascii=False)
        return Completion(
            value=output.model_validate_json(text),
            text=text,
            truncated=False,
            usage=self._count(request, text),
        )

    def stream(self, request: ChatRequest) -> Generator[str, None, Completion[str]]:
        yield from ()
        raise ModelReplyError(f"the replay knows only records: give a model to the stage {request.stage}")

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def _count(self, request: ChatRequest, reply: str) -> Usage:
        counts = (
            self._count_tokens([request.system, request.user, reply]) if self._count_tokens else [0, 0, 0]
        )
        return Usage(
            stage=request.stage, model=NAME, calls=1, input_tokens=sum(counts[:2]), output_tokens=counts[2]
        )


def load_replay(
    path: Path, conversation: str, *, count_tokens: Callable[[Sequence[str]], list[int]] | None = None
) -> ReplayModel:
    """Load what was recorded about one conversation, by its name in the file: `{name: [segment, …]}`.

    Raise SettingsError for a name that isn't there, FormatError for a file that isn't such a recording.
    """
    document = open_source(path).document
    if not isinstance(document, dict) or conversation not in document:
        known = ", ".join(document) if isinstance(document, dict) else "none"
        raise SettingsError(f"{path}: expected a recording of {conversation!r}, found {known}")
    entry = Entry(path=path, where=conversation)
    segments = check_shape(RecordedConversation, {"segments": document[conversation]}, entry=entry).segments
    return ReplayModel(order_evidence(segments), count_tokens=count_tokens)


def order_evidence(segments: Sequence[RecordedSegment]) -> list[RecordedRecord]:
    """Give all records, their cited turns in the order of the conversation; without any, they cite their segment."""
    place_of = {
        turn_id: place for place, turn_id in enumerate(turn_id for one in segments for turn_id in one.turns)
    }
    records: list[RecordedRecord] = []
    for segment in segments:
        for record in segment.records:
            known = sorted(set(record.evidence) & place_of.keys(), key=place_of.__getitem__)
            records.append(record.model_copy(update={"evidence": known or segment.turns}))
    return records


def write_reply(records: Sequence[RecordedRecord], number_of: dict[str, int]) -> dict[str, JsonValue]:
    """Write a reply as the encoder would; a summary is asked for by the other name of its field."""
    items: list[JsonValue] = [
        {
            "turns": [number_of[turn_id] for turn_id in record.evidence if turn_id in number_of],
            "type": record.memory_type,
            "text": record.semantic_text,
            "entities": list(record.entities),
            "tags": list(record.tags),
            "speaker": record.speaker or None,
            "stance": "asserted",
            "t_ref": record.temporal.t_ref,
            "t_valid_from": record.temporal.t_valid_from,
            "t_valid_to": record.temporal.t_valid_to,
        }
        for record in records
    ]
    return {"records": items, "summary": " ".join(record.semantic_text for record in records), "note": ""}
