"""What `doctor` asks of a memory in PostgreSQL: every turn is in every index, every record has its turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.datatypes import Fault

if TYPE_CHECKING:
    from scrubjay.store.postgres.transaction import Transaction

RESTORE = "restore the database from a backup, or import an export into a new memory"
IMPORT = "export the memory and import it into a new one: turns are indexed as they are written"
RECONSOLIDATE = "run `scrubjay reconsolidate`"
REEMBED = "run `scrubjay reembed`"


def missing(table: str, condition: str) -> str:
    return f"SELECT count(*) FROM scrubjay.{table} AS one WHERE one.memory_id = %(memory)s AND {condition}"


def no(rows: str) -> str:
    return f"NOT EXISTS (SELECT 1 FROM {rows})"


IS_CURRENT = "WHERE memory_id = %(memory)s AND state = 'current' AND encoding_row = %(encoding)s"

CHECKS: tuple[tuple[str, str, str], ...] = (
    (
        "every turn is in the indexes",
        missing(
            "turn",
            no("scrubjay.passage WHERE passage.memory_id = %(memory)s AND passage.turn_row = one.turn_row"),
        ),
        IMPORT,
    ),
    (
        "every full-text entry counts each of its terms",
        missing("passage", "length(terms) <> 4 * length(counts)"),
        IMPORT,
    ),
    (
        "every vector has the embedder's dimension",
        missing("passage", "vector_dims(vector) <> %(dimension)s"),
        REEMBED,
    ),
    (
        "every turn is in no segment or in one of its session",
        missing(
            "turn",
            "segment_row IS NOT NULL AND "
            + no(
                "scrubjay.segment WHERE segment.memory_id = %(memory)s AND segment.segment_row = one.segment_row "
                "AND segment.session_row = one.session_row"
            ),
        ),
        RESTORE,
    ),
    (
        "every segment has turns",
        missing(
            "segment",
            no("scrubjay.turn WHERE turn.memory_id = %(memory)s AND turn.segment_row = one.segment_row"),
        ),
        RESTORE,
    ),
    (
        "every segment has a state in every encoding",
        "SELECT count(*) FROM scrubjay.segment JOIN scrubjay.encoding USING (memory_id) "
        "WHERE memory_id = %(memory)s AND "
        + no(
            "scrubjay.segment_state AS kept WHERE kept.memory_id = %(memory)s "
            "AND kept.encoding_row = encoding.encoding_row AND kept.segment_row = segment.segment_row "
            "AND kept.state IN ('pending', 'encoded', 'failed')"
        ),
        RECONSOLIDATE,
    ),
    (
        "exactly one encoding is current",
        f"SELECT abs(count(*) - 1) FROM scrubjay.encoding {IS_CURRENT}",
        RESTORE,
    ),
    (
        "every record has a turn it was made from",
        missing(
            "record",
            no(
                "scrubjay.provenance WHERE provenance.memory_id = %(memory)s "
                "AND provenance.record_row = one.record_row"
            ),
        ),
        RECONSOLIDATE,
    ),
    (
        "every record was made from encoded turns",
        "SELECT count(*) FROM scrubjay.provenance JOIN scrubjay.record USING (memory_id, record_row) "
        "JOIN scrubjay.turn USING (memory_id, turn_row) WHERE memory_id = %(memory)s AND "
        + no(
            "scrubjay.segment_state AS kept WHERE kept.memory_id = %(memory)s "
            "AND kept.encoding_row = record.encoding_row AND kept.segment_row = turn.segment_row "
            "AND kept.state = 'encoded'"
        ),
        RECONSOLIDATE,
    ),
    (
        "every record is linked to an evidence node of its encoding",
        missing(
            "record",
            no(
                "scrubjay.node_record AS link JOIN scrubjay.node USING (memory_id, node_row) "
                "WHERE memory_id = %(memory)s AND link.record_row = one.record_row "
                "AND node.encoding_row = one.encoding_row"
            ),
        ),
        RECONSOLIDATE,
    ),
    (
        "every evidence node has a record",
        missing(
            "node",
            no(
                "scrubjay.node_record AS link WHERE link.memory_id = %(memory)s AND link.node_row = one.node_row"
            ),
        ),
        RECONSOLIDATE,
    ),
    (
        "every record of an event frame cites a turn of its segment",
        "SELECT count(*) FROM scrubjay.node JOIN scrubjay.node_record AS link USING (memory_id, node_row) "
        "WHERE memory_id = %(memory)s AND node.segment_row IS NOT NULL AND "
        + no(
            "scrubjay.provenance AS cited JOIN scrubjay.turn USING (memory_id, turn_row) "
            "WHERE memory_id = %(memory)s AND cited.record_row = link.record_row "
            "AND turn.segment_row = node.segment_row"
        ),
        RECONSOLIDATE,
    ),
    *(
        (
            f"every {owner} counts each of its terms",
            missing(table, "length(terms) <> 4 * length(counts)"),
            RECONSOLIDATE,
        )
        for table, owner in (("record", "record"), ("node", "evidence node"))
    ),
    *(
        (
            f"every vector of {owner} has the embedder's dimension",
            missing(table, "vector_dims(vector) <> %(dimension)s"),
            REEMBED,
        )
        for table, owner in (("record", "a record"), ("node", "an evidence node"))
    ),
)
"""(what should be so, a count of what isn't, what mends it); foreign keys see to the rest."""


def find_faults(transaction: Transaction) -> tuple[Fault, ...]:
    memory = transaction.memory
    dimension = memory.identity.dimension if memory.embedder else 0
    faults = []
    for check, count_faults, remedy in CHECKS:
        count = transaction.first(count_faults, dimension=dimension, encoding=memory.current_encoding)
        if count:
            faults.append(Fault(check=check, found=f"{count} are not", remedy=remedy))
    return tuple(faults)
