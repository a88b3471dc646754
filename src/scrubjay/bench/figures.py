"""Figures that benchmarks wrote, read again: what `bench plot` draws."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrubjay.errors import SettingsError
from scrubjay.formats.source import Entry, open_source
from scrubjay.formats.validation import Untrusted, check_shape

if TYPE_CHECKING:
    from pathlib import Path

REPORT = "report.json"  # of a run of `bench qa`


class Span(Untrusted):
    """A mean with its 95 % interval, 0 to 1."""

    mean: float
    low: float
    high: float


class SystemFigures(Untrusted):
    system: str
    overall: dict[str, Span]
    categories: dict[str, dict[str, Span]]
    latency_ms: dict[str, float]
    turns: int


class RetrievalFigures(Untrusted):
    """`bench retrieval --json`."""

    dataset: str
    systems: list[SystemFigures]


class VariantFigures(Untrusted):
    variant: str
    construction_tokens: float
    query_tokens: float | None
    shown: dict[str, Span] | None


class AblationFigures(Untrusted):
    """`bench ablation --out`, `bench sweep --out`."""

    ablation: str
    dataset: str
    max_tokens: int
    replayed: bool
    preset: str | None = None
    variants: list[VariantFigures]


class SizesFigures(Untrusted):
    """`bench sizes --out`."""

    sizes: list[SystemFigures]


class RunIdentity(Untrusted):
    system: str
    dataset: str


class RunGroup(Untrusted):
    values: dict[str, Span]


class RunCost(Untrusted):
    construction_k: float
    query_k: float


class RunFigures(Untrusted):
    """The report of a run of `bench qa`."""

    run: RunIdentity
    overall: RunGroup
    categories: dict[str, RunGroup]
    cost: RunCost


@dataclass(slots=True)
class Figures:
    """All that was found, by kind."""

    retrieval: list[RetrievalFigures] = field(default_factory=list)
    ablations: list[AblationFigures] = field(default_factory=list)
    sizes: list[SizesFigures] = field(default_factory=list)
    runs: list[RunFigures] = field(default_factory=list)


KEYS: tuple[tuple[str, type[Untrusted]], ...] = (
    ("ablation", AblationFigures),
    ("sizes", SizesFigures),
    ("systems", RetrievalFigures),
    ("run", RunFigures),
)


def read_figures(paths: list[Path]) -> Figures:
    """Read files, and of folders their report or all their JSON; raise SettingsError for a file that is none of these."""
    found = Figures()
    for path in (file for given in paths for file in files_of(given)):
        add_figures(path, found)
    return found


def files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return [path / REPORT] if (path / REPORT).exists() else sorted(path.glob("*.json"))


def add_figures(path: Path, found: Figures) -> None:
    document = open_source(path).document
    shape = next((shape for key, shape in KEYS if isinstance(document, dict) and key in document), None)
    if shape is None:
        raise SettingsError(
            f"{path}: expected figures of bench retrieval, ablation, sweep, sizes or qa, found "
            f"{', '.join(document) if isinstance(document, dict) else json.dumps(document)[:60]}"
        )
    read: Untrusted = check_shape(shape, document, entry=Entry(path=path, where="file"))
    match read:
        case AblationFigures():
            found.ablations.append(read)
        case SizesFigures():
            found.sizes.append(read)
        case RetrievalFigures():
            found.retrieval.append(read)
        case RunFigures():
            found.runs.append(read)
