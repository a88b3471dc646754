"""Budgets of calls and tokens that all workers of a database share: a row each, taken from in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrubjay.store.postgres.transaction import limit_waiting

if TYPE_CHECKING:
    from scrubjay.store.postgres.connection import PostgresDatabase

TAKE_BUDGET = """
    INSERT INTO scrubjay.budget AS held (name, starts_at, used)
    VALUES (%(name)s, extract(epoch FROM date_trunc(%(unit)s, now(), 'UTC'))::bigint, %(cost)s)
    ON CONFLICT (name) DO UPDATE SET starts_at = greatest(held.starts_at, excluded.starts_at), used =
        CASE WHEN held.starts_at < excluded.starts_at THEN excluded.used ELSE held.used + excluded.used END
    WHERE held.starts_at < excluded.starts_at OR held.used = 0 OR held.used + excluded.used <= %(limit)s
    RETURNING starts_at
"""
"""What costs more than the whole budget may be had while nothing else was: else it never could."""

MEND_BUDGET = "UPDATE scrubjay.budget SET used = greatest(used + %(more)s, 0) WHERE name = %(name)s AND starts_at = %(starts)s"

WAIT = """
    SELECT starts_at + %(length)s - extract(epoch FROM clock_timestamp())::float8 FROM scrubjay.budget
    WHERE name = %(name)s AND used > 0 AND used + %(cost)s > %(limit)s
"""

LENGTHS = {"minute": 60, "day": 86_400}  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """What all workers of a database may spend together; None: as much as they like."""

    calls_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What was taken from budgets for one call, before it was known what it costs."""

    calls: int
    tokens: int
    starts: dict[str, int]  # the beginning of each budget's minute or day


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    name: str
    unit: str
    limit: int
    counts_calls: bool

    def cost(self, tokens: int) -> int:
        """Give what a call of so many tokens takes."""
        return 1 if self.counts_calls else tokens


class SharedBudgets:
    """Budgets that hold for all workers together, counted by the database's own clock: its minutes, and UTC's days."""

    def __init__(self, database: PostgresDatabase, limits: BudgetLimits) -> None:
        self._database = database
        given = (
            ("calls a minute", "minute", limits.calls_per_minute, True),
            ("tokens a minute", "minute", limits.tokens_per_minute, False),
            ("tokens a day", "day", limits.tokens_per_day, False),
        )
        self._budgets = tuple(
            Budget(name=name, unit=unit, limit=limit, counts_calls=counts_calls)
            for name, unit, limit, counts_calls in given
            if limit is not None
        )

    def seconds_to_wait(self, *, tokens: int = 1) -> float:
        """Give how long a call of so many tokens can't be taken; 0 where it can."""

        def attempt() -> float:
            with self._database.borrow() as connection:
                found = [
                    connection.execute(
                        WAIT,
                        {
                            "name": one.name,
                            "limit": one.limit,
                            "length": LENGTHS[one.unit],
                            "cost": one.cost(tokens),
                        },
                    ).fetchone()
                    for one in self._budgets
                ]
            return max((float(row[0]) for row in found if row is not None), default=0.0)

        return max(self._database.keep_trying(attempt), 0.0) if self._budgets else 0.0

    def take(self, *, tokens: int) -> Spending | None:
        """Take a call and so many tokens from every budget, or nothing from any."""
        if not self._budgets:
            return Spending(calls=1, tokens=tokens, starts={})
        return self._database.keep_trying(lambda: self._take(tokens))

    def _take(self, tokens: int) -> Spending | None:
        starts: dict[str, int] = {}
        with self._database.borrow() as connection:
            connection.execute("BEGIN")
            limit_waiting(connection, self._database.settings)
            for one in self._budgets:  # always in this order, lest two wait for each other
                values = {"name": one.name, "unit": one.unit, "cost": one.cost(tokens), "limit": one.limit}
                row = connection.execute(TAKE_BUDGET, values).fetchone()
                if row is None:
                    connection.execute("ROLLBACK")
                    return None
                starts[one.name] = int(row[0])
            connection.execute("COMMIT")
        return Spending(calls=1, tokens=tokens, starts=starts)

    def mend(self, taken: Spending, *, calls: int, tokens: int) -> None:
        """Put what a call did cost in the place of what was taken for it; a minute that is over is let be."""

        def attempt() -> None:
            with self._database.borrow() as connection, connection.transaction():
                limit_waiting(connection, self._database.settings)
                for one in self._budgets:
                    more = calls - taken.calls if one.counts_calls else tokens - taken.tokens
                    starts = taken.starts[one.name]
                    connection.execute(MEND_BUDGET, {"more": more, "name": one.name, "starts": starts})

        if self._budgets:
            self._database.keep_trying(attempt)
