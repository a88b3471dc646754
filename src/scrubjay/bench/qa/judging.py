"""Judge an answer: a model is asked as LoCoMo's or LongMemEval's protocol asks, and its verdict read strictly.

A verdict that is neither yes nor no, and a judge that refuses, count as such: never as yes, and never as not asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrubjay.bench.qa.lines import Gold, JudgeTask, Outcome, Ruling, VerdictLine, Vote
from scrubjay.errors import ModelError, ModelRejectedError
from scrubjay.llm import ChatRequest
from scrubjay.prompts import load_prompt
from scrubjay.quoting import CONTINUED, LINE_BREAK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.bench.qa.calls import KeptModel
    from scrubjay.bench.qa.lines import AnswerLine, QuestionLine

STAGE = "judge"
YES_NO_TOKENS = 10  # LongMemEval: the longest verdict
LABEL_TOKENS = 60  # LoCoMo: a label in JSON, which some put in a fence
SILENT = (
    "I don't know: the memory holds nothing about this."  # stands for an answer that nobody was asked for
)
TAGS = re.compile(r"<(?=\s*/?\s*(?:question|gold|answer)\b)", re.IGNORECASE)
LABEL = re.compile(r"[\"']?label[\"']?\s*[:=]\s*[\"']?(\w+)", re.IGNORECASE)
RULINGS = {
    "correct": Ruling.CORRECT,
    "yes": Ruling.CORRECT,
    "wrong": Ruling.WRONG,
    "incorrect": Ruling.WRONG,
    "no": Ruling.WRONG,
}
REFUSAL = re.compile(
    r"\W*(?:(?:i['’]?m |i am )?(?:very )?sorry\W+(?:but )?)?(?:as an ai\b.{0,60}?)?i (?:can['’]?t|cannot|can not|won['’]?t|am unable to"
    r"|['’]?m unable to|am not able to|must decline to)\s+(?:help|assist|comply|fulfil|fulfill|continue|discuss|engage|provide|answer)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Who judges, and how often each answer."""

    model: KeptModel
    votes: int


def prompt_name(task: JudgeTask) -> str:
    return f"judge_{task.value}"


def judge_answer(question: QuestionLine, answer: AnswerLine, judge: Judge, *, gold: Gold) -> VerdictLine:
    """Ask the judge about an answer, as often as there are votes; raise what puts the question off."""
    votes: list[Vote] = []
    for number in range(1, judge.votes + 1):
        judge.model.scope = f"judge/{question.sample}/{question.question_index}/{gold.value}/{number}"
        votes.append(cast_vote(question, answer, judge.model, gold=gold))
    return VerdictLine(
        sample=question.sample,
        question_index=question.question_index,
        gold=gold,
        ruling=find_majority(votes),
        votes=tuple(votes),
        judge=judge.model.name,
        prompt=prompt_name(question.judge_task),
    )


def cast_vote(question: QuestionLine, answer: AnswerLine, model: KeptModel, *, gold: Gold) -> Vote:
    request = build_request(question, answer, gold=gold)
    try:
        completion = model.complete(request, str)
    except ModelRejectedError as error:
        return Vote(ruling=Ruling.REFUSED, text="", error=str(error))
    except ModelError as error:
        return Vote(ruling=Ruling.UNREADABLE, text="", error=str(error))
    text = completion.value or ""
    if REFUSAL.match(text):
        return Vote(ruling=Ruling.REFUSED, text=completion.text)
    read = read_label if question.judge_task is JudgeTask.LABEL else read_yes_no
    return Vote(ruling=read(text), text=completion.text)


def build_request(question: QuestionLine, answer: AnswerLine, *, gold: Gold) -> ChatRequest:
    """Put question, gold and answer to the judge as quoted data: an answer that orders it about is still an answer."""
    expected = question.answer
    if gold is Gold.CORRECTED and question.corrected_answer is not None:
        expected = question.corrected_answer
    parts = {"question": question.question, "gold": expected, "answer": answer.text or SILENT}
    is_label = question.judge_task is JudgeTask.LABEL
    return ChatRequest(
        stage=STAGE,
        system=load_prompt(prompt_name(question.judge_task)),
        user="\n".join(f"<{tag}>\n{quote(text)}\n</{tag}>" for tag, text in parts.items()),
        max_output_tokens=LABEL_TOKENS if is_label else YES_NO_TOKENS,
    )


def quote(words: str) -> str:
    return LINE_BREAK.sub(CONTINUED, TAGS.sub("&lt;", words.strip()))


def read_label(text: str) -> Ruling:
    """Read LoCoMo's label: the last one in JSON, or a reply that is nothing but the label."""
    found = LABEL.findall(text)
    words = found[-1:] or re.findall(r"\w+", text)
    return RULINGS.get(words[0].lower(), Ruling.UNREADABLE) if len(words) == 1 else Ruling.UNREADABLE


def read_yes_no(text: str) -> Ruling:
    """Read LongMemEval's yes or no: the first word, or the only one of the two that occurs."""
    words = re.findall(r"\w+", text.lower())
    said = words[0] if words and words[0] in {"yes", "no"} else ""
    kinds = {said} if said else {"yes", "no"}.intersection(words)
    return RULINGS[kinds.pop()] if len(kinds) == 1 else Ruling.UNREADABLE


def find_majority(votes: Sequence[Vote]) -> Ruling:
    """Give the ruling of more than half of all votes; unreadable where none has as many."""
    rulings = [vote.ruling for vote in votes]
    return next((one for one in Ruling if 2 * rulings.count(one) > len(rulings)), Ruling.UNREADABLE)


def is_refusal(text: str) -> bool:
    """Tell an answer in which a model declines, by how those begin; it is judged all the same."""
    return REFUSAL.match(text) is not None


def needs_verdict(answer: AnswerLine) -> bool:
    """Tell whether there is an answer to judge: what failed has none, and counts as wrong."""
    return bool(answer.text) or answer.outcome is Outcome.ABSTAINED
