"""Opening a memory's stores by where they lie: a table of schemes, each with the module that opens them."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from scrubjay.errors import InputError
from scrubjay.store_settings import PostgresSettings

if TYPE_CHECKING:
    from pathlib import Path

    from scrubjay.store import RecordStore, SegmentStore, Store


class OpenPlace(Protocol):
    """Where an open memory's stores lie: a file, or a part of a database."""

    @property
    def is_gone(self) -> bool:
        """Whether the memory was deleted or replaced since it was opened; whatever is asked then raises."""
        ...

    def size(self) -> int:
        """Give the bytes it takes on disk, 0 where there are none or they can't be told from others'."""
        ...

    def scrub(self) -> str:
        """Remove what deleting left behind; return why it could not, or ""."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """One memory's open stores, and the place they share."""

    location: str  # what to call it in messages; holds no password
    turns: Store
    segments: SegmentStore
    records: RecordStore
    place: OpenPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a memory is to be opened."""

    read_only: bool = False
    create: bool = True
    user_id: str | None = None  # whose, in a database of many
    postgres: PostgresSettings = field(default_factory=PostgresSettings)


class OpenStores(Protocol):
    """What a module of OPENERS has under the name `open_stores`."""

    def __call__(self, location: str, opening: Opening) -> Stores: ...


OPENERS: dict[str, str] = {
    "": "scrubjay.store.files",
    "postgresql": "scrubjay.store.postgres",
    "postgres": "scrubjay.store.postgres",
}
"""The scheme of a location → the module that opens such; a location without one is a file's path."""


def open_stores(location: str | Path | Stores, opening: Opening) -> Stores:
    """Open the stores of the memory at a location; those that are open already are given back."""
    if isinstance(location, Stores):
        return location
    opens: OpenStores = import_module(OPENERS[scheme_of(location)]).open_stores
    return opens(str(location), opening)


def scheme_of(location: str | Path) -> str:
    """Give the scheme of a location, "" for a file's path; raise InputError for one that no store opens."""
    scheme, separator, _ = str(location).partition("://")
    if not separator:
        return ""
    if scheme not in OPENERS:
        known = ", ".join(f"{name}://…" for name in OPENERS if name)
        raise InputError(f"no memory is kept at {scheme}://…: expected the path of a file, or one of {known}")
    return scheme
