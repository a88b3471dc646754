"""READ: a question is answered from its evidence by one model call (LycheeMemory V2, F.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from scrubjay.asking import quote_evidence, render_moment, render_question, render_recent
from scrubjay.documents import usage_document
from scrubjay.errors import ModelReplyError, after_spending
from scrubjay.llm import ChatRequest
from scrubjay.llm.replies import THINKING_OPENS, without_thinking
from scrubjay.prompts import load_prompt

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from datetime import datetime

    from scrubjay.datatypes import JsonValue, TimeRange, Usage
    from scrubjay.evidence import Evidence
    from scrubjay.llm import ChatModel, Completion
    from scrubjay.settings import AnswerSettings

STAGE = "answer"
TOO_LONG = "the evidence is too long for the model: ask with a smaller max_tokens"
NOTHING = 0  # the number that a model cites for "the evidence doesn't say"
CITATION = re.compile(r"[\[【［]\s*(#?\d{1,6}(?:\s*[,;，、–-]\s*#?\d{1,6})*)\s*[\]】］]")
NUMBERS = re.compile(r"(\d+)\s*[–-]\s*#?(\d+)|(\d+)")
MOST_IN_RANGE = 100  # lines that "[3-9]" may stand for
UNANSWERED = re.compile(r"\s*[\[【［]\s*#?0+\s*[\]】］][\s:.,-]*")
UNDECIDED = re.compile(r"\s*(?:[\[【［]\s*#?0*\s*(?:[\]】］][\s:.,-]*)?)?")
"""The beginning of a stream that may still become [0]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model answered from evidence, and which turns it relies on."""

    question: str
    text: str  # with its citations, such as [2]; "" where nothing was found and so nobody was asked
    citations: tuple[str, ...]  # turn ids behind the numbers cited, in the order they are cited first
    numbers: tuple[int, ...]  # cited, of lines of the evidence
    unknown_numbers: tuple[int, ...]  # cited, but at the beginning of no line: not to be relied on
    abstained: bool  # the evidence doesn't answer the question
    truncated: bool  # the answer met an output limit
    usage: tuple[Usage, ...]  # by stage: the plan, where there was a call for it, and the answer
    evidence: Evidence

    def to_dict(self) -> dict[str, JsonValue]:
        """Give all of it as JSON values."""
        return {
            "question": self.question,
            "answer": self.text,
            "citations": list(self.citations),
            "numbers": list(self.numbers),
            "unknown_numbers": list(self.unknown_numbers),
            "abstained": self.abstained,
            "truncated": self.truncated,
            "usage": [usage_document(usage) for usage in self.usage],
            "evidence": self.evidence.to_dict(),
        }


class RecallOptions(TypedDict, total=False):
    """What `Memory.recall` takes beside the question."""

    strategy: str | None
    max_tokens: int | None
    deadline: float | None
    now: datetime | None
    time_range: TimeRange | None
    asker: str | None
    recent: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTask:
    """Evidence, and whom to ask for an answer from it."""

    evidence: Evidence
    now: datetime  # when the question is asked
    recent: Sequence[str]  # last lines of the conversation it belongs to
    model: ChatModel
    settings: AnswerSettings


def answer_question(task: AnswerTask) -> Answer:
    """Answer with one call, or none where there is no evidence; raise what the model raises, with what the plan cost."""
    if not task.evidence.text:
        return find_nothing(task.evidence)
    with after_spending(task.evidence.usage):
        completion = task.model.complete(build_request(task), str)
        if completion.value is None:
            raise ModelReplyError(f"{task.model.name}: {TOO_LONG}", usage=completion.usage)
    return read_answer(completion, task.evidence)


class AnswerStream:
    """An answer as it is written: iterate over its pieces, once; then `answer` is all of it."""

    def __init__(self, task: AnswerTask) -> None:
        self.evidence = task.evidence
        self.answer: Answer | None = None if task.evidence.text else find_nothing(task.evidence)
        self._pieces = self._write(task) if task.evidence.text else iter(())

    def __iter__(self) -> Iterator[str]:
        return self._pieces

    def _write(self, task: AnswerTask) -> Iterator[str]:
        with after_spending(task.evidence.usage):
            completion = yield from hold_back(task.model.stream(build_request(task)))
        self.answer = read_answer(completion, task.evidence)


def build_request(task: AnswerTask) -> ChatRequest:
    """Put the question to the model, with its evidence as quoted data."""
    evidence, settings = task.evidence, task.settings
    said = render_recent(task.recent, lines=settings.recent_lines, characters=settings.recent_characters)
    asked = render_question(evidence.question)
    return ChatRequest(
        stage=STAGE,
        system=load_prompt("answer"),
        user=f"Asked: {render_moment(task.now)}\n{quote_evidence(evidence.text)}\n{said}{asked}",
        max_output_tokens=settings.max_output_tokens,
        turn_ids=evidence.turn_ids,
    )


def find_nothing(evidence: Evidence) -> Answer:
    """Abstain without asking: there is nothing to answer from."""
    return Answer(
        question=evidence.question,
        text="",
        citations=(),
        numbers=(),
        unknown_numbers=(),
        abstained=True,
        truncated=False,
        usage=evidence.usage,
        evidence=evidence,
    )


def read_answer(completion: Completion[str], evidence: Evidence) -> Answer:
    """Read an answer: the numbers it cites become turn ids, those that stand at no line are kept apart."""
    written = (completion.value or "").strip()
    says_nothing = UNANSWERED.match(written)
    text = written[says_nothing.end() :] if says_nothing else written
    turns_at = number_turns(evidence)
    numbers = cited_numbers(text)
    cited = tuple(number for number in numbers if number in turns_at)
    return Answer(
        question=evidence.question,
        text=text,
        citations=tuple(dict.fromkeys(turn_id for number in cited for turn_id in turns_at[number])),
        numbers=cited,
        unknown_numbers=tuple(number for number in numbers if number not in turns_at and number != NOTHING),
        abstained=says_nothing is not None or (NOTHING in numbers and not cited),
        truncated=completion.truncated,
        usage=(*evidence.usage, completion.usage),
        evidence=evidence,
    )


def number_turns(evidence: Evidence) -> dict[int, tuple[str, ...]]:
    """Give the turns behind each number of the context: a turn's own, and those that a record was made from."""
    turns = {link.number: (link.turn.turn_id,) for link in evidence.links}
    return turns | {link.number: link.turn_ids for link in evidence.records}


def cited_numbers(text: str) -> tuple[int, ...]:
    """Give the numbers in square brackets, such as [2], [1, 4] or [2-3], in the order they come first."""
    numbers: list[int] = []
    for citation in CITATION.finditer(text):
        for first, last, single in NUMBERS.findall(citation[1]):
            start, stop = (int(single), int(single)) if single else (int(first), int(last))
            numbers.extend(range(start, min(stop, start + MOST_IN_RANGE) + 1))
    return tuple(dict.fromkeys(numbers))


def hold_back(pieces: Generator[str, None, Completion[str]]) -> Generator[str, None, Completion[str]]:
    """Give the pieces of a stream, but for what a reader shouldn't see: thinking before it, and a [0] that opens it."""
    held, shows = "", False
    while True:
        try:
            piece = next(pieces)
        except StopIteration as stop:
            completion: Completion[str] = stop.value
            return completion
        if shows:
            yield piece
            continue
        held += piece
        rest = begin_of(held)
        if not UNDECIDED.fullmatch(rest):
            shows = True
            opening = UNANSWERED.match(rest)
            yield rest[opening.end() :] if opening else rest


def begin_of(held: str) -> str:
    """Give the beginning of an answer without what was thought before; "" while that may go on."""
    begun = held.lstrip()
    if any(opening.startswith(begun) for opening in THINKING_OPENS):
        return ""
    return without_thinking(begun)
