"""Download a data set from where its authors keep it: whole and checked, or not there at all.

The one place of the package that goes to the network by itself, and only when it is told to.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from scrubjay._version import __version__
from scrubjay.errors import DownloadError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from http.client import HTTPResponse
    from pathlib import Path

BLOCK = 1 << 16  # bytes read at a time
PATIENCE = 60.0  # seconds without a byte
SCHEMES = ("https://", "http://")
PART = 206  # statuses of HTTP
NOT_SATISFIABLE = 416
LOCOMO = "https://raw.githubusercontent.com/snap-research/locomo/main/data"
LONGMEMEVAL = (
    "https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned/resolve/"
    "98d7416c24c778c2fee6e6f3006e7a073259d48f"
)
MIT = "MIT licence, as its card says: https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a data set is, under what terms, and what it must be.

    Checksums are those that several public projects report of the files; from here the sources couldn't be reached.
    """

    name: str
    about: str
    url: str
    licence: str
    sha256: str
    bytes: int

    @property
    def file_name(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloaded:
    """A file that is there now."""

    path: Path
    sha256: str
    bytes: int
    received: int  # bytes of it that came this time; 0 where it was there


def make_sources() -> Mapping[str, Source]:
    longmemeval = (
        ("longmemeval", "S, 500 questions, each over about 50 sessions", "longmemeval_s_cleaned.json",
         "d6f21ea9d60a0d56f34a05b609c79c88a451d2ae03597821ea3d5a9678c3a442", 277_383_467),
        ("longmemeval-oracle", "the same questions over their evidence alone", "longmemeval_oracle.json",
         "821a2034d219ab45846873dd14c14f12cfe7776e73527a483f9dac095d38620c", 15_388_478),
        ("longmemeval-m", "the same over about 500 sessions", "longmemeval_m_cleaned.json",
         "9d79e5524794a2e6900a3aa9cb7d9152c5a3e8319c9a87c25494ba1eacee495f", 2_737_100_077),
    )  # fmt: skip
    sources = (
        Source(
            name="locomo",
            about="10 conversations, 1,986 questions",
            url=f"{LOCOMO}/locomo10.json",
            licence="CC BY-NC 4.0: no commercial use; https://github.com/snap-research/locomo",
            sha256="79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4",
            bytes=2_805_274,
        ),
        *(
            Source(
                name=name, about=about, url=f"{LONGMEMEVAL}/{file}", licence=MIT, sha256=digest, bytes=size
            )
            for name, about, file, digest, size in longmemeval
        ),
    )
    return {source.name: source for source in sources}


SOURCES = make_sources()


def find_source(name: str) -> Source:
    if name not in SOURCES:
        raise SettingsError(f"data set: expected one of {', '.join(SOURCES)}, found {name!r}")
    return SOURCES[name]


def fetch(url: str, to: Path, *, sha256: str | None, advance: Callable[[int, int], None]) -> Downloaded:
    """Download to a file beside `to`, check it, and put it in its place; go on where an earlier try ended.

    With no checksum, what came is taken. Raise DownloadError where the source can't be reached, ends early, or gives
    something else; SettingsError for another kind of address.
    """
    if not url.startswith(SCHEMES):
        raise SettingsError(f"url: expected one that begins with {' or '.join(SCHEMES)}, found {url!r}")
    if to.exists():
        return check_present(to, sha256=sha256)
    to.parent.mkdir(parents=True, exist_ok=True)
    partial, notes = to.with_name(f"{to.name}.part"), to.with_name(f"{to.name}.part.json")
    received = download(url, partial, notes, advance=advance)
    found = hash_file(partial)
    notes.unlink(missing_ok=True)
    if sha256 is not None and found != sha256:
        partial.unlink()
        raise DownloadError(
            f"{url} gave a file with sha256 {found}, not {sha256}: it was removed. The source may have changed; "
            "give --sha256 to take another, or --sha256 any to take whatever comes"
        )
    partial.replace(to)
    return Downloaded(path=to, sha256=found, bytes=to.stat().st_size, received=received)


def check_present(to: Path, *, sha256: str | None) -> Downloaded:
    """Leave a file alone that is there; raise DownloadError where it isn't the one that was asked for."""
    found = hash_file(to)
    if sha256 is not None and found != sha256:
        raise DownloadError(
            f"{to} is there with sha256 {found}, not {sha256}: move it away, or give another --to"
        )
    return Downloaded(path=to, sha256=found, bytes=to.stat().st_size, received=0)


def hash_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def download(url: str, partial: Path, notes: Path, *, advance: Callable[[int, int], None]) -> int:
    """Write what is missing to the partial file; give how many bytes came."""
    held = read_tag(notes, url)
    start = partial.stat().st_size if held and partial.exists() else 0
    try:
        with ask_for(url, start=start, tag=held) as response:
            if not goes_on(response, start):
                start = 0  # the source can't, or has another file by now
            notes.write_text(json.dumps({"url": url, "tag": response.headers.get("ETag", "")}), "utf-8")
            return receive(response, partial, start=start, advance=advance)
    except HTTPError as error:
        if error.code == NOT_SATISFIABLE and start:
            return 0  # nothing is missing
        raise DownloadError(f"{url} answered {error.code} {error.reason}") from error
    except (URLError, HTTPException, OSError) as error:
        raise DownloadError(
            f"{url} can't be downloaded: {error}. What came is kept in {partial}; run the command again to go on"
        ) from error


def ask_for(url: str, *, start: int, tag: str) -> HTTPResponse:
    headers = {"User-Agent": f"scrubjay/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": tag}
    response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=PATIENCE)  # noqa: S310 -- the scheme is checked
    return response


def goes_on(response: HTTPResponse, start: int) -> bool:
    """Tell whether what comes is the rest from `start`."""
    if response.status != PART:
        return False
    said = response.headers.get("Content-Range", "")
    if not said.startswith(f"bytes {start}-"):
        raise OSError(f"asked from byte {start}, it sends {said!r}")
    return True


def receive(response: HTTPResponse, partial: Path, *, start: int, advance: Callable[[int, int], None]) -> int:
    length = response.headers.get("Content-Length")
    total = start + int(length) if length else 0
    received = 0
    with partial.open("r+b" if start else "wb") as stream:
        stream.seek(start)
        while block := response.read(BLOCK):
            stream.write(block)
            received += len(block)
            advance(start + received, total)
        stream.truncate()
        stream.flush()
        os.fsync(stream.fileno())
    if length and received < int(length):
        raise OSError(f"the connection ended after {start + received:,} of {total:,} bytes")
    return received


def read_tag(notes: Path, url: str) -> str:
    """Give the tag of the file that a partial one belongs to; empty where it can't be gone on with."""
    if not notes.exists():
        return ""
    try:
        held = json.loads(notes.read_text("utf-8"))
    except json.JSONDecodeError:  # cut short as it was written: the file is begun anew
        return ""
    return str(held["tag"]) if held["url"] == url and not held["tag"].startswith("W/") else ""
