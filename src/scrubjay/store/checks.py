"""What `doctor` asks of an SQLite memory: the file is sound, and every turn is in every index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.datatypes import Fault

if TYPE_CHECKING:
    import sqlite3

CHECKS: tuple[tuple[str, str, str], ...] = (
    (
        "every turn is in the indexes",
        "SELECT count(*) FROM turn WHERE turn_row NOT IN (SELECT turn_row FROM passage)",
        "export the memory and import it into a new file: turns are indexed as they are written",
    ),
    (
        "every index entry has its turn",
        "SELECT count(*) FROM passage WHERE turn_row NOT IN (SELECT turn_row FROM turn)",
        "export the memory and import it into a new file",
    ),
    (
        "every turn has its session",
        "SELECT count(*) FROM turn WHERE session_row NOT IN (SELECT session_row FROM session)",
        "restore the file from a backup or an export",
    ),
    (
        "every full-text entry counts each of its terms",
        "SELECT count(*) FROM passage WHERE length(terms) <> 4 * length(counts)",
        "export the memory and import it into a new file",
    ),
    (
        "every vector has the embedder's dimension",
        "SELECT count(*) FROM passage WHERE length(vector) <> :vector_bytes",
        "run `scrubjay reembed`",
    ),
    (
        "every turn is in no segment or in one of its session",
        (
            "SELECT count(*) FROM turn WHERE segment_row IS NOT NULL AND (segment_row, session_row) NOT IN "
            "(SELECT segment_row, session_row FROM segment)"
        ),
        "restore the file from a backup or an export",
    ),
    (
        "every segment has turns",
        (
            "SELECT count(*) FROM segment WHERE segment_row NOT IN "
            "(SELECT segment_row FROM turn WHERE segment_row IS NOT NULL)"
        ),
        "restore the file from a backup or an export",
    ),
    (
        "every segment has a state in every encoding",
        (
            "SELECT count(*) FROM segment JOIN encoding WHERE (encoding_row, segment_row) NOT IN "
            "(SELECT encoding_row, segment_row FROM segment_state WHERE state IN ('pending', 'encoded', 'failed'))"
        ),
        "run `scrubjay reconsolidate`",
    ),
    (
        "exactly one encoding is current",
        "SELECT abs(count(*) - 1) FROM encoding WHERE state = 'current'",
        "restore the file from a backup or an export",
    ),
    (
        "every record has a turn it was made from",
        (
            "SELECT count(*) FROM record WHERE record_row NOT IN "
            "(SELECT record_row FROM provenance JOIN turn USING (turn_row))"
        ),
        "run `scrubjay reconsolidate`",
    ),
    (
        "every record was made from encoded turns",
        (
            "SELECT count(*) FROM provenance JOIN record USING (record_row) JOIN turn USING (turn_row) "
            "WHERE (encoding_row, segment_row) NOT IN "
            "(SELECT encoding_row, segment_row FROM segment_state WHERE state = 'encoded')"
        ),
        "run `scrubjay reconsolidate`",
    ),
    (
        "every record is linked to an evidence node of its encoding",
        (
            "SELECT count(*) FROM record WHERE NOT EXISTS (SELECT 1 FROM node_record JOIN node USING (node_row) "
            "WHERE node_record.record_row = record.record_row AND node.encoding_row = record.encoding_row)"
        ),
        "run `scrubjay reconsolidate`",
    ),
    (
        "every evidence node has a record",
        (
            "SELECT count(*) FROM node WHERE node_row NOT IN "
            "(SELECT node_row FROM node_record JOIN record USING (record_row))"
        ),
        "run `scrubjay reconsolidate`",
    ),
    (
        "every record of an event frame cites a turn of its segment",
        (
            "SELECT count(*) FROM node JOIN node_record USING (node_row) WHERE node.segment_row IS NOT NULL "
            "AND NOT EXISTS (SELECT 1 FROM provenance JOIN turn USING (turn_row) "
            "WHERE provenance.record_row = node_record.record_row AND turn.segment_row = node.segment_row)"
        ),
        "run `scrubjay reconsolidate`",
    ),
    (
        "every record and evidence node counts each of its terms",
        (
            "SELECT count(*) FROM (SELECT terms, counts FROM record UNION ALL SELECT terms, counts FROM node) "
            "WHERE length(terms) <> 4 * length(counts)"
        ),
        "run `scrubjay reconsolidate`",
    ),
    (
        "every vector of a record or evidence node has the embedder's dimension",
        (
            "SELECT count(*) FROM (SELECT vector FROM record UNION ALL SELECT vector FROM node) "
            "WHERE length(vector) <> :vector_bytes"
        ),
        "run `scrubjay reembed`",
    ),
)
"""(what should be so, a count of what isn't, what mends it)"""

FLOAT32_BYTES = 4


def find_faults(connection: sqlite3.Connection, *, dimension: int) -> tuple[Fault, ...]:
    faults = [
        Fault(
            check="the file is sound", found=str(row[0]), remedy="restore the file from a backup or an export"
        )
        for row in connection.execute("PRAGMA integrity_check")
        if row[0] != "ok"
    ]
    if faults:
        return tuple(faults)  # a damaged file can't be asked further
    for check, count_faults, remedy in CHECKS:
        values = {"vector_bytes": dimension * FLOAT32_BYTES} if ":vector_bytes" in count_faults else {}
        count = connection.execute(count_faults, values).fetchone()[0]
        if count:
            faults.append(Fault(check=check, found=f"{count} are not", remedy=remedy))
    return tuple(faults)
