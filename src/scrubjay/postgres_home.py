"""The memories of many users in one PostgreSQL database; any number of processes may serve them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrubjay.memory import Memory
from scrubjay.open_memories import OpenMemories, owned_by, require_user
from scrubjay.settings import Settings
from scrubjay.store.postgres import open_database, stores_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from scrubjay.llm import ChatModel

MAX_OPEN = 256  # memories; an open one holds its index, but no connection


class PostgresHome:
    """Memories of many users in one database, behind one pool of connections.

    Safe to share between threads; processes share nothing but the database. Memories stay open for the next who asks,
    with their index, `max_open` of them at most but for those in use; what other processes wrote is read before each
    answer.
    """

    def __init__(
        self,
        dsn: str,
        *,
        settings: Settings | None = None,
        embedder: str | None = None,
        model: ChatModel | None = None,
        max_open: int = MAX_OPEN,
    ) -> None:
        """Connect and bring the tables up to date; `model` is what all memories ask, and its giver's to close."""
        self._settings = settings or Settings()
        self._embedder = embedder
        self._model = model
        self._open = OpenMemories(max_open)
        self._database = open_database(dsn, self._settings.postgres)
        self.location = self._database.location

    def memory(self, user_id: str, *, create: bool = True) -> Memory:
        """Give the user's memory, opened once and kept until `close`; raise NotFoundError if not to create."""
        with self._borrowed(user_id, create=create, pin=True) as memory:
            return memory

    def borrow(self, user_id: str, *, create: bool = True) -> AbstractContextManager[Memory]:
        """Give the user's memory, which isn't closed before the block ends; raise NotFoundError if not to create.

        Where the user is forgotten meanwhile, using it raises StoreClosedError.
        """
        return self._borrowed(user_id, create=create)

    def _borrowed(self, user_id: str, *, create: bool, pin: bool = False) -> AbstractContextManager[Memory]:
        require_user(user_id)
        return self._open.borrow(user_id, lambda: self._open_memory(user_id, create=create), pin=pin)

    def _open_memory(self, user_id: str, *, create: bool) -> Memory:
        stores = stores_of(self._database, user_id, create=create, owns_database=False)
        memory = Memory(stores, settings=self._settings, embedder=self._embedder, model=self._model)
        return owned_by(memory, user_id)

    def users(self) -> tuple[str, ...]:
        """Give the ids of all users who have a memory here, sorted."""
        return self._database.list_users()

    def forget(self, user_id: str) -> bool:
        """Delete the user's memory with all its rows; say whether there was one.

        Whoever has borrowed it gets StoreClosedError from then on, in other processes too.
        """
        require_user(user_id)
        return self._open.remove(user_id, lambda: self._database.forget_user(user_id))

    def close(self) -> None:
        """Close all memories, also those in use, and the connections."""
        self._open.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
