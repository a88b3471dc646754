"""The embedded store's records and evidence nodes: the encodings they belong to, and how they are read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.datatypes import (
    EncodingRun,
    EncodingState,
    Node,
    NodeKind,
    NodeRows,
    Record,
    RecordRows,
    RecordState,
    RecordTime,
    RecordType,
    Stance,
    Support,
)
from scrubjay.errors import EncodingUnfinishedError, InputError
from scrubjay.store import rows, staging
from scrubjay.store.encoding import CURRENT
from scrubjay.store.meta import read_meta, read_state, stored_identity

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from scrubjay.datatypes import NodeKey, StoredText
    from scrubjay.store.connection import Database

RECORD_COLUMNS = (
    "record.record_row, record_id, type, record.text, entities, tags, t_ref, t_valid_from, t_valid_to, stance, "
    "record.speaker, supported, support_reason"
)
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
        return tuple(
            Node(
                kind=NodeKind(name),
                key=rows.from_sql_text(key),
                text=rows.from_sql_text(text),
                records=count,
            )
            for name, key, text, count in found
        )

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
            whole = after is None or (after.generation, after.encoding_row) != (
                state.generation,
                state.encoding_row,
            )
            since = EMPTY if whole or after is None else after
            dimension = stored_identity(read_meta(connection, "embedder") or "{}").dimension
            return read_record_rows(connection, state, since=since, whole=whole, dimension=dimension)

    # --- embedding anew ---

    def unstaged_texts(self, *, limit: int) -> tuple[StoredText, ...]:
        with self._database.read() as connection:
            return staging.find_unstaged(connection, limit=limit)

    def stage_text_vectors(self, texts: Sequence[StoredText], vectors: NDArray[np.float32]) -> None:
        with self._database.write() as connection:
            staging.write_staged(connection, texts, vectors)


EMPTY = RecordState(generation=0, encoding_row=0, last_record=0, last_provenance=0, last_node=0, last_link=0)
"""The state of an index that holds nothing."""


def require_type(name: str) -> RecordType:
    """Give the type of this name; a filter that nothing can pass is an error, not an empty list."""
    try:
        return RecordType(name)
    except ValueError as error:
        raise InputError(f"a record's type is one of {', '.join(RecordType)}, found {name!r}") from error


def read_encodings(connection: sqlite3.Connection) -> tuple[EncodingRun, ...]:
    """Give the current encoding, then the one being built if there is one."""
    return tuple(
        EncodingRun(
            encoding_row=row,
            model=model,
            prompt_version=prompt_version,
            state=EncodingState(state),
            created_at=rows.from_microseconds(created_at),
        )
        for row, model, prompt_version, state, created_at in connection.execute(
            "SELECT encoding_row, model, prompt_version, state, created_at FROM encoding ORDER BY state = 'building'"
        )
    )


def read_records(connection: sqlite3.Connection, found: Sequence[rows.SqlRow]) -> list[tuple[int, Record]]:
    """Make records of rows of RECORD_COLUMNS, each with its store row."""
    return [(row[0], read_record(row, read_provenance(connection, row[0]))) for row in found]


def read_provenance(connection: sqlite3.Connection, record_row: int) -> tuple[str, ...]:
    return tuple(
        turn_id
        for (turn_id,) in connection.execute(
            "SELECT turn_id FROM provenance JOIN turn USING (turn_row) WHERE record_row = ? "
            "ORDER BY turn.session_row, turn.position",
            (record_row,),
        )
    )


def read_record(row: rows.SqlRow, turn_ids: tuple[str, ...]) -> Record:
    _, record_id, kind, text, entities, tags, t_ref, valid_from, valid_to, stance, speaker, supported, why = (
        row
    )
    return Record(
        record_id=record_id,
        type=RecordType(kind),
        text=rows.from_sql_text(text),
        entities=tuple(json.loads(entities)),
        tags=tuple(json.loads(tags)),
        time=read_time(t_ref, valid_from, valid_to),
        stance=Stance(stance),
        speaker=rows.from_optional_sql_text(speaker),
        support=Support(supported=bool(supported), reason=rows.from_sql_text(why)),
        turn_ids=turn_ids,
    )


def read_time(t_ref: str | None, valid_from: str | None, valid_to: str | None) -> RecordTime:
    return RecordTime(t_ref=t_ref, t_valid_from=valid_from, t_valid_to=valid_to)


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


def read_record_rows(
    connection: sqlite3.Connection, state: RecordState, *, since: RecordState, whole: bool, dimension: int
) -> RecordRows:
    """Put the current encoding's records into columns, with links that were made since to records before."""
    found = connection.execute(
        "SELECT record_row, type, t_ref, t_valid_from, t_valid_to, stance, speaker, supported, tokens, length, "
        f"terms, counts, vector FROM record WHERE encoding_row = {CURRENT} AND record_row > ? ORDER BY record_row",
        (since.last_record,),
    ).fetchall()
    (
        row,
        kind,
        t_ref,
        valid_from,
        valid_to,
        stance,
        speaker,
        supported,
        tokens,
        length,
        terms,
        counts,
        vectors,
    ) = rows.transposed(found, 13)
    provenance_record, provenance_turn = read_pairs(
        connection,
        "SELECT record_row, turn_row FROM provenance CROSS JOIN record USING (record_row) "
        f"WHERE encoding_row = {CURRENT} AND provenance_row > ? ORDER BY provenance_row",
        after=since.last_provenance,
    )
    return RecordRows(
        state=state,
        whole=whole,
        row=np.array(row, np.int64),
        type=tuple(RecordType(name) for name in kind),
        time=tuple(map(read_time, t_ref, valid_from, valid_to)),
        stance=tuple(Stance(name) for name in stance),
        speaker=tuple(rows.from_optional_sql_text(name) for name in speaker),
        supported=np.array(supported, np.bool_),
        tokens=np.array(tokens, np.int32),
        length=np.array(length, np.int32),
        distinct=np.array([len(blob) // 2 for blob in counts], np.int32),
        terms=np.frombuffer(b"".join(terms), np.uint64),
        counts=np.frombuffer(b"".join(counts), np.uint16),
        vectors=np.frombuffer(b"".join(vectors), np.float32).reshape(-1, dimension),
        provenance_record=provenance_record,
        provenance_turn=provenance_turn,
        nodes=read_node_rows(connection, since=since, dimension=dimension),
    )


def read_node_rows(connection: sqlite3.Connection, *, since: RecordState, dimension: int) -> NodeRows:
    found = connection.execute(
        f"SELECT node_row, kind, key, tokens, length, terms, counts, vector FROM node WHERE encoding_row = {CURRENT} "
        "AND node_row > ? ORDER BY node_row",
        (since.last_node,),
    ).fetchall()
    row, kind, key, tokens, length, terms, counts, vectors = rows.transposed(found, 8)
    link_node, link_record = read_pairs(
        connection,
        "SELECT node_row, record_row FROM node_record CROSS JOIN node USING (node_row) "
        f"WHERE encoding_row = {CURRENT} AND link_row > ? ORDER BY link_row",
        after=since.last_link,
    )
    return NodeRows(
        row=np.array(row, np.int64),
        kind=tuple(NodeKind(name) for name in kind),
        key=tuple(rows.from_sql_text(text) for text in key),
        tokens=np.array(tokens, np.int32),
        length=np.array(length, np.int32),
        distinct=np.array([len(blob) // 2 for blob in counts], np.int32),
        terms=np.frombuffer(b"".join(terms), np.uint64),
        counts=np.frombuffer(b"".join(counts), np.uint16),
        vectors=np.frombuffer(b"".join(vectors), np.float32).reshape(-1, dimension),
        link_node=link_node,
        link_record=link_record,
    )


def read_pairs(
    connection: sqlite3.Connection, query: str, *, after: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read links in two columns; the query's CROSS JOIN makes SQLite begin with the newest, not with all records."""
    one, other = rows.transposed(connection.execute(query, (after,)).fetchall(), 2)
    return np.array(one, np.int64), np.array(other, np.int64)
