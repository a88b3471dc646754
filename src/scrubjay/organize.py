"""WRITE: records become evidence nodes, without a model (LycheeMemory V2, 3.4 and C.3). Pure."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from datetime import date
from itertools import product
from typing import TYPE_CHECKING

from scrubjay.datatypes import NewNode, NodeKind
from scrubjay.quoting import WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrubjay.datatypes import Record

SEPARATOR = re.compile(r"[\s\-‐-―_/\\|:;,·・•~]")
KEPT = frozenset(" +#&%@")  # among them the signs that tell names apart: C++, C#, R&D
FRAME_CHARACTERS = 2_000  # of an event frame's text
DAY, MONTH = len("2024-03-09"), len("2024-03")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
PAIR = " \u00b7 "  # between the keys of an entity and a topic, in neither of which it can occur


def build_nodes(records: Sequence[Record], *, session_id: str, number: int) -> tuple[NewNode, ...]:
    """Give the nodes of one segment's records, each once, with the records it links to.

    Keys are normalised, so that nodes of several segments merge by kind and key. `number` is the segment's place in
    its session: the two name its event frame.
    """
    texts: dict[tuple[NodeKind, str], str] = {}
    linked: defaultdict[tuple[NodeKind, str], list[str]] = defaultdict(list)
    for record in records:
        for kind, key, text in nodes_of(record):
            texts.setdefault((kind, key), text)
            linked[kind, key].append(record.record_id)
    nodes = [
        NewNode(kind=kind, key=key, text=text, record_ids=tuple(dict.fromkeys(linked[kind, key])))
        for (kind, key), text in texts.items()
    ]
    if records:
        nodes.append(event_frame(records, key=f"{session_id}#{number}"))
    return tuple(nodes)


def nodes_of(record: Record) -> Iterator[tuple[NodeKind, str, str]]:
    """Give kind, key and text of a record's entities, topics, pairs of both, days and months."""
    entities = [(normalize_key(name), name) for name in record.entities if normalize_key(name)]
    topics = [(normalize_key(tag), tag) for tag in record.tags if normalize_key(tag)]
    for key, name in entities:
        yield NodeKind.ENTITY, key, name
    for key, tag in topics:
        yield NodeKind.TOPIC, key, tag
    for (entity, name), (topic, tag) in product(entities, topics):
        yield NodeKind.ENTITY_TOPIC, f"{entity}{PAIR}{topic}", f"{name}: {tag}"
    for iso in dict.fromkeys((record.time.t_ref, record.time.t_valid_from, record.time.t_valid_to)):
        if iso and len(iso) == DAY:
            yield NodeKind.DAY, iso, day_text(iso)
        if iso and len(iso) >= MONTH:
            yield NodeKind.MONTH, iso[:MONTH], month_text(iso)


def normalize_key(label: str) -> str:
    """Give one key for the ways a name is written: case, width, separators, punctuation and spaces aside (C.3)."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", label).casefold())
    spaced = SEPARATOR.sub(" ", plain)
    kept = "".join(char for char in spaced if char in KEPT or unicodedata.category(char)[0] not in "PSC")
    return " ".join(unicodedata.normalize("NFKC", kept).split()).lstrip("#@ ")


def day_text(iso: str) -> str:
    day = date.fromisoformat(iso)
    return f"{WEEKDAYS[day.weekday()]} {day.day} {MONTHS[day.month - 1]} {day.year} ({iso})"


def month_text(iso: str) -> str:
    year, month = iso.split("-")[:2]
    return f"{MONTHS[int(month) - 1]} {int(year)} ({year}-{month})"


def event_frame(records: Sequence[Record], *, key: str) -> NewNode:
    """Give the node that holds a segment's records together: its topics, then what they say, as far as there is room."""
    tags = dict.fromkeys(tag for record in records for tag in record.tags)
    text = "\n".join((", ".join(tags), *(record.text for record in records))).strip()
    record_ids = tuple(dict.fromkeys(record.record_id for record in records))
    return NewNode(kind=NodeKind.EVENT_FRAME, key=key, text=text[:FRAME_CHARACTERS], record_ids=record_ids)
