"""Memories from one place to another, without loss: files, folders of files, databases.

Each memory is copied from one unchanging view of it, in one transaction that is committed once what was written has
been read again and found to be what was read. So whenever a migration is broken off, each memory is there whole or
not at all, and run again it goes on with those that are not. The source is only read.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from scrubjay.datatypes import MigratedMemory, MigrationOutcome, MigrationProgress, MigrationReport
from scrubjay.errors import (
    InputError,
    MigrationConflictError,
    MigrationMismatchError,
    NotFoundError,
    StoreCorruptError,
    StoreUnavailableError,
)
from scrubjay.migration_places import open_places
from scrubjay.store.copying import ROWS_AT_ONCE, TABLES, Tally, sum_heading, sum_table, sum_up
from scrubjay.store_settings import PostgresSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from scrubjay.datatypes import TableSum
    from scrubjay.migration_places import Places
    from scrubjay.store.copying import CopyPlace, Heading, MemoryRows, Row, WritableRows

TRIES = 3  # of one memory, where a database goes away while it is copied
MADE_WITH_A_MEMORY = frozenset({"encoding"})  # the only table that has a row before anything was said


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """How memories are to be copied."""

    replace: bool
    dry_run: bool
    advance: Callable[[MigrationProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One memory to be copied."""

    user_id: str | None
    source: CopyPlace
    target: CopyPlace
    migration: Migration
    advance: Callable[[int, int], None]  # rows done, of how many


def ignore_all(_progress: MigrationProgress) -> None:
    """Tell nobody how far it is."""


def migrate(  # noqa: PLR0913 -- each is an option of the command
    source: str | Path,
    to: str | Path,
    *,
    users: Sequence[str] = (),
    replace: bool = False,
    dry_run: bool = False,
    postgres: PostgresSettings | None = None,
    advance: Callable[[MigrationProgress], None] = ignore_all,
) -> MigrationReport:
    """Copy memories with all that they hold, to be found there as they are here; the source stays as it is.

    Both are a memory's file, a folder of memories, or the address of a database. `users` says whose; of a folder or
    database all if none is named, and whose a file is that doesn't say so itself. A memory that is there already, row
    for row, is left; another isn't touched: that user is refused, and the rest go on. `replace` has an older copy
    of the same memory replaced. Raise InputError or NotFoundError before anything is copied, and a StoreError where
    a place can't be used; run again it goes on where it stopped.
    """
    settings = postgres or PostgresSettings()
    migration = Migration(replace=replace, dry_run=dry_run, advance=advance)
    with (
        open_places(source, settings, read_only=True, must_exist=True) as origin,
        open_places(to, settings, read_only=dry_run, must_exist=False) as target,
    ):
        chosen = choose_users(origin, target, users)
        memories = [
            migrate_user(origin, target, user_id, migration, place=(number, len(chosen)))
            for number, user_id in enumerate(chosen, start=1)
        ]
    return MigrationReport(memories=tuple(memories), dry_run=dry_run)


def choose_users(origin: Places, target: Places, users: Sequence[str]) -> Sequence[str | None]:
    """Give whose memories are to be copied; raise InputError or NotFoundError where that can't be done."""
    known = origin.users()
    chosen: Sequence[str | None] = users or known
    if origin.of_many and (missing := [user for user in users if user not in known]):
        raise NotFoundError(f"{origin.location} has no memory of {', '.join(map(repr, missing))}")
    if not origin.of_many and known != (None,) and tuple(chosen) != known:
        raise InputError(f"{origin.location} is the memory of {known[0]!r}, not of {', '.join(users)}")
    if target.of_many and None in chosen:
        raise InputError(f"{origin.location} doesn't say whose memory it is: name its user, by --user ID")
    if not target.of_many and len(chosen) != 1:
        raise InputError(
            f"{target.location} is to be one memory's file, {origin.location} has {len(chosen)}: name one user, by "
            "--user ID, or give a folder to copy to"
        )
    return chosen


def migrate_user(
    origin: Places, target: Places, user_id: str | None, migration: Migration, *, place: tuple[int, int]
) -> MigratedMemory:
    """Copy one memory; where it can't be read, or another is in its place, say so: others go on."""

    def advance(rows: int, total_rows: int) -> None:
        number, memories = place
        migration.advance(
            MigrationProgress(
                user_id=user_id, memory=number, memories=memories, rows=rows, total_rows=total_rows
            )
        )

    with closing(origin.place(user_id)) as source, closing(target.place(user_id)) as copy:
        task = Task(user_id=user_id, source=source, target=copy, migration=migration, advance=advance)
        try:
            return copy_memory(task)
        except (MigrationConflictError, MigrationMismatchError, StoreCorruptError) as error:
            return outcome_of(task, MigrationOutcome.REFUSED, error=str(error))


def outcome_of(
    task: Task,
    outcome: MigrationOutcome,
    *,
    sums: tuple[TableSum, ...] = (),
    changed_meanwhile: bool = False,
    error: str = "",
) -> MigratedMemory:
    return MigratedMemory(
        user_id=task.user_id,
        source=task.source.location,
        target=task.target.location,
        outcome=outcome,
        sums=sums,
        changed_meanwhile=changed_meanwhile,
        error=error,
    )


def copy_memory(task: Task) -> MigratedMemory:
    """Copy a memory, from the beginning again where a database went away meanwhile."""
    for _ in range(TRIES - 1):
        try:
            return try_to_copy(task)
        except StoreUnavailableError:
            task.source.wait()
            task.target.wait()
    return try_to_copy(task)


def try_to_copy(task: Task) -> MigratedMemory:
    with task.source.reading() as given:
        heading, version = given.heading(), given.version
        if heading is None:
            return outcome_of(task, MigrationOutcome.EMPTY)
        if task.migration.dry_run:
            return look(task, given, heading)
        with task.target.writing() as there:
            outcome = decide(task, given, there, heading)
            if outcome is MigrationOutcome.ALREADY_THERE:
                sums = sum_up(there)
            else:
                sums = write_copy(task, given, there, heading)
    return outcome_of(task, outcome, sums=sums, changed_meanwhile=has_changed(task.source, version))


def has_changed(source: CopyPlace, version: int) -> bool:
    if not source.exists():
        return True
    with source.reading() as now:
        return now.version != version


def look(task: Task, given: MemoryRows, heading: Heading) -> MigratedMemory:
    """Say what would be done; write nothing."""
    sums = sum_up(given)
    if not task.target.exists():
        return outcome_of(task, MigrationOutcome.WOULD_COPY, sums=sums)
    with task.target.reading() as there:
        outcome = decide(task, given, there, heading)
    would = {
        MigrationOutcome.COPIED: MigrationOutcome.WOULD_COPY,
        MigrationOutcome.REPLACED: MigrationOutcome.WOULD_REPLACE,
    }
    return outcome_of(task, would.get(outcome, outcome), sums=sums)


def decide(task: Task, given: MemoryRows, there: MemoryRows, heading: Heading) -> MigrationOutcome:
    """Say what is to be done; raise MigrationConflictError where what is there must stay."""
    found = there.heading()
    if found is None:
        return MigrationOutcome.COPIED
    if found.row() == heading.row() and all(
        sum_table(given, table) == sum_table(there, table) for table in TABLES
    ):
        return MigrationOutcome.ALREADY_THERE
    if not any(there.count(table) for table in TABLES if table not in MADE_WITH_A_MEMORY):
        return MigrationOutcome.COPIED
    if found.memory_id != heading.memory_id:
        raise MigrationConflictError(
            f"{task.target.location} is another memory, not a copy of {task.source.location}: it was left as it is; "
            "forget it first, or copy to another place"
        )
    if not task.migration.replace:
        raise MigrationConflictError(
            f"{task.target.location} is a copy of {task.source.location} that says something else "
            f"({there.count('turn')} turns there, {given.count('turn')} to be copied): it was left as it is; give "
            "--replace to lose what was written to it since"
        )
    return MigrationOutcome.REPLACED


def write_copy(task: Task, given: MemoryRows, there: WritableRows, heading: Heading) -> tuple[TableSum, ...]:
    """Write all that a memory holds and read it again; raise MigrationMismatchError where that isn't the same."""
    found = there.heading()
    generation = heading.generation if found is None else max(heading.generation, found.generation + 1)
    there.clear()
    owner = heading.owner if task.user_id is None else task.user_id
    there.write_heading(replace(heading, owner=owner, generation=generation))
    total = sum(given.count(table) for table in TABLES)
    sums = [sum_heading(given)]
    done = 0
    for table in TABLES:
        tally = Tally(table)
        for part in in_parts(given.rows(table)):
            for row in part:
                tally.add(row)
            there.write_rows(table, part)
            done += len(part)
            task.advance(done, total)
        sums.append(tally.total())
    differing = [mine.table for mine, theirs in zip(sums, sum_up(there), strict=True) if mine != theirs]
    if differing:
        raise MigrationMismatchError(task.target.location, tables=tuple(differing))
    return tuple(sums)


def in_parts(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while part := list(islice(rows, ROWS_AT_ONCE)):
        yield part
