"""What systems that answer through ScrubJay share: turns as evidence, and an answer as it is written down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.answer import AnswerTask, answer_question
from scrubjay.bench.qa.selection import UNDATED
from scrubjay.bench.qa.systems import AnswerGiven, CallEstimate
from scrubjay.context import ContextItem, render_context
from scrubjay.datatypes import Link, LinkKind
from scrubjay.embed import count_tokens
from scrubjay.evidence import Evidence
from scrubjay.prompts import load_prompt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.answer import Answer
    from scrubjay.bench.qa.systems import SystemTask
    from scrubjay.bench.questions import BenchQuestion
    from scrubjay.datatypes import Turn

ANSWER_PROMPT = "answer"
ANSWER_OUTPUT = 80  # tokens of an answer, in a dry run
QUESTION_TOKENS = 40  # of a question and what stands around it, likewise


def show_turns(
    question: str, turns: Sequence[Turn], *, session_order: Sequence[str], max_tokens: int
) -> Evidence:
    """Make evidence of turns, given best first: those that fit, shown in the order of the conversation."""
    place_of = {session_id: place for place, session_id in enumerate(session_order)}
    items = [
        ContextItem(turn=turn, session=place_of[turn.session_id], value=float(-rank), excerpt=None)
        for rank, turn in enumerate(turns)
    ]
    context = render_context(items, max_tokens=max_tokens, count_tokens=count_tokens)
    links = tuple(
        Link(
            number=number,
            turn=items[place].turn,
            kind=LinkKind.ANCHOR,
            reason=f"rank {place + 1}",
            anchor=None,
            rank=place + 1,
            probability=0.0,
            channels={},
            new_terms=(),
            excerpt=None,
            tokens=tokens,
        )
        for number, (place, tokens) in enumerate(
            zip(context.shown, context.line_tokens, strict=True), start=1
        )
    )
    return Evidence(
        question=question,
        strategy="turns",
        links=links,
        text=context.text,
        tokens=context.tokens,
        max_tokens=max_tokens,
        time_range=None,
        trace=(),
    )


def answer_from(evidence: Evidence, question: BenchQuestion, task: SystemTask) -> Answer:
    """Ask for an answer from evidence as `Memory.answer` does, whatever system found it."""
    return answer_question(
        AnswerTask(
            evidence=evidence,
            now=question.asked_at or UNDATED,
            recent=(),
            model=task.model,
            settings=task.setup.settings.answer,
        )
    )


def give_answer(answer: Answer, *, left_out: int = 0) -> AnswerGiven:
    evidence = answer.evidence
    return AnswerGiven(
        text=answer.text,
        abstained=answer.abstained,
        truncated=answer.truncated,
        cited=answer.citations,
        unknown_citations=len(answer.unknown_numbers),
        context=evidence.covered_turn_ids,
        context_tokens=evidence.tokens,
        left_out=left_out,
        fallbacks=tuple(f"{stage.name}: {stage.fallback}" for stage in evidence.trace if stage.fallback),
    )


def estimate_answer(context_tokens: int) -> CallEstimate:
    system = count_tokens([load_prompt(ANSWER_PROMPT)])[0]
    return CallEstimate(
        calls=1, input_tokens=system + QUESTION_TOKENS + context_tokens, output_tokens=ANSWER_OUTPUT
    )
