"""Downloading a data set from a real server on loopback: whole and checked, or not at all; and going on."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from scrubjay.bench.fetching import SOURCES, Downloaded, fetch, find_source
from scrubjay.errors import DownloadError, SettingsError
from scrubjay.trace import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTENT = json.dumps([{"question": f"What is said in line {number}?"} for number in range(20_000)]).encode()
DIGEST = hashlib.sha256(CONTENT).hexdigest()
HALF = len(CONTENT) // 2


@dataclass
class Served:
    """A file on a server, and how the server behaves."""

    content: bytes = CONTENT
    tag: str = '"one"'
    status: int = 200
    takes_ranges: bool = True
    cut_after: int | None = None  # bytes of a reply after which it hangs up
    sends_from: int | None = None  # instead of where it was asked to begin
    asked: list[str | None] = field(default_factory=list)  # the range of each request
    url: str = ""


@pytest.fixture
def served() -> Iterator[Served]:
    serving = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            serving.asked.append(asked)
            same = serving.takes_ranges and self.headers.get("If-Range") == serving.tag
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and same else 0
            if serving.status != 200 or start >= len(serving.content) > 0:
                self.send_error(serving.status if serving.status != 200 else 416)
                return
            start = start if serving.sends_from is None else serving.sends_from
            body = serving.content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            if serving.tag:
                self.send_header("ETag", serving.tag)
            if start:
                self.send_header(
                    "Content-Range", f"bytes {start}-{len(serving.content) - 1}/{len(serving.content)}"
                )
            self.end_headers()
            self.wfile.write(body[: serving.cut_after])

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        serving.url = f"http://127.0.0.1:{server.server_address[1]}/data/lines.json"
        yield serving
        server.shutdown()
        thread.join()


def get(served: Served, to: Path, sha256: str | None = DIGEST) -> Downloaded:
    return fetch(served.url, to, sha256=sha256, advance=ignore_progress)


def test_a_file_comes_whole(served: Served, tmp_path: Path) -> None:
    """It is written under its name, in folders made for it, and nothing else is left; progress runs to its end."""
    to = tmp_path / "data" / "lines.json"
    told: list[tuple[int, int]] = []
    got = fetch(served.url, to, sha256=DIGEST, advance=lambda done, total: told.append((done, total)))
    assert got == Downloaded(path=to, sha256=DIGEST, bytes=len(CONTENT), received=len(CONTENT))
    assert to.read_bytes() == CONTENT
    assert list(to.parent.iterdir()) == [to]
    assert told[-1] == (len(CONTENT), len(CONTENT))


def test_it_goes_on(served: Served, tmp_path: Path) -> None:
    """A connection that ends early leaves no file under the name; the next try asks for the rest alone."""
    to = tmp_path / "lines.json"
    served.cut_after = HALF
    with pytest.raises(DownloadError, match="run the command again"):
        get(served, to)
    assert not to.exists()
    served.cut_after = None
    assert get(served, to).received == len(CONTENT) - HALF
    assert to.read_bytes() == CONTENT
    assert served.asked == [None, f"bytes={HALF}-"]


def test_another_file_by_now(served: Served, tmp_path: Path) -> None:
    """Halves of two files are never put together: what changed meanwhile is begun anew."""
    to = tmp_path / "lines.json"
    served.cut_after = HALF
    with pytest.raises(DownloadError):
        get(served, to)
    served.cut_after, served.tag, served.content = None, '"two"', CONTENT[::-1]
    got = get(served, to, sha256=None)
    assert got.received == len(CONTENT)
    assert to.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("tag", ["", 'W/"weak"'])
def test_without_a_tag_it_begins_anew(served: Served, tmp_path: Path, tag: str) -> None:
    """Where the source doesn't say which file it is, nothing is gone on with."""
    to = tmp_path / "lines.json"
    served.tag, served.cut_after = tag, HALF
    with pytest.raises(DownloadError):
        get(served, to)
    served.cut_after = None
    assert get(served, to).received == len(CONTENT)
    assert served.asked == [None, None]


def test_a_source_without_ranges(served: Served, tmp_path: Path) -> None:
    """Where the source sends all of it again, all of it is taken again."""
    to = tmp_path / "lines.json"
    served.takes_ranges, served.cut_after = False, HALF
    with pytest.raises(DownloadError):
        get(served, to)
    served.cut_after = None
    assert get(served, to).received == len(CONTENT)
    assert to.read_bytes() == CONTENT


def test_killed_before_it_took_its_place(served: Served, tmp_path: Path) -> None:
    """A whole partial file, or notes cut short, are no obstacle."""
    to = tmp_path / "lines.json"
    to.with_name("lines.json.part").write_bytes(CONTENT)
    notes = to.with_name("lines.json.part.json")
    notes.write_text(json.dumps({"url": served.url, "tag": served.tag}), "utf-8")
    assert get(served, to).received == 0
    to.rename(to.with_name("lines.json.part"))
    notes.write_text("{", "utf-8")
    assert get(served, to).received == len(CONTENT)


def test_a_source_that_sends_another_part(served: Served, tmp_path: Path) -> None:
    """What doesn't begin where it was asked to is refused."""
    to = tmp_path / "lines.json"
    served.cut_after = HALF
    with pytest.raises(DownloadError):
        get(served, to)
    served.cut_after, served.sends_from = None, 7
    with pytest.raises(DownloadError, match="asked from byte"):
        get(served, to)
    assert not to.exists()


def test_what_is_not_as_expected_is_removed(served: Served, tmp_path: Path) -> None:
    """A file with another checksum never takes the name, and says what it was."""
    to = tmp_path / "lines.json"
    with pytest.raises(DownloadError, match=DIGEST):
        get(served, to, sha256="0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_left_alone(served: Served, tmp_path: Path) -> None:
    """A file that is there is checked and not asked for; another one in its place is an error."""
    to = tmp_path / "lines.json"
    to.write_bytes(CONTENT)
    assert get(served, to).received == 0
    to.write_bytes(b"[]")
    with pytest.raises(DownloadError, match="move it away"):
        get(served, to)
    assert to.read_bytes() == b"[]"
    assert served.asked == []


@pytest.mark.parametrize("status", [404, 403, 500])
def test_the_source_says_no(served: Served, tmp_path: Path, status: int) -> None:
    """What the source answered is told."""
    served.status = status
    with pytest.raises(DownloadError, match=str(status)):
        get(served, tmp_path / "lines.json")


def test_nobody_answers(tmp_path: Path) -> None:
    """An address where nobody is, is an error of ours."""
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1"):
        fetch("http://127.0.0.1:9/x.json", tmp_path / "x.json", sha256=None, advance=ignore_progress)
    with pytest.raises(SettingsError, match="https://"):
        fetch("file:///etc/hosts", tmp_path / "x.json", sha256=None, advance=ignore_progress)


def test_sources_are_pinned() -> None:
    """Every source has a licence, a checksum and an address of its authors'; another name is refused."""
    for name, source in SOURCES.items():
        assert find_source(name) is source
        assert len(bytes.fromhex(source.sha256)) == 32
        assert source.url.startswith("https://")
        assert source.file_name.endswith(".json")
        assert source.licence
    with pytest.raises(SettingsError, match="locomo, longmemeval"):
        find_source("squad")
