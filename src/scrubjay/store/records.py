"""The embedded store's records and evidence nodes: the encodings they belong to, and how they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.datatypes import RecordState
from scrubjay.errors import EncodingUnfinishedError
from scrubjay.store import record_rows, rows, staging
from scrubjay.store.encoding import CURRENT
from scrubjay.store.meta import read_meta, read_state, stored_identity
from scrubjay.store.record_rows import INDEX_COLUMNS, NODE_COLUMNS, RECORD_COLUMNS, require_type

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from scrubjay.datatypes import (
        EncodingRun,
        Node,
        NodeKey,
        NodeKind,
        NodeRows,
        Record,
        RecordRows,
        RecordType,
        StoredText,
    )
    from scrubjay.store.connection import Database

AT_ONCE = 500  # bound parameters of one statement, well below SQLite's limit

OF_NODE = (
    "record_row IN (SELECT record_row FROM node_record JOIN node USING (node_row) "
    f"WHERE node.encoding_row = {CURRENT} AND kind = ? AND key = ?)"
)
OF_SESSION = (
    "record_row IN (SELECT record_row FROM provenance JOIN turn USING (turn_row) "
    "JOIN session USING (session_row) WHERE session_id = ?)"
)


class SqliteRecordStore:
    """The records and evidence nodes of one memory, in one SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- encodings ---

    def encodings(self) -> tuple[EncodingRun, ...]:
        with self._database.read() as connection:
            return read_encodings(connection)

    def name_encoding(self, *, model: str, prompt_version: str) -> EncodingRun:
        with self._database.write() as connection:
            connection.execute(
                "UPDATE encoding SET model = ?, prompt_version = ? WHERE state = 'current' AND model = ''",
                (model, prompt_version),
            )
            return read_encodings(connection)[0]

    def begin_encoding(self, *, model: str, prompt_version: str) -> EncodingRun:
        with self._database.write() as connection:
            connection.execute(
                "DELETE FROM encoding WHERE state = 'building' AND (model, prompt_version) <> (?, ?)",
                (model, prompt_version),
            )
            begun = connection.execute(
                "INSERT INTO encoding (model, prompt_version, state, created_at) SELECT ?, ?, 'building', ? "
                "WHERE NOT EXISTS (SELECT 1 FROM encoding WHERE state = 'building')",
                (model, prompt_version, rows.stamp()),
            )
            if begun.rowcount:
                connection.execute(
                    "INSERT INTO segment_state (encoding_row, segment_row, updated_at) SELECT ?, segment_row, ? FROM segment",
                    (begun.lastrowid, rows.stamp()),
                )
            return read_encodings(connection)[1]

    def switch_encoding(self) -> EncodingRun:
        with self._database.write() as connection:
            building = connection.execute(
                "SELECT encoding_row FROM encoding WHERE state = 'building'"
            ).fetchone()
            if building is None:
                raise EncodingUnfinishedError(pending=None)
            pending = connection.execute(
                "SELECT count(*) FROM segment_state WHERE encoding_row = ? AND state = 'pending'", building
            ).fetchone()[0]
            if pending:
                raise EncodingUnfinishedError(pending=pending)
            connection.execute("DELETE FROM encoding WHERE state = 'current'")
            connection.execute("UPDATE encoding SET state = 'current' WHERE encoding_row = ?", building)
            return read_encodings(connection)[0]

    def drop_encoding(self) -> None:
        with self._database.write() as connection:
            connection.execute("DELETE FROM encoding WHERE state = 'building'")

    # --- records ---

    def records(
        self,
        *,
        type: RecordType | None = None,  # noqa: A002  # the field's name
        node: NodeKey | None = None,
        session_id: str | None = None,
    ) -> Iterator[Record]:
        where, values = ["record_row > ?"], list[rows.SqlText]()
        if type is not None:
            where.append("type = ?")
            values.append(require_type(type).value)
        if node is not None:
            where.append(OF_NODE)
            values += (node.kind.value, rows.to_sql_text(node.key))
        if session_id is not None:
            where.append(OF_SESSION)
            values.append(session_id)
        last = 0
        while True:  # page by page, so that no read stays open between two records
            page = self._page(" AND ".join(where), (last, *values))
            if not page:
                return
            last = page[-1][0]
            yield from (record for _, record in page)

    def _page(self, where: str, values: tuple[int | rows.SqlText, ...]) -> list[tuple[int, Record]]:
        with self._database.read() as connection:
            found = connection.execute(
                f"SELECT {RECORD_COLUMNS} FROM record WHERE encoding_row = {CURRENT} AND {where} "
                f"ORDER BY record_row LIMIT {AT_ONCE}",
                values,
            ).fetchall()
            return read_records(connection, found)

    def nodes(self, kind: NodeKind | None = None) -> tuple[Node, ...]:
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT kind, key, text, count(link_row) FROM node LEFT JOIN node_record USING (node_row) "
                f"WHERE encoding_row = {CURRENT} AND kind = coalesce(?, kind) GROUP BY node_row ORDER BY kind, key",
                (None if kind is None else kind.value,),
            ).fetchall()
        return record_rows.read_nodes(found, rows.from_sql_text)

    def record(self, record_id: str) -> Record | None:
        found = self._page("record_id = ?", (record_id,))
        return found[0][1] if found else None

    def records_at(self, wanted: Sequence[int]) -> tuple[Record, ...]:
        found: dict[int, Record] = {}
        for start in range(0, len(wanted), AT_ONCE):
            part = tuple(int(row) for row in wanted[start : start + AT_ONCE])
            found.update(self._page(f"record_row IN ({','.join('?' * len(part))})", part))
        return tuple(found[row] for row in wanted if row in found)

    # --- what an index is made of ---

    def state(self) -> RecordState:
        with self._database.read() as connection:
            return read_record_state(connection)

    def load(self, *, after: RecordState | None = None) -> RecordRows:
        with self._database.read() as connection:
            state = read_record_state(connection)
            dimension = stored_identity(read_meta(connection, "embedder") or "{}").dimension
            return read_index(connection, state, after=after, coding=rows.Coding(dimension=dimension))

    # --- embedding anew ---

    def unstaged_texts(self, *, limit: int) -> tuple[StoredText, ...]:
        with self._database.read() as connection:
            return staging.find_unstaged(connection, limit=limit)

    def stage_text_vectors(self, texts: Sequence[StoredText], vectors: NDArray[np.float32]) -> None:
        with self._database.write() as connection:
            staging.write_staged(connection, texts, vectors)


def read_encodings(connection: sqlite3.Connection) -> tuple[EncodingRun, ...]:
    """Give the current encoding, then the one being built if there is one."""
    return record_rows.read_encodings(
        connection.execute(
            "SELECT encoding_row, model, prompt_version, state, created_at FROM encoding ORDER BY state = 'building'"
        )
    )


def read_records(connection: sqlite3.Connection, found: Sequence[rows.SqlRow]) -> list[tuple[int, Record]]:
    """Make records of rows of RECORD_COLUMNS, each with its store row."""
    return [
        (row[0], record_rows.read_record(row, read_provenance(connection, row[0]), rows.from_sql_text))
        for row in found
    ]


def read_provenance(connection: sqlite3.Connection, record_row: int) -> tuple[str, ...]:
    return tuple(
        turn_id
        for (turn_id,) in connection.execute(
            "SELECT turn_id FROM provenance JOIN turn USING (turn_row) WHERE record_row = ? "
            "ORDER BY turn.session_row, turn.position",
            (record_row,),
        )
    )


def read_record_state(connection: sqlite3.Connection) -> RecordState:
    last = dict(connection.execute("SELECT name, seq FROM sqlite_sequence"))
    return RecordState(
        generation=read_state(connection).generation,
        encoding_row=connection.execute(f"SELECT {CURRENT}").fetchone()[0],
        last_record=last.get("record", 0),
        last_provenance=last.get("provenance", 0),
        last_node=last.get("node", 0),
        last_link=last.get("node_record", 0),
    )


def read_index(
    connection: sqlite3.Connection, state: RecordState, *, after: RecordState | None, coding: rows.Coding
) -> RecordRows:
    """Put the current encoding's records into columns, with links that were made since to records before.

    CROSS JOIN makes SQLite begin with the newest links, not with all records.
    """
    since, whole = record_rows.start_from(state, after)
    found = connection.execute(
        f"SELECT {INDEX_COLUMNS} FROM record WHERE encoding_row = {CURRENT} AND record_row > ? ORDER BY record_row",
        (since.last_record,),
    ).fetchall()
    provenance = connection.execute(
        "SELECT record_row, turn_row FROM provenance CROSS JOIN record USING (record_row) "
        f"WHERE encoding_row = {CURRENT} AND provenance_row > ? ORDER BY provenance_row",
        (since.last_provenance,),
    ).fetchall()
    nodes = read_node_index(connection, since=since, coding=coding)
    return record_rows.read_record_rows(found, provenance, nodes, state=state, whole=whole, coding=coding)


def read_node_index(connection: sqlite3.Connection, *, since: RecordState, coding: rows.Coding) -> NodeRows:
    found = connection.execute(
        f"SELECT {NODE_COLUMNS} FROM node WHERE encoding_row = {CURRENT} AND node_row > ? ORDER BY node_row",
        (since.last_node,),
    ).fetchall()
    links = connection.execute(
        "SELECT node_row, record_row FROM node_record CROSS JOIN node USING (node_row) "
        f"WHERE encoding_row = {CURRENT} AND link_row > ? ORDER BY link_row",
        (since.last_link,),
    ).fetchall()
    return record_rows.read_node_rows(found, links, coding)
