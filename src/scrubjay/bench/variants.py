"""What the paper's ablations compare: whole settings by name, each with what it changes (LycheeMemory V2, E)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scrubjay.bench.systems import find_system
from scrubjay.errors import SettingsError
from scrubjay.settings import SEGMENT_PRESETS, SegmentSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLANNED = "planned"
CHAIN = "chain"
UNBOUNDED = 1_000_000  # tokens or exchanges that no session has

WHOLE_SESSIONS = SegmentSettings(
    semantic=False, target_tokens=UNBOUNDED, most_tokens=UNBOUNDED, most_exchanges=UNBOUNDED
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One row of a table: how a memory is made and how it is read."""

    name: str
    about: str
    settings: Settings
    strategy: str = PLANNED


def segmented(name: str, about: str, segment: SegmentSettings) -> Variant:
    return Variant(name=name, about=about, settings=replace(Settings(), segment=segment))


def construction_variants() -> Sequence[Variant]:
    """Give the ways to segment; what is made is read alike (Table 3, E.1)."""
    presets = SEGMENT_PRESETS
    return (
        segmented("default", "cut where the matter changes, our signals", presets["default"]),
        segmented("lychee-v2", "cut where the matter changes, the paper's signals", presets["lychee-v2"]),
        segmented("eager-turn", "a call a turn", presets["eager-turn"]),
        segmented("eager", "a call an exchange", presets["eager"]),
        segmented("fixed-window", "600 tokens or 10 exchanges", presets["fixed-window"]),
        segmented("session", "a call a session", WHOLE_SESSIONS),
    )


def representation_variants() -> Sequence[Variant]:
    """Give what is kept and shown (Table 4, E.2), and turns alone, without any record."""
    default = Settings()
    summaries = replace(default, encoder=replace(default.encoder, summaries=True))
    alone = find_system("records").settings.reading
    return (
        Variant(name="records+turns", about="records and turns, the default", settings=default),
        Variant(name="records", about="records alone", settings=replace(default, reading=alone)),
        Variant(name="turns", about="turns alone: nothing is constructed", settings=default, strategy=CHAIN),
        Variant(
            name="summaries", about="a summary a segment, alone", settings=replace(summaries, reading=alone)
        ),
        Variant(name="summaries+turns", about="a summary a segment, and turns", settings=summaries),
        Variant(
            name="no-reference",
            about="records and turns, segments encoded without what came before",
            settings=replace(default, encoder=replace(default.encoder, use_reference=False)),
        ),
    )


def retrieval_variants() -> Sequence[Variant]:
    """Give the ways to read one memory (Table 5, E.3; and Chain on Demand's steps)."""
    planned = ("planned", "records", "planned-no-chain")
    without = tuple(f"planned-minus-{channel}" for channel in ("records", "nodes", "time", "turns"))
    papers = ("lychee-v2", "record-vector-only", "no-fusion")
    chains = ("chain", "cod-relevance", "cod-diversity", "cod-coverage", "cod")
    return tuple(
        Variant(
            name=name,
            about=find_system(name).about,
            # how it was made is no part of this table: all read the same records
            settings=replace(find_system(name).settings, segment=SegmentSettings()),
            strategy=CHAIN if name in chains else PLANNED,
        )
        for name in (*planned, *without, *papers, *chains)
    )


def threshold_variants(thresholds: Sequence[float], *, preset: str) -> Sequence[Variant]:
    """Give a preset with other boundary thresholds (Figure 5)."""
    if preset not in SEGMENT_PRESETS:
        raise SettingsError(f"preset: expected one of {', '.join(SEGMENT_PRESETS)}, found {preset!r}")
    segment = SEGMENT_PRESETS[preset]
    return tuple(
        segmented(
            f"{threshold:.2f}",
            f"{preset}, cut from a probability of {threshold:.2f}",
            replace(segment, cut_probability=threshold),
        )
        for threshold in thresholds
    )


ABLATIONS: Mapping[str, Sequence[Variant]] = {
    "construction": construction_variants(),
    "representation": representation_variants(),
    "retrieval": retrieval_variants(),
}


def find_variants(kind: str) -> Sequence[Variant]:
    if kind not in ABLATIONS:
        raise SettingsError(f"ablation: expected one of {', '.join(ABLATIONS)}, found {kind!r}")
    return ABLATIONS[kind]


def read_range(text: str, *, step: float) -> tuple[float, ...]:
    """Read "0.30..0.70" as the values from the one to the other; a value alone is itself."""
    first, dots, last = text.partition("..")
    try:
        start, stop = float(first), float(last if dots else first)
    except ValueError as error:
        raise SettingsError(f"range: expected values such as 0.30..0.70, found {text!r}") from error
    if not 0 < start <= stop < 1:
        raise SettingsError(f"range: expected probabilities above 0 and below 1, rising, found {text!r}")
    return tuple(round(start + step * place, 6) for place in range(round((stop - start) / step) + 1))
