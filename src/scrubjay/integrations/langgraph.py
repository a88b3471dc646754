"""LangGraph's long-term store over a memory (extra `langgraph`)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from scrubjay.errors import MissingExtraError
from scrubjay.integrations.store_values import Namespace, accepts, namespace_of, render_value, session_of
from scrubjay.integrations.versions import Version, forget_value, put_value, rank_turns, read_versions

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
    from langgraph.store.memory import InMemoryStore
except ImportError as error:
    raise MissingExtraError("langgraph", extra="langgraph") from error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langgraph.store.base import Op

    from scrubjay.memory import Memory

WHOLE = "$"  # LangGraph's path for all of a value


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
            found = read_versions(self._memory, session_of(op.namespace)).get(op.key)
            return None if found is None else Item(**fields_of(found, op.namespace))
        if isinstance(op, SearchOp):
            items = self._ranked(op, op.query) if op.query else self._listed(op)
            return items[op.offset : op.offset + op.limit]
        if isinstance(op, ListNamespacesOp):
            own = InMemoryStore()  # LangGraph's knows what its patterns mean
            own.batch([PutOp(namespace, "", {}) for namespace in self._namespaces()])
            return own.batch([op])[0]
        return None

    def _write(self, op: PutOp) -> None:
        session_id = session_of(op.namespace)
        if op.value is None:
            forget_value(self._memory, session_id, op.key)
            return
        value = dict(op.value)
        paths = op.index or self._fields
        pieces = (piece for path in paths for piece in texts_at(value, path) if piece)
        words = None if op.index is False else "\n".join(pieces)
        put_value(self._memory, session_id, op.key, value, words=words)

    def _namespaces(self) -> Iterator[Namespace]:
        found = (namespace_of(session.session_id) for session in self._memory.sessions())
        return (namespace for namespace in found if namespace is not None)

    def _wanted(self, op: SearchOp) -> Iterator[tuple[Namespace, Version]]:
        """Give what is under a search's namespace and accepted by its filter."""
        prefix = op.namespace_prefix
        for namespace in self._namespaces():
            if namespace[: len(prefix)] == prefix:
                versions = read_versions(self._memory, session_of(namespace)).values()
                yield from ((namespace, each) for each in versions if accepts(each.value, op.filter))

    def _listed(self, op: SearchOp) -> list[SearchItem]:
        items = [SearchItem(**fields_of(version, namespace)) for namespace, version in self._wanted(op)]
        return sorted(items, key=lambda item: item.updated_at, reverse=True)

    def _ranked(self, op: SearchOp, query: str) -> list[SearchItem]:
        fields = {
            version.turn_ids[-1]: fields_of(version, namespace)
            for namespace, version in self._wanted(op)
            if version.is_searched
        }
        scores = rank_turns(self._memory, query, fields, most=op.offset + op.limit)
        return [SearchItem(**fields[turn_id], score=score) for turn_id, score in scores.items()]


def texts_at(value: dict[str, Any], path: str) -> list[str]:
    return [render_value(value)] if path == WHOLE else get_text_at_path(value, path)


def fields_of(version: Version, namespace: Namespace) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "key": version.key,
        "value": version.value,
        "created_at": version.created_at,
        "updated_at": version.updated_at,
    }
