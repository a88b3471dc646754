"""Check conversation files: their schema, ids, times, gold evidence and duplicates.

Usage: python tools/check_conversations.py PATH...

Prints a table of what each file holds. Exits with 1, and lists every fault on
stderr as `file: where: what was wrong, what was expected`, when there is one.
"""

import argparse
import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path

ROLES = ("user", "assistant", "system", "tool")
CATEGORIES = (
    "single-hop",
    "multi-hop",
    "temporal",
    "open",
    "preference",
    "assistant-said",
    "updated",
    "unanswerable",
)
LICENSE = "CC0-1.0"
LEAST_MULTI_HOP_EVIDENCE = 2
LATIN = "[A-Za-zÀ-ÿ]"  # bounds a name; Chinese leaves no space beside one
LONGEST_REPEATABLE_TURN = 40  # characters: "Yes, do." may come twice, a paragraph may not


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One utterance, as far as its fields could be read."""

    id: str
    role: str
    speaker: str
    text: str
    said_at: datetime | None
    has_caption: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Turns said in one sitting."""

    session_id: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with the ids of the turns that its answer follows from."""

    id: str
    question: str
    answer: str
    evidence: tuple[str, ...]
    category: str
    asked_by: str | None
    asked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One file."""

    kind: str
    languages: tuple[str, ...]
    license: str
    held_out: bool
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]

    def turns(self) -> Iterator[Turn]:
        """Yield the turns of all sessions in order."""
        for session in self.sessions:
            yield from session.turns


@dataclass(slots=True, kw_only=True)
class Report:
    """The faults of one file, in the order in which they were found."""

    file: str
    faults: list[str] = field(default_factory=list)

    def add(self, where: str, wrong: str, expected: str) -> None:
        """Record one fault."""
        self.faults.append(f"{self.file}: {where}: {wrong}, expected {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Read typed fields out of one JSON object, reporting those that don't fit."""

    fields: dict[str, object]
    where: str
    report: Report

    def text(self, key: str, *, blank: bool = False) -> str:
        """Return a string without surrounding white space; empty only where `blank` allows it."""
        value = self.fields.get(key)
        if not isinstance(value, str):
            self.report.add(self.where, f"{key} is {describe(value)}", "a string")
            return ""
        if value != value.strip() or not (value or blank):
            self.report.add(self.where, f"{key} is {value!r}", "text without white space around it")
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a string, or None where the field is there and null."""
        return None if self.fields.get(key, "") is None else self.text(key)

    def moment(self, key: str) -> datetime | None:
        """Return an aware datetime, or None where the field holds none."""
        value = self.text(key)
        if not value:
            return None
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            self.report.add(self.where, f"{key} is {value!r}", "ISO 8601 with an offset, like +01:00")
            return None
        return moment

    def values(self, key: str) -> list[object]:
        """Return a list of anything."""
        value = self.fields.get(key)
        if isinstance(value, list):
            return value
        self.report.add(self.where, f"{key} is {describe(value)}", "a list")
        return []

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the strings of a list."""
        values = self.values(key)
        for value in values:
            if not isinstance(value, str):
                self.report.add(self.where, f"{key} holds {describe(value)}", "strings only")
        return tuple(value for value in values if isinstance(value, str))

    def readers(self, key: str) -> Iterator["Reader"]:
        """Yield a reader for each object of a list."""
        for index, value in enumerate(self.values(key)):
            where = f"{self.where} {key}[{index}]".removeprefix("conversation ")
            yield open_object(value, where=where, report=self.report)

    def check_keys(self, *known: str) -> None:
        """Report unknown keys; a missing one is reported by whoever reads it."""
        for key in sorted(self.fields.keys() - set(known)):
            self.report.add(self.where, f"unknown key {key!r}", f"only {', '.join(known)}")


def describe(value: object) -> str:
    """Name a JSON value in a few words."""
    return "missing or null" if value is None else f"a {type(value).__name__}"


def open_object(value: object, *, where: str, report: Report) -> Reader:
    """Wrap a JSON object; anything else is reported and read as an empty one."""
    if isinstance(value, dict):
        return Reader(fields=value, where=where, report=report)
    report.add(where, f"it is {describe(value)}", "an object")
    return Reader(fields={}, where=where, report=report)


def read_turn(reader: Reader) -> Turn:
    """Read one turn."""
    reader.check_keys("id", "role", "speaker", "text", "said_at", "caption")
    if "caption" in reader.fields:
        reader.text("caption")
    return Turn(
        id=reader.text("id"),
        role=reader.text("role"),
        speaker=reader.text("speaker"),
        text=reader.text("text"),
        said_at=reader.moment("said_at"),
        has_caption="caption" in reader.fields,
    )


def read_session(reader: Reader) -> Session:
    """Read one session with its turns."""
    reader.check_keys("session_id", "turns")
    return Session(
        session_id=reader.text("session_id"),
        turns=tuple(read_turn(turn) for turn in reader.readers("turns")),
    )


def read_question(reader: Reader) -> Question:
    """Read one question."""
    reader.check_keys("id", "question", "answer", "evidence", "category", "asked_by", "asked_at")
    return Question(
        id=reader.text("id"),
        question=reader.text("question"),
        answer=reader.text("answer", blank=True),
        evidence=reader.texts("evidence"),
        category=reader.text("category"),
        asked_by=reader.optional_text("asked_by"),
        asked_at=reader.moment("asked_at"),
    )


def read_conversation(value: object, report: Report) -> Conversation:
    """Read one file's JSON value, reporting every field that doesn't fit."""
    reader = open_object(value, where="conversation", report=report)
    prose = ("id", "title", "kind", "about")
    reader.check_keys(*prose, "languages", "license", "held_out", "sessions", "questions")
    for key in prose:
        reader.text(key)
    if reader.fields.get("held_out", True) is not True:
        report.add("conversation", f"held_out is {reader.fields['held_out']!r}", "true, or no such key")
    return Conversation(
        kind=reader.text("kind"),
        held_out="held_out" in reader.fields,
        languages=reader.texts("languages"),
        license=reader.text("license"),
        sessions=tuple(read_session(session) for session in reader.readers("sessions")),
        questions=tuple(read_question(question) for question in reader.readers("questions")),
    )


def check_header(conversation: Conversation, report: Report) -> None:
    """Check license and languages."""
    if conversation.license != LICENSE:
        report.add("conversation", f"license is {conversation.license!r}", LICENSE)
    if not conversation.languages:
        report.add("conversation", "languages is empty", "at least one")
    for language in conversation.languages:
        if not re.fullmatch(r"[a-z]{2}", language):
            report.add("conversation", f"language {language!r}", "two small letters, like en")


def check_turn_ids(conversation: Conversation, report: Report) -> None:
    """Check that sessions and turns are numbered without gaps, and the roles."""
    for number, session in enumerate(conversation.sessions, start=1):
        name = f"s{number:02d}"
        if session.session_id != name:
            report.add(f"session {number}", f"session_id is {session.session_id!r}", name)
        if not session.turns:
            report.add(name, "no turns", "at least one")
        for index, turn in enumerate(session.turns):
            expected = f"{session.session_id}:{index}"
            if turn.id != expected:
                report.add(expected, f"id is {turn.id!r}", expected)
            if turn.role not in ROLES:
                report.add(expected, f"role is {turn.role!r}", f"one of {', '.join(ROLES)}")


def check_turn_times(conversation: Conversation, report: Report) -> None:
    """Check that each turn is said after the one before it, over all sessions."""
    for earlier, later in pairwise(conversation.turns()):
        if earlier.said_at and later.said_at and later.said_at <= earlier.said_at:
            when = f"said at {later.said_at.isoformat()}"
            report.add(later.id, when, f"later than {earlier.id}, {earlier.said_at.isoformat()}")


def check_question(question: Question, speakers: frozenset[str], report: Report) -> None:
    """Check one question's category, answer, amount of evidence and asker."""
    amount = len(question.evidence)
    if question.category not in CATEGORIES:
        report.add(question.id, f"category is {question.category!r}", ", ".join(CATEGORIES))
    if question.category == "unanswerable":
        if amount:
            report.add(question.id, f"unanswerable with {amount} evidence turns", "none")
        if question.answer:
            report.add(question.id, f"unanswerable with answer {question.answer!r}", "''")
    else:
        least = LEAST_MULTI_HOP_EVIDENCE if question.category == "multi-hop" else 1
        if amount < least:
            report.add(question.id, f"{amount} evidence turns", f"{least} or more")
        if not question.answer:
            report.add(question.id, "the answer is empty", "an answer")
    if question.asked_by is not None:
        check_asker(question.id, question.asked_by, question.question, speakers, report)


def check_asker(where: str, asker: str, question: str, speakers: frozenset[str], report: Report) -> None:
    """Check that who asks took part and doesn't call himself by his name."""
    if asker not in speakers:
        report.add(where, f"asked_by is {asker!r}", f"null or one of {', '.join(sorted(speakers))}")
    elif re.search(rf"(?<!{LATIN}){re.escape(asker)}(?!{LATIN})", question):
        report.add(where, f"{asker!r} asks about {asker!r}", "the first person, or another asker")


def check_evidence(question: Question, turns: dict[str, Turn], report: Report) -> None:
    """Check that evidence exists, is listed once and in order, and precedes the question."""
    for turn_id in question.evidence:
        if turn_id not in turns:
            report.add(question.id, f"evidence {turn_id!r} doesn't exist", "the id of a turn")
    known = [turn_id for turn_id in question.evidence if turn_id in turns]
    position = {turn_id: index for index, turn_id in enumerate(turns)}
    expected = sorted(set(known), key=position.__getitem__)
    if known != expected:
        report.add(question.id, f"evidence is {known}", f"{expected}")
    for turn_id in expected:
        said_at = turns[turn_id].said_at
        if said_at and question.asked_at and question.asked_at <= said_at:
            when = f"asked at {question.asked_at.isoformat()}"
            report.add(question.id, when, f"later than its evidence {turn_id}")


def check_questions(conversation: Conversation, report: Report) -> None:
    """Check the numbering of the questions, and each of them."""
    speakers = frozenset(turn.speaker for turn in conversation.turns())
    turns = {turn.id: turn for turn in conversation.turns()}
    for number, question in enumerate(conversation.questions, start=1):
        expected = f"q{number:02d}"
        if question.id != expected:
            report.add(f"question {number}", f"id is {question.id!r}", expected)
        check_question(question, speakers, report)
        check_evidence(question, turns, report)


def normalise(text: str) -> str:
    """Reduce text to its letters and digits, so that case and punctuation don't count."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", folded))


def check_repeats(texts: Iterable[tuple[str, str]], report: Report) -> None:
    """Report each (id, text) whose text came before."""
    first: dict[str, str] = {}
    for item_id, text in texts:
        earlier = first.setdefault(normalise(text), item_id)
        if earlier != item_id:
            report.add(item_id, f"says the same as {earlier}", "another text")


def check_duplicates(conversation: Conversation, report: Report) -> None:
    """Check that no question, and no turn longer than a phrase, comes twice."""
    check_repeats(((item.id, item.question) for item in conversation.questions), report)
    long_turns = (
        (turn.id, turn.text) for turn in conversation.turns() if len(turn.text) > LONGEST_REPEATABLE_TURN
    )
    check_repeats(long_turns, report)


def check_conversation(value: object, report: Report) -> Conversation:
    """Run every check on one file's JSON value."""
    conversation = read_conversation(value, report)
    check_header(conversation, report)
    check_turn_ids(conversation, report)
    check_turn_times(conversation, report)
    check_questions(conversation, report)
    check_duplicates(conversation, report)
    return conversation


def check_file(path: Path, report: Report) -> Conversation | None:
    """Read and check one file; None where it holds no JSON."""
    try:
        value: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        report.add("file", f"can't be read ({error})", "UTF-8 JSON")
        return None
    return check_conversation(value, report)


def tabulate(rows: Sequence[Sequence[str]]) -> str:
    """Align columns: the first to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    return "\n".join(lines)


def count_row(name: str, conversation: Conversation) -> list[str]:
    """Count what one file holds."""
    by_category = Counter(question.category for question in conversation.questions)
    counts = (
        len(conversation.sessions),
        sum(1 for _ in conversation.turns()),
        len(conversation.questions),
        *(by_category[category] for category in CATEGORIES),
    )
    return [name, *map(str, counts), ",".join(conversation.languages)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the given files; return the exit status."""
    parser = argparse.ArgumentParser(description="Check conversation files.")
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path)
    paths: list[Path] = parser.parse_args(arguments).paths
    rows = [["file", "sessions", "turns", "questions", *CATEGORIES, "languages"]]
    faults: list[str] = []
    for path in paths:
        report = Report(file=str(path))
        conversation = check_file(path, report)
        if conversation is not None:
            rows.append(count_row(path.name, conversation))
        faults += report.faults
    print(tabulate(rows))
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
