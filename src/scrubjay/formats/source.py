"""Open a file that is said to hold conversations: JSON, or JSONL one line at a time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from scrubjay.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrubjay.datatypes import JsonValue
    from scrubjay.formats.conversation import ReadingLog

UTF8_BOM = b"\xef\xbb\xbf"
KNOWN_BEGINNINGS = (
    (b"PK\x03\x04", "a zip archive (unpack it and give the JSON file in it)"),
    (b"\x1f\x8b", "a gzip archive (unpack it first)"),
    (b"\xff\xfe", "UTF-16 text (save it as UTF-8)"),
    (b"\xfe\xff", "UTF-16 text (save it as UTF-8)"),
    (b"SQLite format 3\x00", "an SQLite database (a memory is opened, not imported)"),
)
SHOWN_CHARACTERS = 60
PEEKED_ENTRIES = 10  # one bad entry at the beginning must not hide what a file is


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A place in a file, so that every complaint can say where."""

    path: Path
    where: str  # "entry 3 / session_2 / turn 14"; everything is counted from 1
    number: int = 0  # of the outermost entry or line

    def inside(self, part: str) -> Entry:
        return Entry(path=self.path, where=f"{self.where} / {printable(part)}", number=self.number)

    def fault(self, field: str, *, expected: str, found: str) -> FormatError:
        return FormatError(str(self.path), entry=self.where, field=field, expected=expected, found=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A readable file: its whole JSON document, or its lines where it is JSONL."""

    path: Path
    is_lines: bool
    document: JsonValue  # None where it is JSONL

    def entries(self, log: ReadingLog) -> Iterator[tuple[Entry, JsonValue]]:
        """Give each line of JSONL, each element of a JSON list, or the one document there is."""
        if self.is_lines:
            yield from self._lines(log)
        elif isinstance(self.document, list):
            for number, value in enumerate(self.document, 1):
                yield Entry(path=self.path, where=f"entry {number}", number=number), value
        else:
            yield Entry(path=self.path, where="entry 1", number=1), self.document

    def peek(self) -> list[JsonValue]:
        """Give the first few entries that can be read at all, for telling what the file is."""
        found: list[JsonValue] = []
        if not self.is_lines:
            return self.document[:PEEKED_ENTRIES] if isinstance(self.document, list) else [self.document]
        with self.path.open("rb") as stream:
            for number, line in text_lines(stream):
                parsed = parse_line(Entry(path=self.path, where=f"line {number}"), line)
                if not isinstance(parsed, FormatError):
                    found.append(parsed)
                if number >= PEEKED_ENTRIES:
                    break
        return found

    def _lines(self, log: ReadingLog) -> Iterator[tuple[Entry, JsonValue]]:
        with self.path.open("rb") as stream:
            for number, line in text_lines(stream):
                entry = Entry(path=self.path, where=f"line {number}", number=number)
                parsed = parse_line(entry, line)
                if not isinstance(parsed, FormatError):
                    yield entry, parsed
                    continue
                with log.noting_bad():
                    raise parsed


def open_source(path: Path) -> Source:
    """Read a file far enough to know JSON from JSONL; raise FormatError where it is neither."""
    entry = Entry(path=path, where="file")
    try:
        if path.is_dir():
            raise entry.fault("path", expected="a file", found="a folder")
        if not path.is_file():
            found = "a device" if path.exists() else "nothing there"
            raise entry.fault("path", expected="a file", found=found)
        return _open_regular(entry)
    except OSError as error:
        raise entry.fault("path", expected="a readable file", found=error.strerror or str(error)) from error


def _open_regular(entry: Entry) -> Source:
    with entry.path.open("rb") as stream:
        _refuse_known_beginning(entry, stream.read(16))
        stream.seek(0)
        lines = text_lines(stream)
        first = next(lines, None)
        if first is None:
            raise entry.fault("content", expected="JSON or JSONL", found="an empty file")
        second = next(lines, None)
        parsed = parse_line(entry.inside(f"line {first[0]}"), first[1])
        if second is None and not isinstance(parsed, FormatError):
            return Source(path=entry.path, is_lines=False, document=parsed)
        if isinstance(parsed, dict):
            return Source(path=entry.path, is_lines=True, document=None)
        stream.seek(0)
        document = parse_line(entry, stream.read())
    if not isinstance(document, FormatError):
        return Source(path=entry.path, is_lines=False, document=document)
    if second is not None and isinstance(parse_line(entry, second[1]), dict):
        return Source(path=entry.path, is_lines=True, document=None)  # JSONL whose first line is bad
    raise document


def _refuse_known_beginning(entry: Entry, beginning: bytes) -> None:
    for magic, name in KNOWN_BEGINNINGS:
        if beginning.startswith(magic):
            raise entry.fault("content", expected="JSON or JSONL in UTF-8", found=name)


def text_lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Give the lines that hold anything with their numbers, split at newlines only, as JSONL wants it."""
    for number, line in enumerate(stream, 1):
        content = line.removeprefix(UTF8_BOM) if number == 1 else line
        if content.strip():
            yield number, content


def parse_line(entry: Entry, content: bytes) -> JsonValue | FormatError:
    """Parse UTF-8 JSON; what is wrong with it comes back as a value, for the caller to raise or to note."""
    try:
        text = content.removeprefix(UTF8_BOM).decode("utf-8")
        value: JsonValue = json.loads(text)
    except UnicodeDecodeError as error:
        found = f"the byte 0x{content[error.start]:02x} at {error.start} (another encoding, or not text)"
        return entry.fault("content", expected="UTF-8 text", found=found)
    except json.JSONDecodeError as error:
        found = f"{error.msg} at line {error.lineno} column {error.colno}, before {quote(text[error.pos :])}"
        return entry.fault("content", expected="valid JSON", found=found)
    except RecursionError:
        return entry.fault("content", expected="JSON", found="lists or objects nested too deeply")
    except ValueError as error:  # a whole number with more digits than Python converts
        return entry.fault("content", expected="JSON", found=str(error))
    return value


def printable(name: str) -> str:
    """Show a name as it is where a terminal can, escaped where it can't."""
    return (name if name.isprintable() else repr(name)[1:-1])[:SHOWN_CHARACTERS]


def quote(text: str) -> str:
    """Show the beginning of a text on one line, escaping what a terminal can't show."""
    return repr(text[:SHOWN_CHARACTERS]) + ("…" if len(text) > SHOWN_CHARACTERS else "")


def describe(value: object) -> str:
    """Say what a JSON value is, the way a message to a person would."""
    match value:
        case str():
            return f"the text {quote(value)}" if value else "an empty text"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "an object with " + (", ".join(repr(key) for key in list(value)[:5]) or "nothing in it")
        case int() | float() if not isinstance(value, bool):
            return f"the number {json.dumps(value)[:SHOWN_CHARACTERS]}"
    return json.dumps(value)[:SHOWN_CHARACTERS]
