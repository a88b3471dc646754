"""Known faults of LoCoMo's gold answers and citations, with their corrections (dial481/locomo-audit's file)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from scrubjay.bench.datasets import read_locomo_citations
from scrubjay.formats.conversation import ReadingLog
from scrubjay.formats.source import describe, open_source
from scrubjay.formats.validation import Untrusted, check_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from scrubjay.bench.qa.lines import QuestionLine
    from scrubjay.bench.questions import Dataset
    from scrubjay.formats.source import Entry

QUESTION_ID = re.compile(r"locomo_(\d{1,4})_qa(\d{1,6})", re.ASCII)
PUBLIC_ORDER = (
    "conv-26", "conv-30", "conv-41", "conv-42", "conv-43", "conv-44", "conv-47", "conv-48", "conv-49", "conv-50",
)  # fmt: skip
"""The conversations of the public file, which the ids count, whichever of them a file holds."""


class CorrectionShape(Untrusted):
    question_id: str
    question: str
    error_type: str
    golden_answer: str | int | float | None = None
    correct_answer: str | int | float
    correct_evidence: list[str]


def correct_questions(
    questions: Sequence[QuestionLine], dataset: Dataset, path: Path
) -> tuple[QuestionLine, ...]:
    """Give the questions with what their gold should be; those of other conversations are passed over.

    Raise FormatError for a file that isn't such a list, or whose questions aren't those of the data set.
    """
    turn_ids = {
        sample.sample: {
            turn.turn_id: session.session_id
            for session in sample.conversation.sessions
            for turn in session.turns
            if turn.turn_id is not None
        }
        for sample in dataset.samples
    }
    texts = {
        (question.sample, question.question_index): question.question
        for sample in dataset.samples
        for question in sample.questions
    }
    found = dict(read_corrections(path, texts))
    return tuple(
        correct(question, found[question.key], turn_ids[question.sample])
        if question.key in found
        else question
        for question in questions
    )


def read_corrections(
    path: Path, texts: Mapping[tuple[str, int], str]
) -> Iterator[tuple[tuple[str, int], CorrectionShape]]:
    samples = {sample for sample, _ in texts}
    for entry, value in open_source(path).entries(ReadingLog(skip_bad=False)):
        shape = check_shape(CorrectionShape, value, entry=entry)
        key = read_id(shape.question_id, entry=entry)
        if key[0] not in samples:
            continue
        if texts.get(key) != shape.question:
            raise entry.fault(
                "question", expected=f"question {key[1]} of {key[0]}", found=describe(shape.question)
            )
        yield key, shape


def read_id(question_id: str, *, entry: Entry) -> tuple[str, int]:
    matched = QUESTION_ID.fullmatch(question_id)
    number = int(matched[1]) if matched else len(PUBLIC_ORDER)
    if matched is None or number >= len(PUBLIC_ORDER):
        raise entry.fault("question_id", expected="an id such as locomo_0_qa1", found=describe(question_id))
    return PUBLIC_ORDER[number], int(matched[2])


def correct(question: QuestionLine, shape: CorrectionShape, session_of: Mapping[str, str]) -> QuestionLine:
    answer = str(shape.correct_answer)
    evidence = read_locomo_citations(shape.correct_evidence, session_of)
    return replace(
        question,
        correction=shape.error_type,
        corrected_answer=None if answer == question.answer else answer,
        corrected_evidence=None if evidence == question.evidence else evidence,
    )


def hash_file(path: Path | None) -> str:
    """Give the SHA-256 of a file; "" of none."""
    if path is None:
        return ""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
