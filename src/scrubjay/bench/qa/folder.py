"""The folder of a run: what it is stands in run.json, and no other run gets in; one process at a time works in it."""

from __future__ import annotations

import json
import platform
import sqlite3
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Self, cast

from scrubjay.bench.qa.durable import DurableLines, encode_json, write_whole
from scrubjay.bench.qa.lines import AnswerLine, BuildLine, QuestionLine, StartLine, VerdictLine
from scrubjay.errors import InputError, NotFoundError, SettingsError
from scrubjay.home import file_name
from scrubjay.prompts import load_prompt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from scrubjay.datatypes import JsonValue

Document = dict[str, "JsonValue"]

RUN_FILE = "run.json"
LOCK_FILE = "lock"
PACKAGES = ("scrubjay", "numpy", "pydantic", "pydantic-ai-slim", "openai", "anthropic", "genai-prices")
HASH_DIGITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a run is: with another of these, answers would not belong together."""

    system: str
    dataset: str
    variant: str  # of LongMemEval: development, oracle, S or M; "" of others
    data_sha256: str
    files: tuple[str, ...]
    model: str
    judge: str | None
    votes: int
    embedder: str
    settings: Document  # the system's
    prompts: Mapping[str, str]  # name → sha256 of its text
    scrubjay: str

    @property
    def name(self) -> str:
        """Name its folder."""
        content = encode_json(cast("JsonValue", asdict(self)))
        canonical = json.dumps(json.loads(content), sort_keys=True)
        return f"{self.system}-{self.dataset}-{sha256(canonical.encode()).hexdigest()[:HASH_DIGITS]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which questions were chosen at the last start."""

    limit: int | None  # only of the first conversations
    sample: int | None  # only so many, drawn with the seed
    seed: int
    corrections: str  # sha256 of the file of corrections; "" without one


def hash_prompts(names: Sequence[str]) -> dict[str, str]:
    return {name: sha256(load_prompt(name).encode()).hexdigest() for name in sorted(names)}


class RunFolder:
    """A run's files, held against other processes until `close`."""

    def __init__(self, path: Path, lock: sqlite3.Connection) -> None:
        self.path = path
        self._lock = lock
        self.questions = DurableLines(path / "questions.jsonl", QuestionLine)
        self.builds = DurableLines(path / "build.jsonl", BuildLine)
        self.answers = DurableLines(path / "answers.jsonl", AnswerLine)
        self.verdicts = DurableLines(path / "verdicts.jsonl", VerdictLine)

    @classmethod
    def open(cls, path: Path, identity: Identity, selection: Selection) -> Self:
        """Make the folder, or go on in it; raise SettingsError where it holds another run, InputError where it is in use."""
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path, take_lock(path))
        try:
            folder._begin(identity, selection)
        except BaseException:
            folder.close()
            raise
        return folder

    def _begin(self, identity: Identity, selection: Selection) -> None:
        document = cast("Document", json.loads(encode_json(cast("JsonValue", asdict(identity)))))
        if (self.path / RUN_FILE).is_file():
            require_same(read_run_file(self.path)[0], document, path=self.path)
        prompts = self.path / "prompts"
        prompts.mkdir(exist_ok=True)
        for name in identity.prompts:
            write_whole(prompts / f"{name}.md", f"{load_prompt(name)}\n".encode())
        chosen = cast("JsonValue", asdict(selection))
        write_whole(self.path / RUN_FILE, encode_json({"run": document, "selection": chosen}, indent=2))
        start = StartLine(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            python=platform.python_version(),
            packages=package_versions(),
        )
        DurableLines(self.path / "starts.jsonl", StartLine).append(start)

    def memory_folder(self, sample: str) -> Path:
        """Give the folder for what a system keeps of a conversation."""
        folder = self.path / "memories" / file_name(sample).removesuffix(".jay")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def close(self) -> None:
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def take_lock(path: Path) -> sqlite3.Connection:
    """Hold the folder; SQLite's lock is let go by the system when the process ends, however it does."""
    connection = sqlite3.connect(path / LOCK_FILE, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        connection.close()
        raise InputError(f"{path}: another process is at work in this run: wait for it, or end it") from error
    return connection


def read_run_file(path: Path) -> tuple[Document, Document]:
    """Give what a run is and which questions were chosen; raise NotFoundError where there is no run."""
    try:
        written = json.loads((path / RUN_FILE).read_text("utf-8"))
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: there is no run here: it has no {RUN_FILE}") from error
    except ValueError as error:
        raise InputError(f"{path / RUN_FILE}: expected what a run wrote, found {error}") from error
    return written["run"], written["selection"]


def require_same(before: Document, now: Document, *, path: Path) -> None:
    """Raise SettingsError, naming every difference, where a folder holds another run."""
    found = [f"{name} was {old!r}, now {new!r}" for name, old, new in differences(before, now)]
    if found:
        raise SettingsError(
            f"{path} holds a run with other settings: {'; '.join(found)}. "
            "Start it with the same ones, or in another folder"
        )


def differences(
    before: JsonValue, now: JsonValue, name: str = ""
) -> Iterator[tuple[str, JsonValue, JsonValue]]:
    """Give the places at which two documents differ, by their dotted names."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*before, *now)):
            inner = f"{name}.{key}" if name else key
            yield from differences(before.get(key), now.get(key), inner)
    elif before != now:
        yield name, before, now


def package_versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
