"""LangGraph's long-term store over a memory (extra `langgraph`)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scrubjay.datatypes import NewTurn, Role
from scrubjay.errors import MissingExtraError, NotFoundError
from scrubjay.integrations.store_values import (
    Namespace,
    accepts,
    is_prefix,
    is_suffix,
    namespace_of,
    render_value,
    session_of,
)

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        get_text_at_path,
    )
except ImportError as error:
    raise MissingExtraError("langgraph", extra="langgraph") from error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langgraph.store.base import Op

    from scrubjay.memory import Memory

MARK = "langgraph"  # under it a turn's metadata hold the item's key and value
WHOLE = "$"  # LangGraph's path for all of a value


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The newest version of an item, and the turns that hold it and those before it, the oldest first."""

    item: Item
    turn_ids: tuple[str, ...]
    is_searched: bool


class ScrubJayStore(BaseStore):
    """A store whose namespaces are sessions and whose values are turns, found by their words and meaning.

    Turns never change: an update is a new turn, and the newest holds; `delete` forgets every version, down to the
    file's bytes. A search by query gives what is relevant, with absolute scores, which may be nothing.
    """

    __slots__ = ("_fields", "_memory")

    def __init__(self, memory: Memory, *, fields: Sequence[str] = (WHOLE,)) -> None:
        """Take a memory, which stays its giver's to close, and the paths of what is searched in a value."""
        self._memory = memory
        self._fields = tuple(fields)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do many operations: those that read see what was there before, and of two writes the last holds."""
        given = list(ops)
        results = [self._read(op) for op in given]
        for put in {(op.namespace, op.key): op for op in given if isinstance(op, PutOp)}.values():
            self._write(put)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            found = self._versions(op.namespace).get(op.key)
            return None if found is None else found.item
        if isinstance(op, SearchOp):
            items = self._ranked(op, op.query) if op.query else self._listed(op)
            return items[op.offset : op.offset + op.limit]
        if isinstance(op, ListNamespacesOp):
            spaces = {space[: op.max_depth] for space in self._matching(op)}
            return sorted(spaces)[op.offset : op.offset + op.limit]
        return None

    def _write(self, op: PutOp) -> None:
        before = self._versions(op.namespace).get(op.key)
        if op.value is None:
            self._forget(before.turn_ids if before else ())
            return
        is_searched = op.index is not False
        if before and (before.item.value, before.is_searched) == (op.value, is_searched):
            return
        paths = (op.index or self._fields) if is_searched else ()
        value = dict(op.value)
        pieces = (piece for path in paths for piece in texts_at(value, path))
        turn = NewTurn(
            role=Role.TOOL,
            text="\n".join(filter(None, pieces)) or op.key or "(nothing)",
            said_at=datetime.now(UTC),
            metadata={MARK: {"key": op.key, "value": value, "searched": is_searched}},
        )
        self._memory.add(turn, session_id=session_of(op.namespace))

    def _forget(self, turn_ids: Iterable[str]) -> None:
        for turn_id in turn_ids:  # broken off, the newest still stands, and none before it comes back
            try:
                self._memory.forget(turn=turn_id)
            except NotFoundError:
                continue  # another process forgot it first

    def _namespaces(self) -> Iterator[Namespace]:
        for session in self._memory.sessions():
            namespace = namespace_of(session.session_id)
            if namespace is not None:
                yield namespace

    def _matching(self, op: ListNamespacesOp) -> Iterator[Namespace]:
        conditions = op.match_conditions or ()
        for space in self._namespaces():
            if all(
                (is_prefix if each.match_type == "prefix" else is_suffix)(each.path, space)
                for each in conditions
            ):
                yield space

    def _versions(self, namespace: Namespace) -> dict[str, Version]:
        """Give the items of a namespace by key, the last updated last."""
        versions: dict[str, Version] = {}
        try:
            turns = self._memory.turns(session_id=session_of(namespace))
        except NotFoundError:
            return {}
        for turn in turns:
            kept: Any = turn.metadata[MARK]
            before = versions.pop(kept["key"], None)
            item = Item(
                value=kept["value"],
                key=kept["key"],
                namespace=namespace,
                created_at=before.item.created_at if before else turn.added_at,
                updated_at=turn.added_at,
            )
            turn_ids = (*(before.turn_ids if before else ()), turn.turn_id)
            versions[item.key] = Version(item=item, turn_ids=turn_ids, is_searched=kept["searched"])
        return versions

    def _wanted(self, op: SearchOp) -> list[Version]:
        """Give the items under a search's namespace that its filter accepts."""
        prefix = op.namespace_prefix
        spaces = (space for space in self._namespaces() if space[: len(prefix)] == prefix)
        versions = (version for space in spaces for version in self._versions(space).values())
        return [version for version in versions if accepts(version.item.value, op.filter)]

    def _listed(self, op: SearchOp) -> list[SearchItem]:
        items = [version.item for version in self._wanted(op)]
        return [scored(item, None) for item in sorted(items, key=lambda item: item.updated_at, reverse=True)]

    def _ranked(self, op: SearchOp, query: str) -> list[SearchItem]:
        """Rank by relevance: more and more turns are asked for, until enough of them are wanted items."""
        items = {each.turn_ids[-1]: each.item for each in self._wanted(op) if each.is_searched}
        limit = enough = max(op.offset + op.limit, 1)
        while items:
            hits = self._memory.search(query, limit=limit)
            found = [hit for hit in hits if hit.turn.turn_id in items]
            if len(found) >= enough or len(hits) < limit:
                return [scored(items[hit.turn.turn_id], hit.score) for hit in found]
            limit *= 4
        return []


def texts_at(value: dict[str, Any], path: str) -> list[str]:
    return [render_value(value)] if path == WHOLE else get_text_at_path(value, path)


def scored(item: Item, score: float | None) -> SearchItem:
    return SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)
