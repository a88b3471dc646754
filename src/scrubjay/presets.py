"""Tables: what each type of question changes in a read, and whole settings by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scrubjay.datatypes import RecordType, Role
from scrubjay.reading_settings import (
    ReadingSettings,
    RecallChannel,
    RecallSettings,
    SelectionSettings,
    TurnsBy,
)
from scrubjay.routes import QuestionType
from scrubjay.settings import CHAIN_PRESETS, SEGMENT_PRESETS, EncoderSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionPreset:
    """What a type of question changes."""

    nodes: float = 1.0  # times the channel's budget; the next three likewise
    records: float = 1.0
    turns: float = 1.0
    time: float = 1.0
    roles: tuple[Role, ...] = ()  # whose turns are looked for
    first_types: tuple[RecordType, ...] = ()  # records of the person that come first, whatever the words
    before: int = 0  # turns of the session restored before each turn, at least
    after: int = 0  # and after


QUESTION_PRESETS: Mapping[QuestionType, QuestionPreset] = {
    QuestionType.SINGLE: QuestionPreset(),
    QuestionType.AGGREGATE: QuestionPreset(nodes=2.0, records=2.0),
    QuestionType.TEMPORAL: QuestionPreset(time=2.0),
    QuestionType.COMPARISON: QuestionPreset(nodes=1.5, records=1.5),
    QuestionType.PERSONALIZED_ADVICE: QuestionPreset(
        records=1.5, first_types=(RecordType.PREFERENCE, RecordType.CONSTRAINT)
    ),
    QuestionType.PRIOR_ASSISTANT_RESPONSE: QuestionPreset(
        turns=2.0, roles=(Role.ASSISTANT,), before=1, after=1
    ),
    QuestionType.OTHER: QuestionPreset(),
}

PAPER_READING = ReadingSettings(
    recall=RecallSettings(turns_by=TurnsBy.CHANNELS), selection=SelectionSettings(by_tokens=False)
)
PAPER = Settings(segment=SEGMENT_PRESETS["lychee-v2"], reading=PAPER_READING)
"""LycheeMemory V2: Tables 10 to 14."""

PRESETS: Mapping[str, Settings] = {
    **{name: Settings(chain=chain, strategy="chain") for name, chain in CHAIN_PRESETS.items()},
    "default": Settings(),
    "lychee-v2": PAPER,
    "no-planner": replace(
        PAPER, reading=replace(PAPER_READING, recall=replace(PAPER_READING.recall, planned=False))
    ),  # E.3
    "record-vector-only": replace(
        PAPER,
        reading=replace(
            PAPER_READING,
            recall=replace(PAPER_READING.recall, channels=(RecallChannel.RECORDS,), dense_share=1.0),
        ),
    ),  # E.3
    "no-fusion": replace(
        PAPER, reading=replace(PAPER_READING, selection=replace(PAPER_READING.selection, fused=False))
    ),  # E.3
    "summary-records": replace(PAPER, encoder=EncoderSettings(summaries=True)),  # E.2
    "no-reference": replace(PAPER, encoder=EncoderSettings(use_reference=False)),  # E.2
    "fixed-window": replace(PAPER, segment=SEGMENT_PRESETS["fixed-window"]),  # E.1
    "eager": replace(PAPER, segment=SEGMENT_PRESETS["eager"]),  # E.1
    "eager-turn": replace(PAPER, segment=SEGMENT_PRESETS["eager-turn"]),  # E.1
}
