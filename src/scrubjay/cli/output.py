"""How results look on a terminal, and as JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from scrubjay.counting import number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from rich.console import Console, RenderableType

    from scrubjay.answer import Answer
    from scrubjay.datatypes import (
        Hit,
        JsonValue,
        Link,
        MemoryStatus,
        Record,
        Segment,
        Session,
        StateCounts,
        Turn,
        Usage,
    )
    from scrubjay.evidence import Evidence, RecordLink

SHOWN_CHARACTERS = 160


def console(*, stderr: bool = False) -> Console:
    """Give a console that colours and fits a terminal, and leaves lines whole in a pipe."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, soft_wrap=not stream.isatty(), highlight=False, markup=False)


def printable(text: str) -> str:
    """Give text that any terminal takes: no control characters, no lone surrogates."""
    safe = "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
    return safe.encode("utf-8", "replace").decode()


def print_json(document: JsonValue) -> None:
    """Print JSON in ASCII escapes: any text at all survives any terminal."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def print_text(text: str) -> None:
    console().print(printable(text))


def print_note(text: str) -> None:
    console(stderr=True).print(printable(text))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; columns whose name begins with ">" are numbers, set right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(
            column.removeprefix(">"), justify="right" if column.startswith(">") else "left", overflow="fold"
        )
    for row in rows:
        cells: list[RenderableType] = [Text(printable(cell)) for cell in row]
        table.add_row(*cells)
    console().print(table)


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"


def spoken(turn: Turn) -> str:
    words = turn.text or f"[image: {turn.caption}]"
    return f"{turn.speaker or turn.role.value}: {shortened(words)}"


def when(turn: Turn) -> str:
    return minute(turn.said_at)


def minute(moment: datetime | None) -> str:
    """Give a time to the minute, with its zone; in a narrow table it breaks between date and time only."""
    return "" if moment is None else moment.isoformat(" ", "minutes")


def print_evidence(evidence: Evidence, *, explain: bool) -> None:
    if not evidence.text:
        print_note("Nothing relevant found.")
        return
    print_text(evidence.text)
    if explain:
        if evidence.records:
            print_table(
                f"Why: {evidence.question}",
                ("#", "turns", "who", "why", ">score", ">tokens"),
                [explained_record(link) for link in evidence.records],
            )
        print_table(
            f"Why: {evidence.question}",
            ("#", "turn", "said", "why", ">lexical", ">dense", ">tokens"),
            [explained(link) for link in evidence.links],
        )
        if evidence.time_range is not None:
            print_note(
                f"“{evidence.time_range.text}” understood as {evidence.time_range.start} to {evidence.time_range.end}"
            )
    spent = sum(stage.milliseconds for stage in evidence.trace)
    records = f"{number_of(len(evidence.records), 'record')}, " if evidence.records else ""
    stages = ", ".join(f"{stage.name} {stage.milliseconds:.1f}" for stage in evidence.trace)
    print_note(
        f"{records}{number_of(len(evidence.links), 'turn')}, {evidence.tokens} of {evidence.max_tokens} tokens, {spent:.1f} ms ({stages})"
    )
    for stage in evidence.trace:
        if stage.fallback:
            print_note(f"{stage.name}: {stage.fallback}")


def print_answer(answer: Answer, *, explain: bool) -> None:
    """Print an answer, and below it the lines of the evidence that it cites."""
    if answer.text:
        print_text(answer.text)
    evidence = answer.evidence
    lines = {
        link.number: f"{link.turn.turn_id} {when(link.turn)} {spoken(link.turn)}" for link in evidence.links
    }
    for note in evidence.records:
        lines[note.number] = f"{', '.join(note.turn_ids)} {shortened(note.record.text)}"
    for number in answer.numbers:
        print_text(f"[{number}] {lines[number]}")
    if answer.abstained:
        print_note("The memory doesn't answer this.")
    if answer.unknown_numbers:
        print_note(f"Cited, but not in the evidence: {', '.join(map(str, answer.unknown_numbers))}.")
    if answer.truncated:
        print_note("The answer was cut short: the model met its output limit.")
    for usage in answer.usage:
        tokens = f"{usage.input_tokens:,} + {usage.output_tokens:,} tokens"
        print_note(f"{usage.stage}: {number_of(usage.calls, 'call')}, {tokens}, {usage.model}")
    if explain:
        print_evidence(evidence, explain=True)


def explained_record(link: RecordLink) -> tuple[str, ...]:
    return (
        str(link.number),
        ", ".join(link.turn_ids),
        link.record.speaker or "",
        link.reason,
        f"{link.score:.3f}",
        str(link.tokens),
    )


def explained(link: Link) -> tuple[str, ...]:
    def channel(name: str) -> str:
        found = link.channels.get(name)
        return "" if found is None else f"{found.score:.2f} (#{found.rank})"

    return (
        str(link.number),
        link.turn.turn_id,
        when(link.turn),
        link.reason,
        channel("lexical"),
        channel("dense"),
        str(link.tokens),
    )


def print_hits(hits: Sequence[Hit]) -> None:
    if not hits:
        print_note("Nothing relevant found.")
        return
    print_table(
        "",
        (">#", ">score", "turn", "said", "text"),
        [
            (str(hit.rank), f"{hit.score:.3f}", hit.turn.turn_id, when(hit.turn), spoken(hit.turn))
            for hit in hits
        ],
    )


def print_sessions(sessions: Sequence[Session]) -> None:
    print_table(
        "",
        ("session", ">turns", "from", "to", "speakers"),
        [
            (
                session.session_id,
                str(session.turns),
                minute(session.first_said_at),
                minute(session.last_said_at),
                ", ".join(session.speakers),
            )
            for session in sessions
        ],
    )


def print_status(status: MemoryStatus) -> None:
    from scrubjay.documents import status_document

    tables = {"turns_by_state", "segments_by_state", "usage", "failing", "background"}
    plain = {key: value for key, value in status_document(status).items() if key not in tables}
    rows = [
        *((key, "" if value is None else str(value)) for key, value in plain.items()),
        ("turns by state", counted(status.progress.turns)),
        ("segments by state", counted(status.progress.segments)),
        *((f"{usage.stage} with {usage.model}", spent(usage)) for usage in status.usage),
    ]
    print_table("", ("what", "value"), rows)
    if status.failing:
        print_segments(status.failing, title="Segments that failed")


def counted(counts: StateCounts) -> str:
    by_state = (
        f"{counts.open} open",
        f"{counts.pending} pending",
        f"{counts.encoded} encoded",
        f"{counts.failed} failed",
    )
    return ", ".join(by_state)


def spent(usage: Usage) -> str:
    return f"{number_of(usage.calls, 'call')}, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"


def print_segments(segments: Sequence[Segment], *, title: str = "") -> None:
    print_table(
        title,
        ("session", ">#", "state", ">turns", ">tokens", "closed by", ">attempts", "last error"),
        [
            (
                segment.session_id,
                str(segment.number),
                segment.state.value,
                str(len(segment.turn_ids)),
                str(segment.tokens),
                segment.reason.value,
                str(segment.attempts),
                shortened(segment.last_error),
            )
            for segment in segments
        ],
    )


def print_record(record: Record) -> None:
    """Print a record on one line: its type, what else is known of it, and the turns it was made from."""
    doubts = (
        "" if record.stance.value == "asserted" else record.stance.value,
        "" if record.support.supported else f"unsupported: {record.support.reason}",
    )
    notes = [record.type.value, record.time.t_ref or "", *doubts]
    print_text(
        f"[{', '.join(note for note in notes if note)}] {' '.join(record.text.split())} ({', '.join(record.turn_ids)})"
    )
