"""Load the data sets of the benchmark, with everything that is wrong in them, into one shape."""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrubjay.bench import memdaily, realmem
from scrubjay.bench.questions import (
    BenchQuestion,
    BenchSample,
    Dataset,
    name_sessions_of,
    resolve,
    sessions_of_turns,
)
from scrubjay.errors import SettingsError
from scrubjay.formats import read_source
from scrubjay.formats.conversation import ReadingLog
from scrubjay.formats.longmemeval import SESSIONS_FILE, name_sessions, read_date
from scrubjay.formats.source import Entry, describe, open_source
from scrubjay.formats.validation import Untrusted, check_shape, read_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from scrubjay.datatypes import JsonValue
    from scrubjay.formats import Conversation
    from scrubjay.formats.source import Source

__all__ = ["DATASETS", "BenchQuestion", "BenchSample", "Dataset", "load_dataset", "sample_path"]

LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
LOCOMO_ADVERSARIAL = 5
LOCOMO_TURN = re.compile(r"D\s*:?\s*(\d{1,9})\s*:\s*(\d{1,9})", re.ASCII)  # also "D:11:26" and "D30:05"
LONGMEMEVAL_ABSTENTION = "_abs"  # ends the ids of questions that have no answer
LONGMEMEVAL_M_SESSIONS = 200  # sessions of a haystack: those of S have about 50, those of M about 500
LABELLED_UNANSWERABLE = "unanswerable"
IN_FOLDERS = ("realmem", "labelled")


class LocomoSampleShape(Untrusted):
    qa: list[Any]


class LocomoQuestionShape(Untrusted):
    question: str
    category: int
    answer: str | int | float | None = None
    evidence: list[Any] | str | None = None


class LongMemEvalShape(Untrusted):
    question: str
    question_id: str
    question_type: str
    question_date: str
    answer: str | int | float | None = None
    abstention: bool = False
    answer_session_ids: list[str]
    haystack_session_ids: list[str]
    haystack_sessions: list[list[dict[str, Any]]] | None = None
    evidence_turn_ids: list[str] | None = None


class LabelledShape(Untrusted):
    questions: list[Any]


class LabelledQuestionShape(Untrusted):
    question: str
    category: str
    answer: str
    evidence: list[str]
    asked_at: object = None
    asked_by: str | None = None


def load_dataset(name: str, path: Path | None = None) -> Dataset:
    """Load a data set by its name: from a file, from a folder of files, or, the shipped sample, from nowhere.

    Raise SettingsError for a name or a path that is missing, and FormatError for a file that isn't what it should be.
    """
    if name not in DATASETS:
        raise SettingsError(f"dataset: expected one of {', '.join(DATASETS)}, found {name!r}")
    if name == "sample":
        path = sample_path()
    if path is None:
        raise SettingsError(f"the data set {name} is not shipped: give the path of its file")
    files = sorted(path.glob("*.json")) if name in IN_FOLDERS and path.is_dir() else [path]
    sources = [open_source(file) for file in files]
    samples = tuple(sample for source in sources for sample in DATASETS[name](source))
    _check_samples(samples, path)
    shares = name == "longmemeval" and any(map(_shares_sessions, sources))
    return Dataset(
        name=name,
        variant=("development" if shares else _tell_variant(samples)) if name == "longmemeval" else "",
        samples=samples,
        files=tuple(file.name for file in files),
        sha256=hash_files([*files, path.with_name(SESSIONS_FILE)] if shares else files),
    )


def _shares_sessions(source: Source) -> bool:
    """Tell whether the turns of LongMemEval's sessions stand in a file of their own."""
    return any(isinstance(entry, dict) and "haystack_sessions" not in entry for entry in source.peek())


def _tell_variant(samples: Sequence[BenchSample]) -> str:
    """Tell which of LongMemEval's files it is: haystacks of evidence alone, of some 50 sessions, or of some 500."""
    if all(map(_holds_only_evidence, samples)):
        return "oracle"
    sessions = sum(len(sample.conversation.sessions) for sample in samples)
    return "S" if sessions < LONGMEMEVAL_M_SESSIONS * len(samples) else "M"


def _holds_only_evidence(sample: BenchSample) -> bool:
    """Tell it of a haystack; of a question without an answer it can't be told, for nothing is evidence."""
    names = {session.session_id for session in sample.conversation.sessions}
    return all(
        question.unanswerable or names <= set(question.evidence_sessions) for question in sample.questions
    )


def sample_path() -> Path:
    """Give the place of the shipped sample, a labelled conversation."""
    return Path(str(resources.files("scrubjay").joinpath("sample", "conversation.json")))


def hash_files(files: Sequence[Path]) -> str:
    """Give the SHA-256 of a file; of several, that of the lines `sha256sum` prints for them."""
    digests: list[str] = []
    for file in files:
        with file.open("rb") as stream:
            digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
    if len(digests) == 1:
        return digests[0]
    lines = "".join(f"{digest}  {file.name}\n" for digest, file in zip(digests, files, strict=True))
    return hashlib.sha256(lines.encode()).hexdigest()


def _check_samples(samples: Sequence[BenchSample], path: Path) -> None:
    names = [sample.sample for sample in samples]
    whole = Entry(path=path, where="the data set")
    if not names:
        raise whole.fault("samples", expected="at least one", found="none")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise whole.fault("samples", expected="a name not used before", found=describe(repeated[0]))


def _read_with_entries(source: Source, name: str) -> Iterator[tuple[Conversation, Entry, JsonValue]]:
    """Give each conversation beside the entry of the file it came from."""
    entries = source.entries(ReadingLog(skip_bad=False))
    for conversation, (entry, value) in zip(read_source(source, name).conversations, entries, strict=True):
        yield conversation, entry, value


def _load_locomo(source: Source) -> Iterator[BenchSample]:
    for conversation, entry, value in _read_with_entries(source, "locomo"):
        session_of = sessions_of_turns(conversation)
        questions: list[BenchQuestion] = []
        for index, raw in enumerate(check_shape(LocomoSampleShape, value, entry=entry).qa):
            shape = check_shape(LocomoQuestionShape, raw, entry=entry.inside(f"question {index + 1}"))
            evidence, unresolved = _resolve_locomo(shape.evidence, session_of)
            question = BenchQuestion(
                sample=conversation.conversation_id,
                question_index=index,
                question=shape.question,
                answer=_answer(shape.answer),
                category=shape.category,
                category_name=LOCOMO_CATEGORIES.get(shape.category, str(shape.category)),
                evidence=evidence,
                evidence_sessions=name_sessions_of(evidence, session_of),
                unresolved=unresolved,
                asked_at=None,
                unanswerable=shape.category == LOCOMO_ADVERSARIAL,
            )
            questions.append(question)
        yield _sample(conversation, questions)


def read_locomo_citations(cited: object, turn_ids: Collection[str]) -> tuple[str, ...]:
    """Give the turns of a conversation that evidence names, however it is written."""
    return _resolve_locomo(cited, turn_ids)[0]


def _resolve_locomo(cited: object, turn_ids: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    turn_of = {key: turn_id for turn_id in turn_ids for key in _locomo_turns(turn_id)}
    return resolve(_locomo_citations(cited, turn_of), turn_ids)


def _locomo_citations(evidence: object, turn_of: dict[tuple[int, int], str]) -> Iterator[str]:
    """Give the turn ids cited, however they are written; what names no turn is given as it stands."""
    for cited in evidence if isinstance(evidence, list) else [] if evidence is None else [evidence]:
        keys = _locomo_turns(str(cited))
        for session, turn in keys:
            yield turn_of.get((session, turn), f"D{session}:{turn}")
        if not keys and str(cited).strip():
            yield str(cited)


def _locomo_turns(text: str) -> list[tuple[int, int]]:
    """Find every turn a text names: "D8:6; D9:17" names two, "D:11:26" and "D30:05" one each."""
    return [(int(session), int(turn)) for session, turn in LOCOMO_TURN.findall(text)]


def _load_longmemeval(source: Source) -> Iterator[BenchSample]:
    """Give each question its own sample; `question_index` is its place in the file."""
    for index, (conversation, entry, value) in enumerate(_read_with_entries(source, "longmemeval")):
        shape = check_shape(LongMemEvalShape, value, entry=entry)
        session_of = sessions_of_turns(conversation)
        unanswerable = shape.abstention or shape.question_id.endswith(LONGMEMEVAL_ABSTENTION)
        # What a question without an answer labels is only what it sounds like.
        cited = [] if unanswerable else _longmemeval_turns(shape)
        cited_sessions = [] if unanswerable else shape.answer_session_ids
        evidence, missing_turns = resolve(cited, session_of)
        sessions, missing_sessions = resolve(cited_sessions, set(session_of.values()))
        question = BenchQuestion(
            sample=conversation.conversation_id,
            question_index=index,
            question=shape.question,
            answer=_answer(shape.answer),
            category=shape.question_type,
            category_name=shape.question_type,
            evidence=evidence,
            evidence_sessions=sessions,
            unresolved=missing_turns + missing_sessions,
            asked_at=read_date(shape.question_date, zone=None, entry=entry, field="question_date"),
            unanswerable=unanswerable,
        )
        yield _sample(conversation, [question])


def _longmemeval_turns(shape: LongMemEvalShape) -> list[str]:
    """Give the gold turns: listed, or marked with `has_answer` in the official layout."""
    if shape.evidence_turn_ids is not None or shape.haystack_sessions is None:
        return shape.evidence_turn_ids or []
    names = name_sessions(shape.haystack_session_ids)
    return [
        f"{name}:{index}"
        for name, turns in zip(names, shape.haystack_sessions, strict=True)
        for index, turn in enumerate(turns)
        if "has_answer" in turn and turn["has_answer"] is True
    ]


def _load_labelled(source: Source) -> Iterator[BenchSample]:
    for conversation, entry, value in _read_with_entries(source, "labelled"):
        session_of = sessions_of_turns(conversation)
        questions: list[BenchQuestion] = []
        for index, raw in enumerate(check_shape(LabelledShape, value, entry=entry).questions):
            inside = entry.inside(f"question {index + 1}")
            shape = check_shape(LabelledQuestionShape, raw, entry=inside)
            evidence, unresolved = resolve(shape.evidence, session_of)
            question = BenchQuestion(
                sample=conversation.conversation_id,
                question_index=index,
                question=shape.question,
                answer=shape.answer,
                category=shape.category,
                category_name=shape.category,
                evidence=evidence,
                evidence_sessions=name_sessions_of(evidence, session_of),
                unresolved=unresolved,
                asked_at=read_time(shape.asked_at, zone=None, entry=inside, field="asked_at"),
                unanswerable=shape.category == LABELLED_UNANSWERABLE,
                asked_by=shape.asked_by,
            )
            questions.append(question)
        yield _sample(conversation, questions)


def _sample(conversation: Conversation, questions: Sequence[BenchQuestion]) -> BenchSample:
    name = conversation.conversation_id
    return BenchSample(sample=name, conversation=conversation, questions=tuple(questions))


def _answer(answer: str | float | None) -> str:
    return "" if answer is None else str(answer)


DATASETS: dict[str, Callable[[Source], Iterator[BenchSample]]] = {
    "locomo": _load_locomo,
    "longmemeval": _load_longmemeval,
    "memdaily": memdaily.load,
    "realmem": realmem.load,
    "sample": _load_labelled,
    "labelled": _load_labelled,
}
