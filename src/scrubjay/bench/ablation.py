"""The paper's ablations without a model: memories made from a recorded encoder, their cost, and the evidence they find.

Construction tokens are those of the encoding calls, input and output, a conversation; query tokens those of what a
model is asked for an answer, a question (paper A.3, D). Both are counted by the bundled tokenizer. No answer is written
and no plan is asked for, so query tokens are of the input alone.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay.answer import AnswerTask, build_request
from scrubjay.bench.measures import QuestionRun, score_run, summarize
from scrubjay.bench.replay import ReplayModel, load_replay
from scrubjay.bench.segmentation import (
    boundaries_of,
    cut_session,
    measure_agreement,
    read_sessions,
    tally,
)
from scrubjay.bench.variants import CHAIN
from scrubjay.embed import count_tokens
from scrubjay.errors import SettingsError
from scrubjay.memory import Memory
from scrubjay.trace import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrubjay.bench.measures import ScoreTable
    from scrubjay.bench.questions import BenchQuestion, BenchSample, Dataset
    from scrubjay.bench.segmentation import Agreement, LabelledSession
    from scrubjay.bench.variants import Variant
    from scrubjay.embed import Embedder
    from scrubjay.evidence import Evidence

COSTS_ALONE = {"construction", "threshold"}  # tell of cost without a recording too
NEAR = 1  # turns that a boundary may lie apart from a recorded one
UNDATED_ASKED = datetime(2000, 1, 1, tzinfo=UTC)  # stands in the request where a question has no time


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What all variants are measured on."""

    dataset: Dataset
    path: Path | None  # of its file; boundaries are compared where there is one and a recording
    records: (
        Path | None
    )  # a recording of an encoder (bench/replay.py); None: calls are reckoned, not replayed
    max_tokens: int  # of the context
    embedder: Embedder


@dataclass(slots=True, kw_only=True)
class Spent:
    """What construction took, all conversations together."""

    conversations: int = 0
    turns: int = 0
    segments: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One variant's row: its cost by the paper's definitions, and what was found."""

    variant: Variant
    spent: Spent
    query_tokens: float | None  # a question; None where nothing was asked
    covered: ScoreTable | None  # evidence shown, and that records of few turns stand for
    reached: ScoreTable | None  # evidence shown, and that any record shown was made from
    exact: Agreement | None  # of boundaries with the recorded ones
    near: Agreement | None


@dataclass(slots=True)
class Found:
    """What a variant has found so far."""

    covered: list[QuestionRun] = field(default_factory=list)
    reached: list[QuestionRun] = field(default_factory=list)
    query_tokens: list[int] = field(default_factory=list)


def readable_variants(kind: str, variants: Sequence[Variant], grounds: Grounds) -> Sequence[Variant]:
    """Leave out what can't be told without records; raise SettingsError where nothing is left."""
    if grounds.records is not None or kind in COSTS_ALONE:
        return variants
    chains = [variant for variant in variants if variant.strategy == CHAIN]
    if kind == "representation":
        raise SettingsError("the ablation of representation needs a recording of an encoder: --records")
    return chains


def measure_variants(
    variants: Sequence[Variant],
    grounds: Grounds,
    *,
    advance: Callable[[int, int], None] = ignore_progress,
) -> list[Outcome]:
    """Make every variant's memories, and read every answerable question's evidence from them.

    Variants that make memories alike share them. Without a recording, only those that read no records are asked.
    """
    samples = [keep_answerable(sample) for sample in grounds.dataset.samples]
    groups = group_by_making(variants)
    spent = [Spent() for _ in groups]
    found: dict[str, Found] = defaultdict(Found)
    for number, sample in enumerate(samples):
        for place, group in enumerate(groups):
            measure_sample(sample, group, grounds, spent=spent[place], found=found)
            advance(number * len(groups) + place + 1, len(samples) * len(groups))
    sessions = labelled_sessions(grounds)
    cost_of = {variant.name: spent[place] for place, group in enumerate(groups) for variant in group}
    return [
        make_outcome(variant, cost_of[variant.name], found.get(variant.name), samples, sessions)
        for variant in variants
    ]


def keep_answerable(sample: BenchSample) -> BenchSample:
    kept = (question for question in sample.questions if question.evidence and not question.unanswerable)
    return replace(sample, questions=tuple(kept))


def group_by_making(variants: Sequence[Variant]) -> list[list[Variant]]:
    """Put together the variants whose memories are made alike."""
    groups: list[list[Variant]] = []
    for variant in variants:
        same = next((group for group in groups if making(group[0]) == making(variant)), None)
        if same is None:
            groups.append([variant])
        else:
            same.append(variant)
    return groups


def making(variant: Variant) -> object:
    return variant.settings.segment, variant.settings.encoder


def measure_sample(
    sample: BenchSample,
    group: Sequence[Variant],
    grounds: Grounds,
    *,
    spent: Spent,
    found: dict[str, Found],
) -> None:
    """Make one memory, and read it as each variant does."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "memory.jay"
        make_memory(path, sample, group[0], grounds, spent=spent)
        for variant in (one for one in group if grounds.records or one.strategy == CHAIN):
            with Memory(path, settings=variant.settings, embedder=grounds.embedder, read_only=True) as memory:
                read_memory(memory, sample, variant, grounds, found[variant.name])


def make_memory(path: Path, sample: BenchSample, variant: Variant, grounds: Grounds, *, spent: Spent) -> None:
    """Fill a memory and have it encoded from the recording; without one, reckon what encoding would take."""
    records = grounds.records
    model = load_replay(records, sample.sample, count_tokens=count_tokens) if records else None
    with Memory(path, settings=variant.settings, embedder=grounds.embedder, model=model) as memory:
        for session in sample.conversation.sessions:
            memory.add_many((session.session_id, turn) for turn in session.turns)
            spent.turns += len(session.turns)
        spent.conversations += 1
        if model is None:
            plan = memory.plan_consolidation(flush=True)
            spent.segments += plan.segments
            note_calls(spent, plan.calls, plan.input_tokens, plan.output_tokens)
        else:
            report = memory.consolidate(flush=True)
            spent.segments += report.closed
            for usage in report.usage:
                note_calls(spent, usage.calls, usage.input_tokens, usage.output_tokens)


def note_calls(spent: Spent, calls: int, input_tokens: int, output_tokens: int) -> None:
    spent.calls += calls
    spent.input_tokens += input_tokens
    spent.output_tokens += output_tokens


def read_memory(
    memory: Memory, sample: BenchSample, variant: Variant, grounds: Grounds, found: Found
) -> None:
    for question in sample.questions:
        evidence = memory.recall(
            question.question,
            strategy=variant.strategy,
            max_tokens=grounds.max_tokens,
            now=question.asked_at,
            asker=question.asked_by,
        )
        reached = (turn_id for link in evidence.records for turn_id in link.turn_ids)
        budget = grounds.max_tokens
        found.covered.append(make_run(question, budget, evidence.covered_turn_ids))
        found.reached.append(make_run(question, budget, tuple(dict.fromkeys((*evidence.turn_ids, *reached)))))
        found.query_tokens.append(count_query(evidence, question, memory))


def make_run(question: BenchQuestion, budget: int, turn_ids: tuple[str, ...]) -> QuestionRun:
    return QuestionRun(
        sample=question.sample,
        question_index=question.question_index,
        ranking=turn_ids,
        evidence={budget: turn_ids},
    )


def count_query(evidence: Evidence, question: BenchQuestion, memory: Memory) -> int:
    """Count the tokens of what a model would be asked for the answer."""
    task = AnswerTask(
        evidence=evidence,
        now=question.asked_at or UNDATED_ASKED,
        recent=(),
        model=ReplayModel([]),  # nobody is asked
        settings=memory.settings.answer,
    )
    request = build_request(task)
    return sum(count_tokens([request.system, request.user]))


def labelled_sessions(grounds: Grounds) -> list[LabelledSession]:
    """Give the sessions whose recorded boundaries can be compared; none without a file and a recording."""
    if grounds.path is None or grounds.records is None:
        return []
    wanted = {sample.sample for sample in grounds.dataset.samples}
    sessions = read_sessions(grounds.path, grounds.embedder, count_tokens, segments=grounds.records)
    return [session for session in sessions if session.conversation_id in wanted]


def make_outcome(
    variant: Variant,
    spent: Spent,
    found: Found | None,
    samples: Sequence[BenchSample],
    sessions: Sequence[LabelledSession],
) -> Outcome:
    cuts = [boundaries_of(cut_session(session, variant.settings.segment)) for session in sessions]
    exact, near = (
        measure_agreement(tally(sessions, cuts, within=within)) if sessions else None for within in (0, NEAR)
    )
    if found is None or not found.query_tokens:
        return Outcome(
            variant=variant,
            spent=spent,
            query_tokens=None,
            covered=None,
            reached=None,
            exact=exact,
            near=near,
        )
    return Outcome(
        variant=variant,
        spent=spent,
        query_tokens=sum(found.query_tokens) / len(found.query_tokens),
        covered=summarize(score_run(samples, found.covered)),
        reached=summarize(score_run(samples, found.reached)),
        exact=exact,
        near=near,
    )
