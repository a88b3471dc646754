"""Work that goes on after its request was answered, and can be asked about: consolidations."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scrubjay.documents import consolidation_document, time_text
from scrubjay.errors import ScrubJayError
from scrubjay.server.problems import ProblemError, problem_document, problem_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrubjay.datatypes import ConsolidationReport, JsonValue
    from scrubjay.server.metrics import Metrics


@dataclass(slots=True, kw_only=True, eq=False)
class Operation:
    """One consolidation: how far it is, and how it ended."""

    operation_id: str
    user_id: str
    kind: str
    begun_at: datetime
    state: str = "running"  # then "done", "failed", or "stopped" with the server
    done: int = 0
    total: int | None = None
    ended_at: datetime | None = None
    report: ConsolidationReport | None = None
    problem: ProblemError | None = None

    def advance(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    def to_dict(self) -> dict[str, JsonValue]:
        problem = self.problem
        return {
            "operation_id": self.operation_id,
            "kind": self.kind,
            "state": self.state,
            "begun_at": self.begun_at.isoformat(),
            "ended_at": time_text(self.ended_at),
            "done": self.done,
            "total": self.total,
            "report": None if self.report is None else consolidation_document(self.report),
            "problem": None if problem is None else problem_document(problem, request_id=""),
        }


@dataclass(slots=True, kw_only=True, eq=False)
class Operations:
    """The operations of a server, one at a time for each user; kept in memory, the last ended ones too."""

    kept: int
    metrics: Metrics
    _known: dict[str, Operation] = field(default_factory=dict)
    _running: dict[str, tuple[Operation, asyncio.Task[None]]] = field(default_factory=dict)  # by user

    def begin(
        self,
        user_id: str,
        kind: str,
        work: Callable[[Callable[[int, int], None]], Awaitable[ConsolidationReport]],
    ) -> Operation:
        """Start work on a user's memory, which is told how to say how far it is; refuse a second at a time."""
        if user_id in self._running:
            running = self._running[user_id][0]
            more: dict[str, JsonValue] = {"operation_id": running.operation_id}
            raise ProblemError(
                409,
                "already_running",
                f"operation {running.operation_id} is under way: wait for its end",
                more=more,
            )
        operation = Operation(
            operation_id=uuid.uuid4().hex, user_id=user_id, kind=kind, begun_at=datetime.now(UTC)
        )
        self._known[operation.operation_id] = operation
        self._drop_oldest()
        task = asyncio.create_task(self._run(operation, work(operation.advance)))
        self._running[user_id] = operation, task
        task.add_done_callback(lambda _: self._running.pop(user_id))
        return operation

    async def _run(self, operation: Operation, work: Awaitable[ConsolidationReport]) -> None:
        try:
            operation.report = await work
            operation.state = "done"
            self.metrics.count_usage(operation.report.usage)
        except ScrubJayError as error:
            operation.state, operation.problem = "failed", problem_of(error)
        except asyncio.CancelledError:
            operation.state = "stopped"
        except BaseException:
            operation.state = "failed"
            operation.problem = ProblemError(500, "internal", "the server failed: its log says how")
            raise
        finally:
            operation.ended_at = datetime.now(UTC)
            self.metrics.operations.labels(operation.state).inc()

    def _drop_oldest(self) -> None:
        ended = [found for found in self._known.values() if found.ended_at is not None]
        for operation in ended[: max(0, len(self._known) - self.kept)]:
            del self._known[operation.operation_id]

    def find(self, user_id: str, operation_id: str) -> Operation:
        """Give an operation on a user's memory; raise a problem where there is none."""
        operation = self._known.get(operation_id)
        if operation is None or operation.user_id != user_id:
            raise ProblemError(
                404, "not_found", "there is no such operation here: it ended long ago, or before a restart"
            )
        return operation

    async def stop(self, *, seconds: float) -> None:
        """Have every operation end with the segment under way; wait for that so long at most."""
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
