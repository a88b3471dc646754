"""Files that a kill at any moment leaves whole: lines appended one by one, and files replaced at once."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from scrubjay.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from _typeshed import DataclassInstance

    from scrubjay.datatypes import JsonValue

Line = TypeVar("Line", bound="DataclassInstance")


class DurableLines(Generic[Line]):
    """A file of JSON lines of one dataclass; a line is on disk when `append` returns. Any thread may use it."""

    def __init__(self, path: Path, line: type[Line]) -> None:
        """Name the file; what is missing counts as empty, and is made by the first `append`."""
        self.path = path
        self._adapter: TypeAdapter[Line] = TypeAdapter(line)
        self._lock = threading.Lock()
        self._end: int | None = None  # where the next line begins, once the end is known to be whole

    def append(self, line: Line) -> int:
        """Write a line; give where it begins."""
        content = encode_line(line)
        with self._lock, self.path.open("ab") as stream:
            if self._end is None:
                self._end = cut_torn_end(self.path)
                sync_folder(self.path.parent)
            start = self._end
            stream.seek(start)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            self._end += len(content)
        return start

    def read(self) -> Iterator[tuple[int, Line]]:
        """Give each whole line and where it begins; a last one that a kill cut short is passed over."""
        if not self.path.is_file():
            return
        with self.path.open("rb") as stream:
            place = 0
            for number, content in enumerate(stream, start=1):
                if content.endswith(b"\n"):
                    yield place, self._parse(content, number)
                place += len(content)

    def read_at(self, place: int) -> Line:
        """Give the line that begins at a place."""
        with self.path.open("rb") as stream:
            stream.seek(place)
            return self._parse(stream.readline(), 0)

    def lines(self) -> list[Line]:
        return [line for _, line in self.read()]

    def replace(self, lines: Iterable[Line]) -> None:
        """Write all lines anew, at once."""
        with self._lock:
            write_whole(self.path, b"".join(map(encode_line, lines)))
            self._end = None

    def _parse(self, content: bytes, number: int) -> Line:
        try:
            return self._adapter.validate_python(json.loads(content))
        except (ValueError, ValidationError) as error:
            raise FormatError(
                str(self.path),
                entry=f"line {number}" if number else "a line",
                field="content",
                expected="what a run wrote",
                found=str(error).splitlines()[0],
            ) from error


def encode_line(line: DataclassInstance) -> bytes:
    return encode_json(asdict(line)) + b"\n"


def encode_json(document: JsonValue, *, indent: int | None = None) -> bytes:
    """Write JSON as readable as it can be: what is no valid Unicode, as some models write, is escaped."""
    try:
        return json.dumps(document, ensure_ascii=False, indent=indent).encode()
    except UnicodeEncodeError:
        return json.dumps(document, indent=indent).encode()


def cut_torn_end(path: Path) -> int:
    """Cut off a last line that was not written to its end; give the length of the rest."""
    with path.open("r+b") as stream:
        whole = sum(len(content) for content in stream if content.endswith(b"\n"))
        if whole != stream.seek(0, os.SEEK_END):
            stream.truncate(whole)
            os.fsync(stream.fileno())
    return whole


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file at once: whoever reads it finds the old one or the new one."""
    written = path.with_name(f"{path.name}.new")
    with written.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    written.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make sure that a new name in a folder survives a power cut, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
