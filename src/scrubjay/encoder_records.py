"""Records out of the items a model wrote: each checked against the turns it cites, with a reason where it fails. Pure."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from pydantic import ValidationError

from scrubjay.counting import number_of
from scrubjay.datatypes import Record, RecordTime, RecordType, Stance
from scrubjay.encoder_reply import RecordItem
from scrubjay.iso_dates import read_iso
from scrubjay.support import Sources, check_support, is_date_supported

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic import JsonValue

    from scrubjay.datatypes import ReferenceContext, Turn
    from scrubjay.settings import EncoderSettings

ID_BYTES = 16
ENDS = " .。!！;；"  # what may end a statement without making it another
SPACE = re.compile(r"\s+")
SHOWN = 80  # characters of an item's own words in a reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTurn:
    """A turn as the encoder sees it: its number in the request, and its words without recalled memory."""

    number: int
    turn: Turn
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """All that the encoder was shown, to check its reply against."""

    turns: tuple[ShownTurn, ...]
    reference: ReferenceContext
    settings: EncoderSettings

    def sources(self, cited: Sequence[ShownTurn]) -> Sources:
        return Sources(
            cited=tuple((one.turn, one.words) for one in cited),
            around=tuple((one.turn, one.words) for one in self.turns),
            reference=self.reference,
        )


def read_items(items: Sequence[JsonValue], shown: Shown) -> tuple[list[Record], list[str]]:
    """Give the records that can be used, and for all that can't the reason."""
    records: list[Record] = []
    dropped: list[str] = []
    for number, item in enumerate(items[: shown.settings.most_records], start=1):
        try:
            record, faults = read_item(RecordItem.model_validate(item), shown)
        except ValidationError as error:
            record, faults = None, [describe(error)]
        dropped.extend(f"record {number}: {fault}" for fault in faults)
        if record is not None:
            records.append(record)
    if (over := len(items) - shown.settings.most_records) > 0:
        dropped.append(
            f"{number_of(over, 'record')} more than the {shown.settings.most_records} that are read of one reply"
        )
    return records, dropped


def describe(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: {fault['msg']}"


def read_item(item: RecordItem, shown: Shown) -> tuple[Record | None, list[str]]:
    text = SPACE.sub(" ", item.text).strip()
    if not text or len(text) > shown.settings.longest_record:
        found = f"{len(text):,} characters" if text else "no text"
        return None, [
            f"expected a statement of at most {shown.settings.longest_record:,} characters, found {found}"
        ]
    cited = [one for one in shown.turns if one.number in item.turns]
    faults = [f"cites turn {number}, which it wasn't shown" for number in find_unknown(item.turns, cited)]
    if not cited:
        return None, faults or ["cites no turn"]
    sources = shown.sources(cited)
    entities, over_entities = read_labels(item.entities, shown.settings.most_labels)
    tags, over_tags = read_labels(item.tags, shown.settings.most_labels)
    faults += [f"{over} labels too many" for over in (over_entities + over_tags,) if over]
    time, time_faults = read_times(item, sources)
    record = Record(
        record_id=record_id(item.type, text),
        type=RecordType(item.type),
        text=text,
        entities=entities,
        tags=tags,
        time=time,
        stance=Stance(item.stance),
        speaker=find_speaker(item.speaker, cited),
        support=check_support(
            text, entities=entities, time=time, sources=sources, settings=shown.settings.support
        ),
        turn_ids=tuple(dict.fromkeys(one.turn.turn_id for one in cited)),
    )
    return record, faults + time_faults


def find_unknown(numbers: Iterable[int], cited: Iterable[ShownTurn]) -> list[int]:
    known = {one.number for one in cited}
    return [number for number in dict.fromkeys(numbers) if number not in known]


def read_labels(given: Sequence[str], most: int) -> tuple[tuple[str, ...], int]:
    """Give each label once, and how many there are too many."""
    labels: dict[str, str] = {}
    for label in given:
        if name := SPACE.sub(" ", label).strip():
            labels.setdefault(name.casefold(), name)
    return tuple(labels.values())[:most], max(0, len(labels) - most)


def read_times(item: RecordItem, sources: Sources) -> tuple[RecordTime, list[str]]:
    """Give the times that are dates; where no cited turn has a time of its own, only those it names outright."""
    faults: list[str] = []
    undated = all(turn.said_at is None for turn, _ in sources.cited)

    def read(name: str, given: str | None) -> str | None:
        iso = read_iso(given) if given else None
        if given and iso is None:
            faults.append(f"{name}: {given[:SHOWN]!r} is no date")
        if iso and undated and not is_date_supported(iso, sources):
            faults.append(f"{name}: {iso} can't follow from turns whose own time isn't known")
            return None
        return iso

    start, end = read("t_valid_from", item.t_valid_from), read("t_valid_to", item.t_valid_to)
    if start and end and end < start[: len(end)]:
        faults.append(f"t_valid_to: {end} is before t_valid_from, {start}")
        end = None
    return RecordTime(t_ref=read("t_ref", item.t_ref), t_valid_from=start, t_valid_to=end), faults


def find_speaker(given: str | None, cited: Sequence[ShownTurn]) -> str | None:
    """Give who said it, by the turns cited: the one the model names if they spoke, or the only one who did."""
    speakers = list(dict.fromkeys(one.turn.speaker for one in cited if one.turn.speaker))
    named = [speaker for speaker in speakers if given and speaker.casefold() == given.strip().casefold()]
    return next(iter(named or speakers), None) if named or len(speakers) == 1 else None


def make_summary(summary: str, shown: Shown) -> list[Record]:
    """Give one record that stands for the whole segment, without typed fields (paper E.2)."""
    text = SPACE.sub(" ", summary).strip()
    if not text:
        return []
    time, support = RecordTime(), shown.settings.support
    sources = shown.sources(shown.turns)
    return [
        Record(
            record_id=record_id(RecordType.FACT, text),
            type=RecordType.FACT,
            text=text,
            entities=(),
            tags=(),
            time=time,
            stance=Stance.ASSERTED,
            speaker=find_speaker(None, shown.turns),
            support=check_support(text, entities=(), time=time, sources=sources, settings=support),
            turn_ids=tuple(dict.fromkeys(one.turn.turn_id for one in shown.turns)),
        )
    ]


def record_id(record_type: str, text: str) -> str:
    """Give the id of a statement: the same words of the same type, said again, are the same record."""
    plain = SPACE.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip(ENDS)
    return blake2b(f"{record_type}\n{plain}".encode(), digest_size=ID_BYTES).hexdigest()
