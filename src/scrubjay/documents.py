"""Results as JSON values, the same for the command, HTTP and MCP."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from scrubjay.datatypes import (
        BackgroundState,
        ChannelScore,
        ConsolidationPlan,
        ConsolidationReport,
        Fault,
        ForgetReport,
        Hit,
        ImportReport,
        JsonValue,
        Link,
        MemoryStatus,
        MigrationReport,
        Node,
        Record,
        Segment,
        Session,
        Stage,
        StateCounts,
        TableSum,
        TimeRange,
        Turn,
        Usage,
    )

Document = dict[str, "JsonValue"]


def time_text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def link_document(link: Link) -> Document:
    return {
        "number": link.number,
        "kind": link.kind.value,
        "reason": link.reason,
        "anchor": link.anchor,
        "purpose": None if link.purpose is None else link.purpose.value,
        "rank": link.rank,
        "probability": round(link.probability, 6),
        "channels": channels_document(link.channels),
        "new_terms": list(link.new_terms),
        "excerpt": None if link.excerpt is None else list(link.excerpt),
        "tokens": link.tokens,
        "turn": turn_document(link.turn),
    }


def turn_document(turn: Turn) -> Document:
    return {
        "turn_id": turn.turn_id,
        "session_id": turn.session_id,
        "index": turn.index,
        "role": turn.role.value,
        "speaker": turn.speaker,
        "text": turn.text,
        "caption": turn.caption,
        "said_at": time_text(turn.said_at),
        "added_at": turn.added_at.isoformat(),
        "metadata": dict(turn.metadata),
    }


def channels_document(channels: Mapping[str, ChannelScore]) -> Document:
    return {
        name: {"rank": channel.rank, "score": round(channel.score, 6)} for name, channel in channels.items()
    }


def range_document(time_range: TimeRange | None) -> Document | None:
    if time_range is None:
        return None
    return {
        "start": time_text(time_range.start),
        "end": time_text(time_range.end),
        "precision": time_range.precision.value,
        "text": time_range.text,
    }


def stage_document(stage: Stage) -> Document:
    return {"stage": stage.name, "milliseconds": round(stage.milliseconds, 3), "fallback": stage.fallback}


def hit_document(hit: Hit) -> Document:
    return {
        "rank": hit.rank,
        "score": round(hit.score, 6),
        "channels": channels_document(hit.channels),
        "turn": turn_document(hit.turn),
    }


def session_document(session: Session) -> Document:
    return {
        "session_id": session.session_id,
        "turns": session.turns,
        "speakers": list(session.speakers),
        "first_said_at": time_text(session.first_said_at),
        "last_said_at": time_text(session.last_said_at),
    }


def status_document(status: MemoryStatus) -> Document:
    return {
        "memory_id": status.memory_id,
        "path": status.path,
        "owner": status.owner,
        "turns": status.totals.turns,
        "sessions": status.totals.sessions,
        "passages": status.totals.passages,
        "first_said_at": time_text(status.totals.first_said_at),
        "last_said_at": time_text(status.totals.last_said_at),
        "embedder": status.embedder,
        "file_bytes": status.file_bytes,
        "turns_by_state": counts_document(status.progress.turns),
        "segments_by_state": counts_document(status.progress.segments),
        "records": status.progress.records,
        "nodes": status.progress.nodes,
        "usage": [usage_document(usage) for usage in status.usage],
        "failing": [segment_document(segment) for segment in status.failing],
        "background": background_document(status.background),
    }


def counts_document(counts: StateCounts) -> Document:
    return {
        "open": counts.open,
        "pending": counts.pending,
        "encoded": counts.encoded,
        "failed": counts.failed,
    }


def usage_document(usage: Usage) -> Document:
    return {
        "stage": usage.stage,
        "model": usage.model,
        "calls": usage.calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
    }


def background_document(state: BackgroundState | None) -> Document | None:
    if state is None:
        return None
    return {
        "running": state.running,
        "working": state.working,
        "last_run_at": time_text(state.last_run_at),
        "next_run_at": time_text(state.next_run_at),
        "last_error": state.last_error,
    }


def segment_document(segment: Segment) -> Document:
    return {
        "segment": segment.segment_row,
        "session_id": segment.session_id,
        "number": segment.number,
        "state": segment.state.value,
        "reason": segment.reason.value,
        "probability": segment.probability,
        "signals": dict(segment.signals),
        "tokens": segment.tokens,
        "turn_ids": list(segment.turn_ids),
        "attempts": segment.attempts,
        "last_error": segment.last_error,
        "updated_at": segment.updated_at.isoformat(),
    }


def record_document(record: Record) -> Document:
    return {
        "record_id": record.record_id,
        "type": record.type.value,
        "text": record.text,
        "entities": list(record.entities),
        "tags": list(record.tags),
        "t_ref": record.time.t_ref,
        "t_valid_from": record.time.t_valid_from,
        "t_valid_to": record.time.t_valid_to,
        "stance": record.stance.value,
        "speaker": record.speaker,
        "supported": record.support.supported,
        "support_reason": record.support.reason,
        "turn_ids": list(record.turn_ids),
    }


def node_document(node: Node) -> Document:
    return {"kind": node.kind.value, "key": node.key, "text": node.text, "records": node.records}


def plan_document(plan: ConsolidationPlan) -> Document:
    return {
        "segments": plan.segments,
        "calls": plan.calls,
        "input_tokens": plan.input_tokens,
        "output_tokens": plan.output_tokens,
    }


def consolidation_document(report: ConsolidationReport) -> Document:
    return {
        "closed": report.closed,
        "encoded": report.encoded,
        "failed": report.failed,
        "records": report.records,
        "repeated": report.repeated,
        "dropped": report.dropped,
        "usage": [usage_document(usage) for usage in report.usage],
        "turns_by_state": counts_document(report.turns),
        "stopped": report.stopped,
        "retry_at": time_text(report.retry_at),
    }


def forget_document(report: ForgetReport) -> Document:
    return {
        "turns": report.turns,
        "passages": report.passages,
        "sessions": report.sessions,
        "records": report.records,
        "nodes": report.nodes,
        "notes": report.notes,
        "scrubbed": report.scrubbed,
        "pending": report.pending,
    }


def fault_document(fault: Fault) -> Document:
    return {"check": fault.check, "found": fault.found, "remedy": fault.remedy}


def migration_document(report: MigrationReport) -> Document:
    return {
        "dry_run": report.dry_run,
        "memories": [
            {
                "user_id": memory.user_id,
                "source": memory.source,
                "target": memory.target,
                "outcome": memory.outcome.value,
                "changed_meanwhile": memory.changed_meanwhile,
                "error": memory.error,
                "tables": {found.table: sum_document(found) for found in memory.sums},
            }
            for memory in report.memories
        ],
    }


def sum_document(found: TableSum) -> Document:
    return {"rows": found.rows, "checksum": found.checksum}


def import_document(report: ImportReport) -> Document:
    return {
        "source": report.source,
        "format": report.format,
        "memories": [
            {
                "memory": part.memory,
                "sessions": part.sessions,
                "added": part.added,
                "unchanged": part.unchanged,
            }
            for part in report.memories
        ],
        "bad": [str(error) for error in report.bad],
        "left_out": report.left_out,
    }
