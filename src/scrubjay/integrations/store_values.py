"""Values and namespaces of LangGraph's store: written as words, held against filters."""

from __future__ import annotations

import json
import operator
from typing import TYPE_CHECKING, Any

from scrubjay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Namespace = tuple[str, ...]
PREFIX = "langgraph:"  # of the id of a session that is a namespace
COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def session_of(namespace: Namespace) -> str:
    return PREFIX + json.dumps(namespace, ensure_ascii=False)


def namespace_of(session_id: str) -> Namespace | None:
    """Give the namespace that a session is; None for a session that somebody else named."""
    if not session_id.startswith(PREFIX):
        return None
    try:
        labels = json.loads(session_id.removeprefix(PREFIX))
    except ValueError:
        return None
    return tuple(labels) if isinstance(labels, list) else None


def render_value(value: object) -> str:
    """Write a value as words: each name and what it holds; what stands alone without its name."""
    if isinstance(value, dict):
        if len(value) == 1:
            return render_value(*value.values())
        return ", ".join(f"{name}: {render_value(held)}" for name, held in value.items())
    if isinstance(value, list):
        return ", ".join(map(render_value, value))
    return "" if value is None else str(value)


def accepts(value: Mapping[str, object], wanted: Mapping[str, object] | None) -> bool:
    """Tell whether a value's fields are as a filter wants them."""
    return all(is_as_wanted(value.get(name), held) for name, held in (wanted or {}).items())


def is_as_wanted(value: object, wanted: object) -> bool:
    if not isinstance(wanted, dict):
        return value == wanted
    if any(name.startswith("$") for name in wanted):
        return all(compares(value, name, operand) for name, operand in wanted.items())
    return isinstance(value, dict) and accepts(value, wanted)


def compares(value: object, name: str, operand: object) -> bool:
    """Compare by an operator's name; values of two kinds are in no order. Raise InputError for an unknown name."""
    if name not in COMPARE:
        raise InputError(f"a filter can't compare by {name!r}: there are {', '.join(COMPARE)}")
    try:
        return bool(COMPARE[name](value, operand))
    except TypeError:
        return False
