"""PORT: other memories under measurement, each an adapter of its own file: they keep turns without a model and search."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Protocol

from scrubjay._version import __version__
from scrubjay.errors import MissingExtraError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from scrubjay.datatypes import Turn
    from scrubjay.embed import Embedder


class TurnStore(Protocol):
    """What another memory must do to be measured: keep what was said, and find it again."""

    def add(self, turns: Sequence[Turn]) -> None:
        """Keep the turns of a session, in their order, without asking a model."""
        ...

    def search(self, question: str, *, limit: int) -> Sequence[str]:
        """Give the ids of at most `limit` turns, the best first, each once."""
        ...

    def close(self) -> None:
        """Let go of files and threads; what was kept on disk stays there."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """Another memory, by the name it is asked for, and where its code is."""

    name: str
    about: str
    module: str  # of this package, with a function open_store(folder, embedder)
    package: str | None = None  # the distribution it runs; None: a baseline of our own
    extra: str = "bench"  # that installs the package

    @property
    def version(self) -> str:
        """Give the package with its version; raise MissingExtraError where it isn't installed."""
        if self.package is None:
            return f"scrubjay {__version__}"
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError as error:
            raise MissingExtraError(self.package, extra=self.extra) from error

    def open(self, folder: Path, embedder: Embedder) -> TurnStore:
        """Open an empty store in a folder; raise MissingExtraError where the package isn't installed."""
        _ = self.version
        open_store: Callable[[Path, Embedder], TurnStore] = import_module(
            f"{__name__}.{self.module}"
        ).open_store
        return open_store(folder, embedder)


def make_adapters() -> Mapping[str, Adapter]:
    adapters = (
        Adapter(
            name="naive-rag",
            about="chunks of whole turns, 256 tokens each, by cosine",
            module="naive_rag",
        ),
        Adapter(
            name="mem0",
            about="mem0 without a model (infer=False): local Qdrant on disk, by cosine",
            module="mem0",
            package="mem0ai",
            extra="bench-mem0",
        ),
        Adapter(
            name="langgraph-store",
            about="LangGraph's InMemoryStore with an index, by cosine",
            module="langgraph_store",
            package="langgraph",
            extra="langgraph",
        ),
        Adapter(
            name="memos",
            about="MemOS's GeneralTextMemory given turns as items: local Qdrant on disk, by cosine",
            module="memos",
            package="MemoryOS",
            extra="bench-memos",
        ),
    )
    return {adapter.name: adapter for adapter in adapters}


ADAPTERS = make_adapters()


def find_adapter(name: str) -> Adapter:
    if name not in ADAPTERS:
        raise SettingsError(f"adapter: expected one of {', '.join(ADAPTERS)}, found {name!r}")
    return ADAPTERS[name]
