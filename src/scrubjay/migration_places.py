"""Where memories to be migrated lie: a file, a folder of files, a database."""

from __future__ import annotations

from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from scrubjay.errors import InputError, NotFoundError
from scrubjay.home import MemoryHome
from scrubjay.store.connection import IN_MEMORY
from scrubjay.store.file_rows import FilePlace
from scrubjay.store.opening import scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrubjay.store.copying import CopyPlace
    from scrubjay.store.postgres.connection import PostgresDatabase
    from scrubjay.store_settings import PostgresSettings


class Places(Protocol):
    """The memories at one address."""

    @property
    def location(self) -> str:
        """What to call it in messages; holds no password."""
        ...

    @property
    def of_many(self) -> bool:
        """Whether memories of many users lie here, so that each must be somebody's."""
        ...

    def users(self) -> tuple[str | None, ...]:
        """Give whose memories are here; None for one that says of no user to be theirs."""
        ...

    def place(self, user_id: str | None) -> CopyPlace: ...


class OneFile:
    """One memory's file."""

    of_many = False

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.location = str(path)
        self._path = path
        self._read_only = read_only

    def users(self) -> tuple[str | None, ...]:
        with closing(self.place(None)) as place, place.reading() as memory:
            heading = memory.heading()
        return (None if heading is None else heading.owner,)

    def place(self, user_id: str | None) -> CopyPlace:  # noqa: ARG002 -- as any Places; a file is one user's
        return FilePlace(self._path, read_only=self._read_only)


class Folder:
    """A folder of memories, a file for each user."""

    of_many = True

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        self.location = str(folder)
        self._home = MemoryHome(folder)
        self._read_only = read_only

    def users(self) -> tuple[str | None, ...]:
        return self._home.users()

    def place(self, user_id: str | None) -> CopyPlace:
        return FilePlace(self._home.path(user_id or ""), read_only=self._read_only)


class OneDatabase:
    """A database of memories."""

    of_many = True

    def __init__(self, database: PostgresDatabase) -> None:
        self.location = database.location
        self._database = database

    def users(self) -> tuple[str | None, ...]:
        return self._database.list_users()

    def place(self, user_id: str | None) -> CopyPlace:
        from scrubjay.store.postgres.memory_rows import DatabasePlace

        return DatabasePlace(self._database, user_id or "")


@contextmanager
def open_places(
    address: str | Path, settings: PostgresSettings, *, read_only: bool, must_exist: bool
) -> Iterator[Places]:
    """Open what lies at an address; a path without an ending that isn't a file is a folder of memories.

    Raise NotFoundError where nothing is at a path, and something must be.
    """
    if scheme_of(address):
        from scrubjay.store.postgres import open_database

        with closing(open_database(str(address), settings, read_only=read_only)) as database:
            yield OneDatabase(database)
        return
    path = Path(address)
    if str(address) == IN_MEMORY:
        raise InputError(
            "a memory kept in memory only can't be migrated: give a file, a folder or a database"
        )
    if must_exist and not path.exists():
        raise NotFoundError(f"there is no memory, and no folder of memories, at {path}")
    is_folder = path.is_dir() or not (path.exists() or path.suffix)
    yield Folder(path, read_only=read_only) if is_folder else OneFile(path, read_only=read_only)
