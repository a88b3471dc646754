"""/v1/users/{user}/consolidate, operations and segments: making records of what was said, and how far that is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response

from scrubjay.datatypes import ConsolidationLimits, SegmentState
from scrubjay.documents import plan_document, segment_document
from scrubjay.errors import SettingsError
from scrubjay.llm import NO_MODEL
from scrubjay.server.bodies import ConsolidateBody
from scrubjay.server.replies import Json, OperationReply, PlanReply, RetriedReply, SegmentsReply
from scrubjay.server.service import ServiceGiven, ToRead, ToWrite, UserInPath, decode_part

if TYPE_CHECKING:
    from scrubjay.datatypes import ConsolidationReport, Segment
    from scrubjay.memory import Memory

router = APIRouter(prefix="/v1", tags=["consolidating"])


@router.post(
    "/users/{user}/consolidate",
    status_code=202,
    response_model=OperationReply,
    responses={200: {"model": PlanReply, "description": "What it would take, with `dry_run`."}},
)
async def consolidate(
    service: ServiceGiven, memory: ToWrite, user: UserInPath, body: ConsolidateBody, request: Request
) -> Response:
    """Have a model make records of what was said: this answers at once, with an operation to ask about.

    With `dry_run` it only reckons calls and tokens. A user has one operation at a time.
    """
    idle = None if body.idle_seconds is None else timedelta(seconds=body.idle_seconds)
    if body.dry_run:
        return Json(plan_document(await memory.plan_consolidation(flush=body.flush, idle=idle)))
    if not await memory.run(has_model):
        raise SettingsError(NO_MODEL)
    limits = ConsolidationLimits(**body.limits.model_dump())

    def work(advance: Callable[[int, int], None]) -> Awaitable[ConsolidationReport]:
        return memory.consolidate(limits=limits, flush=body.flush, idle=idle, advance=advance)

    operation = service.operations.begin(decode_part(user), "consolidate", work)
    where = f"{request.scope['path'].removesuffix('/consolidate')}/operations/{operation.operation_id}"
    return Json(operation.to_dict(), status_code=202, headers={"Location": where})


def has_model(memory: Memory) -> bool:
    return memory.model.is_configured


@router.get("/users/{user}/operations/{operation_id}", response_model=OperationReply)
async def show_operation(service: ServiceGiven, _: ToRead, user: UserInPath, operation_id: str) -> Json:
    """Say how far an operation is, and how it ended; after a restart of the server none is known."""
    return Json(service.operations.find(decode_part(user), operation_id))


@router.get("/users/{user}/segments", response_model=SegmentsReply)
async def list_segments(
    memory: ToRead,
    state: Annotated[SegmentState | None, Query(description="Only in this state.")] = None,
    session_id: Annotated[str | None, Query(description="Only of this session.")] = None,
) -> Json:
    """List segments: why each closed, how far it is, and what went wrong; open turns are in none yet."""
    found = await memory.run(read_segments, state=state, session_id=session_id)
    return Json({"segments": [segment_document(segment) for segment in found]})


def read_segments(
    memory: Memory, *, state: SegmentState | None, session_id: str | None
) -> tuple[Segment, ...]:
    return memory.segments.segments(session_id=session_id, state=state)


@router.post("/users/{user}/segments/retry", response_model=RetriedReply)
async def retry_segments(memory: ToWrite) -> Json:
    """Have the segments that failed tried again by the next consolidation."""
    return Json({"retried": await memory.run(retry_failed)})


def retry_failed(memory: Memory) -> int:
    return memory.segments.retry_failed()
