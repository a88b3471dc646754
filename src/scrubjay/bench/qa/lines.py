"""What a run writes down, a line of JSON each: questions, memories built, answers, verdicts, calls."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import JsonValue  # noqa: TC002 -- pydantic reads the annotations

from scrubjay.datatypes import Usage  # noqa: TC001 -- likewise


class JudgeTask(StrEnum):
    """How an answer is judged: LoCoMo's label protocol, or one of LongMemEval's yes/no questions."""

    LABEL = "label"
    CONTAINS = "contains"  # the answer is in it
    TEMPORAL = "temporal"  # likewise, and a count of days, weeks or months may be off by one
    UPDATE = "update"  # the updated answer is in it, whatever older one is named too
    PREFERENCE = "preference"  # it meets a description of what is wanted
    ABSTENTION = "abstention"  # it says that the question can't be answered


class Outcome(StrEnum):
    """What became of a question that was put to a system."""

    ANSWERED = "answered"
    ABSTAINED = "abstained"  # the system says that it doesn't know
    REFUSED = "refused"  # the model or its provider wouldn't
    FAILED = "failed"  # there was no reply that could be used


class Ruling(StrEnum):
    """What a judge said of an answer."""

    CORRECT = "correct"
    WRONG = "wrong"
    UNREADABLE = "unreadable"  # neither yes nor no; of a verdict: no majority for either
    REFUSED = "refused"  # the judge or its provider wouldn't


class Gold(StrEnum):
    """Which gold answer counts."""

    ORIGINAL = "original"
    CORRECTED = "corrected"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLine:
    """A question that was chosen, and what counts as right."""

    sample: str
    question_index: int
    category: str
    question: str
    answer: str
    evidence: tuple[str, ...]
    unanswerable: bool
    judge_task: JudgeTask
    correction: str = ""  # what is said to be wrong with the gold, where something is
    corrected_answer: str | None = None  # None: as it was
    corrected_evidence: tuple[str, ...] | None = None  # likewise

    @property
    def key(self) -> tuple[str, int]:
        return self.sample, self.question_index


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLine:
    """A conversation's memory is built."""

    sample: str
    turns: int
    usage: tuple[Usage, ...]
    counts: dict[str, int]  # what else a system tells of it, such as segments that failed
    seconds: float  # of the last start


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLine:
    """A question was put to the system."""

    sample: str
    question_index: int
    outcome: Outcome
    text: str
    cited: tuple[str, ...]  # turns
    unknown_citations: int  # numbers cited that nothing shown has
    context: tuple[str, ...] | None  # turns that were shown; None where the system doesn't tell
    context_tokens: int
    left_out: int  # turns that did not fit the window, of a system that shows all
    truncated: bool  # the answer met an output limit
    fallbacks: tuple[str, ...]  # cheaper paths taken, and why
    error: str
    usage: tuple[Usage, ...]
    seconds: float

    @property
    def key(self) -> tuple[str, int]:
        return self.sample, self.question_index


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """What the judge said once."""

    ruling: Ruling
    text: str  # as it came
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictLine:
    """An answer was judged."""

    sample: str
    question_index: int
    gold: Gold
    ruling: Ruling  # of more than half of the votes
    votes: tuple[Vote, ...]
    judge: str  # the model
    prompt: str  # its name in prompts/

    @property
    def key(self) -> tuple[str, int]:
        return self.sample, self.question_index


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLine:
    """A model was asked, and what came back; or only what it cost, where it has to be asked again."""

    key: str  # a hash of all that it was asked; "" where only the cost is kept
    scope: str  # the step, conversation and question it was asked for
    value: JsonValue  # what was read of the reply
    text: str  # the reply as it came
    truncated: bool
    usage: Usage | None
    error: str = ""  # there is no reply that can be used, and why
    rejected: bool = False  # the provider wouldn't take the request
    status: int | None = None  # of HTTP, where it was rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLine:
    """A run was started, or started again."""

    at: str
    python: str
    packages: dict[str, str]
