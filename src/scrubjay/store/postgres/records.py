"""The records and evidence nodes of one memory in PostgreSQL: their encodings, and how they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgvector import Vector

from scrubjay.datatypes import EncodingRun, EncodingState, Node, NodeKind, RecordState, RecordType
from scrubjay.errors import EncodingUnfinishedError
from scrubjay.store import record_rows, rows
from scrubjay.store.postgres import staging
from scrubjay.store.postgres.record_columns import read_index, record_state
from scrubjay.store.postgres.scheduling import schedule_encoding
from scrubjay.store.postgres.values import digest, from_sql_text
from scrubjay.store.record_rows import RECORD_COLUMNS, require_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from scrubjay.datatypes import NodeKey, Record, RecordRows, RecordState, RecordType, StoredText
    from scrubjay.store.postgres.place import MemoryPlace
    from scrubjay.store.postgres.transaction import Transaction

PAGE = 500  # records read at a time

OF_NODE = (
    "record_row IN (SELECT record_row FROM scrubjay.node_record JOIN scrubjay.node USING (memory_id, node_row) "
    "WHERE memory_id = %(memory)s AND node.encoding_row = %(encoding)s AND kind = %(kind)s AND key_digest = %(key)s)"
)
OF_SESSION = (
    "record_row IN (SELECT record_row FROM scrubjay.provenance JOIN scrubjay.turn USING (memory_id, turn_row) "
    "JOIN scrubjay.session USING (memory_id, session_row) WHERE memory_id = %(memory)s "
    "AND session_digest = %(session)s)"
)
BUILDING = "DELETE FROM scrubjay.encoding WHERE memory_id = %(memory)s AND state = 'building'"


class PostgresRecordStore:
    """The records and evidence nodes of one memory in PostgreSQL."""

    def __init__(self, place: MemoryPlace) -> None:
        self._place = place

    # --- encodings ---

    def encodings(self) -> tuple[EncodingRun, ...]:
        return self._place.read(read_encodings)

    def name_encoding(self, *, model: str, prompt_version: str) -> EncodingRun:
        def name(transaction: Transaction) -> EncodingRun:
            transaction.execute(
                "UPDATE scrubjay.encoding SET model = %(model)s, prompt_version = %(version)s "
                "WHERE memory_id = %(memory)s AND state = 'current' AND model = ''",
                model=model,
                version=prompt_version,
            )
            return read_encodings(transaction)[0]

        return self._place.write(name)

    def begin_encoding(self, *, model: str, prompt_version: str) -> EncodingRun:
        return self._place.write(
            lambda transaction: begin_encoding(transaction, model=model, prompt_version=prompt_version)
        )

    def switch_encoding(self) -> EncodingRun:
        return self._place.write(switch_encoding)

    def drop_encoding(self) -> None:
        self._place.write(lambda transaction: transaction.execute(BUILDING).rowcount)

    # --- records ---

    def records(
        self,
        *,
        type: RecordType | None = None,  # noqa: A002  # the field's name
        node: NodeKey | None = None,
        session_id: str | None = None,
    ) -> Iterator[Record]:
        values = {
            "type": None if type is None else require_type(type).value,
            "kind": None if node is None else node.kind.value,
            "key": None if node is None else digest(node.key),
            "session": None if session_id is None else digest(session_id),
        }
        conditions = {"type": "type = %(type)s", "key": OF_NODE, "session": OF_SESSION}
        where = [condition for name, condition in conditions.items() if values[name] is not None]
        last = 0
        while page := self._page(["record_row > %(last)s", *where], last=last, **values):
            last = page[-1][0]  # so that no transaction stays open between two records
            yield from (record for _, record in page)

    def _page(self, where: Sequence[str], **values: object) -> list[tuple[int, Record]]:
        return self._place.read(lambda transaction: read_page(transaction, where, **values))

    def nodes(self, kind: NodeKind | None = None) -> tuple[Node, ...]:
        return self._place.read(lambda transaction: list_nodes(transaction, kind))

    def record(self, record_id: str) -> Record | None:
        found = self._page(["record_id = %(id)s"], id=record_id)
        return found[0][1] if found else None

    def records_at(self, wanted: Sequence[int]) -> tuple[Record, ...]:
        found: dict[int, Record] = {}
        for start in range(0, len(wanted), PAGE):
            part = [int(row) for row in wanted[start : start + PAGE]]
            found.update(self._page(["record_row = ANY(%(rows)s)"], rows=part))
        return tuple(found[row] for row in wanted if row in found)

    # --- what an index is made of ---

    def state(self) -> RecordState:
        return record_state(self._place.peek())

    def load(self, *, after: RecordState | None = None) -> RecordRows:
        def read(transaction: Transaction) -> RecordRows:
            state = record_state(transaction.memory)
            return read_index(transaction, state, after=after)

        return self._place.read(read)

    # --- embedding anew ---

    def unstaged_texts(self, *, limit: int) -> tuple[StoredText, ...]:
        return self._place.read(lambda transaction: staging.find_unstaged(transaction, limit=limit))

    def stage_text_vectors(self, texts: Sequence[StoredText], vectors: NDArray[np.float32]) -> None:
        staged: dict[str, list[tuple[int, Vector]]] = {}
        for text, vector in zip(texts, vectors, strict=True):
            staged.setdefault(text.owner.value, []).append((text.row, Vector(vector)))

        def stage(transaction: Transaction) -> None:
            for owner, vectors_of in staged.items():
                staging.write(transaction, owner, staging.STAGES[owner], vectors_of)

        self._place.write(stage)


def read_encodings(transaction: Transaction) -> tuple[EncodingRun, ...]:
    """Give the current encoding, then the one being built if there is one."""
    return record_rows.read_encodings(
        transaction.all(
            "SELECT encoding_row, model, prompt_version, state, created_at FROM scrubjay.encoding "
            "WHERE memory_id = %(memory)s ORDER BY state = 'building'"
        )
    )


def begin_encoding(transaction: Transaction, *, model: str, prompt_version: str) -> EncodingRun:
    transaction.execute(
        f"{BUILDING} AND (model, prompt_version) <> (%(model)s, %(version)s)",
        model=model,
        version=prompt_version,
    )
    encodings = read_encodings(transaction)
    if len(encodings) == 1:
        (row,) = transaction.take_rows("encoding", 1)
        now = rows.stamp()
        transaction.insert(
            "encoding (encoding_row, model, prompt_version, state, created_at)",
            [(row, model, prompt_version, EncodingState.BUILDING.value, now)],
        )
        transaction.execute(
            "INSERT INTO scrubjay.segment_state (memory_id, encoding_row, segment_row, updated_at) "
            "SELECT memory_id, %(encoding)s, segment_row, %(now)s FROM scrubjay.segment WHERE memory_id = %(memory)s",
            encoding=row,
            now=now,
        )
        encodings = read_encodings(transaction)
    return encodings[1]


def switch_encoding(transaction: Transaction) -> EncodingRun:
    encodings = read_encodings(transaction)
    if len(encodings) == 1:
        raise EncodingUnfinishedError(pending=None)
    building = encodings[1].encoding_row
    pending = transaction.first(
        "SELECT count(*) FROM scrubjay.segment_state WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s "
        "AND state = 'pending'",
        encoding=building,
    )
    if pending:
        raise EncodingUnfinishedError(pending=pending)
    transaction.execute("DELETE FROM scrubjay.encoding WHERE memory_id = %(memory)s AND state = 'current'")
    transaction.execute(
        "UPDATE scrubjay.encoding SET state = 'current' WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s",
        encoding=building,
    )
    transaction.memory.current_encoding = building
    schedule_encoding(transaction)
    return read_encodings(transaction)[0]


def list_nodes(transaction: Transaction, kind: NodeKind | None) -> tuple[Node, ...]:
    found = transaction.all(
        "SELECT kind, key, node.text, (SELECT count(*) FROM scrubjay.node_record AS link "
        "WHERE link.memory_id = %(memory)s AND link.node_row = node.node_row) FROM scrubjay.node "
        "WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s AND kind = coalesce(%(kind)s, kind) "
        'ORDER BY kind COLLATE "C", key COLLATE "C"',
        encoding=transaction.memory.current_encoding,
        kind=None if kind is None else kind.value,
    )
    return record_rows.read_nodes(found, from_sql_text)


def read_page(transaction: Transaction, where: Sequence[str], **values: object) -> list[tuple[int, Record]]:
    """Give records of the current encoding, each with its row."""
    found = transaction.all(
        f"SELECT {RECORD_COLUMNS} FROM scrubjay.record WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s "
        f"AND {' AND '.join(where)} ORDER BY record_row LIMIT {PAGE}",
        encoding=transaction.memory.current_encoding,
        **values,
    )
    turn_ids: dict[int, list[str]] = {}
    for record_row, turn_id in transaction.all(
        "SELECT record_row, turn_id FROM scrubjay.provenance JOIN scrubjay.turn USING (memory_id, turn_row) "
        "WHERE memory_id = %(memory)s AND record_row = ANY(%(rows)s) "
        "ORDER BY turn.session_row, turn.position",
        rows=[row[0] for row in found],
    ):
        turn_ids.setdefault(record_row, []).append(from_sql_text(turn_id))
    return [
        (row[0], record_rows.read_record(row, tuple(turn_ids.get(row[0], ())), from_sql_text))
        for row in found
    ]
