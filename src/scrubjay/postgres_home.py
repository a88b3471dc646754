"""The memories of many users in one PostgreSQL database; any number of processes may serve them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.memory import Memory
from scrubjay.open_memories import OpenHome
from scrubjay.settings import Settings
from scrubjay.store.postgres import open_database, stores_of

if TYPE_CHECKING:
    from scrubjay.llm import ChatModel
    from scrubjay.store.postgres.budgets import BudgetLimits, SharedBudgets
    from scrubjay.store.postgres.work import WorkQueue

MAX_OPEN = 256  # memories; an open one holds its index, but no connection


class PostgresHome(OpenHome):
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
        super().__init__(max_open)
        self._settings = settings or Settings()
        self._embedder = embedder
        self._model = model
        self._database = open_database(dsn, self._settings.postgres)
        self.location = self._database.location

    def _open_stored(self, user_id: str, *, create: bool) -> Memory:
        stores = stores_of(self._database, user_id, create=create, owns_database=False)
        return Memory(stores, settings=self._settings, embedder=self._embedder, model=self._model)

    def users(self) -> tuple[str, ...]:
        """Give the ids of all users who have a memory here, sorted."""
        return self._database.list_users()

    def _remove_stored(self, user_id: str) -> bool:
        return self._database.forget_user(user_id)

    def work_queue(self) -> WorkQueue:
        """Give the memories that have something for a worker to do."""
        from scrubjay.store.postgres.work import WorkQueue

        return WorkQueue(self._database)

    def budgets(self, limits: BudgetLimits) -> SharedBudgets:
        """Give what all workers of the database may spend together."""
        from scrubjay.store.postgres.budgets import SharedBudgets

        return SharedBudgets(self._database, limits)

    def close(self) -> None:
        """Close all memories, also those in use, and the connections."""
        super().close()
        self._database.close()
