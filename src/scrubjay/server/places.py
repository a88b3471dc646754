"""Which memories a server serves, as can be told to another process, and how they are opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrubjay.home import Home
    from scrubjay.llm import ChatModel
    from scrubjay.server.settings import ServerSettings
    from scrubjay.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder of memories, one memory's file, or a database; the first that is given."""

    folder: Path | None = None
    file: Path | None = None
    dsn: str | None = None
    embedder: str | None = None
    max_open: int | None = None  # None: as many as are by default

    def open(self, settings: Settings, model: ChatModel | None) -> Home:
        from scrubjay.home import MAX_OPEN, FileHome, MemoryHome
        from scrubjay.postgres_home import PostgresHome

        most = MAX_OPEN if self.max_open is None else self.max_open
        if self.folder is not None:
            return MemoryHome(
                self.folder, settings=settings, embedder=self.embedder, model=model, max_open=most
            )
        if self.file is not None:
            return FileHome(self.file, settings=settings, embedder=self.embedder, model=model)
        return PostgresHome(
            self.dsn or "", settings=settings, embedder=self.embedder, model=model, max_open=most
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """All that a process needs to know to serve."""

    place: Place
    keys_path: Path | None
    settings: ServerSettings
    memory_settings: Settings
    shared: Path | None = None  # the folder that the processes of one server share, where there are several
