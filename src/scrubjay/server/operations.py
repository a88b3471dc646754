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
    from scrubjay.server.crew import Board
    from scrubjay.server.metrics import Metrics


@dataclass(slots=True, kw_only=True, eq=False)
class Operation:
    """One consolidation: how far it is, and how it ended."""

    operation_id: str
    kind: str
    begun_at: datetime
    state: str = "running"  # then "done", "failed", or "stopped" with the server
    done: int = 0
    total: int | None = None
    ended_at: datetime | None = None
    report: ConsolidationReport | None = None
    problem: ProblemError | None = None

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
    """The operations of a process, one at a time for each user of the server; all its processes can ask about them."""

    kept: int
    metrics: Metrics
    board: Board
    _running: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(
        self,
        user_id: str,
        kind: str,
        work: Callable[[Callable[[int, int], None]], Awaitable[ConsolidationReport]],
    ) -> Operation:
        """Start work on a user's memory, which is told how to say how far it is; refuse a second at a time."""
        operation = Operation(operation_id=uuid.uuid4().hex, kind=kind, begun_at=datetime.now(UTC))
        running = self.board.begin(operation.operation_id, user_id, operation.to_dict())
        if running is not None:
            more: dict[str, JsonValue] = {"operation_id": running}
            raise ProblemError(
                409, "already_running", f"operation {running} is under way: wait for its end", more=more
            )
        self.board.drop_oldest(kept=self.kept)

        def advance(done: int, total: int) -> None:
            operation.done, operation.total = done, total
            self.board.tell(operation.operation_id, operation.to_dict(), is_running=True)

        task = asyncio.create_task(self._run(operation, work(advance)))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
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
            self.board.tell(operation.operation_id, operation.to_dict(), is_running=False)
            self.metrics.operations.labels(operation.state).inc()

    def find(self, user_id: str, operation_id: str) -> dict[str, JsonValue]:
        """Give what is known of an operation on a user's memory; raise a problem where there is none."""
        told = self.board.find(user_id, operation_id)
        if told is None:
            raise ProblemError(
                404, "not_found", "there is no such operation here: it ended long ago, or before a restart"
            )
        return told

    async def stop(self, *, seconds: float) -> None:
        """Have every operation end with the segment under way; wait for that so long at most."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
