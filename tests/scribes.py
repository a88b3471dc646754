"""Memories that are consolidated in tests, and a model that writes one record of each turn it is shown."""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from small_memories import EMBEDDER, PROCESSES

from scrubjay.datatypes import ConsolidationLimits, Usage
from scrubjay.encoder_reply import RecordsReply
from scrubjay.errors import ModelReplyError
from scrubjay.llm import Completion
from scrubjay.memory import Memory
from scrubjay.settings import SEGMENT_PRESETS, BackgroundSettings, ChatSettings, EncoderSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from scrubjay.llm import ChatModel, ChatRequest, Reply

PROCESSES.set_forkserver_preload(["scrubjay.memory", "scrubjay.consolidation", "small_memories", "scribes"])

TURN_LINE = re.compile(r"^\[(\d+)\] [^:\n]*: (.*)$", re.MULTILINE)
INPUT_TOKENS, OUTPUT_TOKENS = 100, 10  # of every call
LONGEST = 200  # characters of a record
IMPATIENT = EncoderSettings(retry_seconds=0.0)
HASTE = BackgroundSettings(settle_seconds=0.01)


@dataclass(kw_only=True)
class Scribe:
    """A model that makes a record of each turn in its own words, and keeps what it was asked."""

    name: str = "scribe"
    seconds: float = 0.0  # a call takes
    before: Callable[[ChatRequest], object] | None = None  # done within each call
    signs: bool = False  # each record ends in words that no other call gives
    asked: list[ChatRequest] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def complete(self, request: ChatRequest, output: type[Reply]) -> Completion[Reply]:
        if not issubclass(output, RecordsReply):
            raise ModelReplyError(f"{self.name} can only write records, not {request.stage}")
        with self.lock:
            self.asked.append(request)
        if self.before is not None:
            self.before(request)
        time.sleep(self.seconds)
        sign = f" {uuid.uuid4().hex}" if self.signs else ""
        turns = TURN_LINE.findall(request.user.partition("<turns>")[2])
        records = [
            {"turns": [int(number)], "type": "fact", "text": f"{words[:LONGEST]}{sign}"}
            for number, words in turns
        ]
        text = json.dumps({"records": records, "note": f"After {turns[-1][1]}"})
        usage = Usage(
            stage=request.stage,
            model=self.name,
            calls=1,
            input_tokens=INPUT_TOKENS,
            output_tokens=OUTPUT_TOKENS,
        )
        return Completion(value=output.model_validate_json(text), text=text, truncated=False, usage=usage)

    def stream(self, request: ChatRequest) -> Generator[str, None, Completion[str]]:
        yield from ()
        raise NotImplementedError(request.stage)

    def close(self) -> None:
        """Do nothing: there is no connection."""


def open_eager(
    path: str | Path,
    model: ChatModel | None = None,
    *,
    encoder: EncoderSettings = IMPATIENT,
    chat: ChatSettings | None = None,
    consolidate: str | None = None,
) -> Memory:
    """Open a memory each turn of which is a segment, once the next turn or a flush has come."""
    settings = Settings(
        segment=SEGMENT_PRESETS["eager-turn"],
        encoder=encoder,
        chat=chat or ChatSettings(),
        background=HASTE,
    )
    return Memory(path, embedder=EMBEDDER, model=model, settings=settings, consolidate=consolidate)


def most(
    segments: int | None = None, *, budget_tokens: int | None = None, workers: int = 1
) -> ConsolidationLimits:
    return ConsolidationLimits(most_segments=segments, budget_tokens=budget_tokens, workers=workers)


def told(memory: Memory) -> list[str]:
    """Give the texts of the records, as they were made."""
    return [record.text for record in memory.records.records()]


def cited(memory: Memory) -> list[str]:
    """Give the turns that records were made from, a turn as often as there are records of it."""
    return sorted(turn_id for record in memory.records.records() for turn_id in record.turn_ids)


def states(memory: Memory) -> tuple[int, int, int, int]:
    """Give how many turns are open, pending, encoded and failed; together they are all turns."""
    turns = memory.segments.progress().turns
    assert turns.total == len(list(memory.turns()))
    return turns.open, turns.pending, turns.encoded, turns.failed


def spent_tokens(memory: Memory) -> tuple[int, int, int]:
    """Give the calls, input and output tokens that the memory has kept count of."""
    usage = memory.segments.usage()
    return (
        sum(one.calls for one in usage),
        sum(one.input_tokens for one in usage),
        sum(one.output_tokens for one in usage),
    )
