"""/v1/users/{user}/turns: adding turns, singly and by the thousand, and reading them back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from pydantic import ValidationError

from scrubjay.documents import session_document, turn_document
from scrubjay.errors import ScrubJayError, TurnError
from scrubjay.server.bodies import AddBody, LineBody
from scrubjay.server.problems import ProblemError, problem_of
from scrubjay.server.replies import AddedReply, BulkReply, Json, SessionsReply, TurnReply, TurnsReply
from scrubjay.server.service import ServiceGiven, ToCreate, ToRead, decode_part
from scrubjay.turns import read_turns

if TYPE_CHECKING:
    from scrubjay.async_memory import AsyncMemory
    from scrubjay.datatypes import AddReport, JsonValue, NewTurn, Turn
    from scrubjay.memory import Memory

router = APIRouter(prefix="/v1", tags=["turns"])

BATCH = 500  # lines of a bulk upload, a transaction each
NDJSON = "application/x-ndjson"
LINES = {"content": {NDJSON: {"schema": {"type": "string"}}}, "required": True}


@router.post("/users/{user}/turns", response_model=AddedReply)
async def add_turns(service: ServiceGiven, memory: ToCreate, body: AddBody) -> Json:
    """Store turns of a session; when this answers they are searchable, and safe from a crash.

    Adding a turn again, by its id or its index, changes nothing. The user's memory is made with its first turn.
    """
    turns = [turn.given() for turn in body.turns]
    report = await memory.add(turns, session_id=body.session_id, said_at=body.said_at)
    service.metrics.turns.inc(report.added)
    return Json({"turn_ids": list(report.turn_ids), "added": report.added, "unchanged": report.unchanged})


@router.post("/users/{user}/turns/bulk", response_model=BulkReply, openapi_extra={"requestBody": LINES})
async def add_lines(service: ServiceGiven, memory: ToCreate, request: Request) -> Json:
    """Store turns from lines of JSON, each with its `session_id`, while they arrive.

    Each batch of 500 lines is stored whole before the next. Where a line can't be used the answer is a problem that
    says in `line` which, and in `stored` how much was stored before; lines with ids can all be sent again.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != NDJSON:
        raise ProblemError(415, "unsupported_media_type", f"send lines of JSON as Content-Type: {NDJSON}")
    upload = Upload(memory=memory)
    try:
        async for line in split_lines(request.stream(), most=service.settings.most_line_bytes):
            await upload.take(line)
        await upload.store()
    except (ScrubJayError, ValidationError, ProblemError) as error:
        raise upload.problem(error) from error
    finally:
        service.metrics.turns.inc(upload.added)
    return Json(upload.report())


@dataclass(slots=True, kw_only=True)
class Upload:
    """How far a bulk upload is."""

    memory: AsyncMemory
    batch: list[tuple[str, NewTurn]] = field(default_factory=list)
    number: int = 0  # of the line last read, from 1
    lines: int = 0  # stored
    added: int = 0
    unchanged: int = 0
    batches: int = 0

    async def take(self, line: bytes) -> None:
        """Read a line, and store the batch that it fills; empty ones are passed over."""
        self.number += 1
        if not line.strip():
            return
        body = LineBody.model_validate_json(line)
        given = body.given()
        given.pop("session_id")
        self.batch.append((body.session_id, read_turns(given)[0]))
        if len(self.batch) == BATCH:
            await self.store()

    async def store(self) -> None:
        if not self.batch:
            return
        report = await self.memory.run(store_batch, self.batch)
        self.lines += len(self.batch)
        self.added += report.added
        self.unchanged += report.unchanged
        self.batches += 1
        self.batch = []

    def report(self) -> dict[str, JsonValue]:
        return {
            "lines": self.lines,
            "added": self.added,
            "unchanged": self.unchanged,
            "batches": self.batches,
        }

    def problem(self, error: ScrubJayError | ValidationError | ProblemError) -> ProblemError:
        """Say what was wrong, with which line, and what is stored all the same."""
        if isinstance(error, ValidationError):
            fault = error.errors(include_input=False)[0]
            where = ".".join(map(str, fault["loc"]))
            error = TurnError(f"{where}: {fault['msg']}" if where else str(fault["msg"]))
        problem = problem_of(error) if isinstance(error, ScrubJayError) else error
        more: dict[str, JsonValue] = {"line": self.number, "stored": self.report()}
        detail = f"line {self.number}: {problem.detail}"
        return ProblemError(problem.status_code, problem.code, detail, headers=problem.headers, more=more)


def store_batch(memory: Memory, turns: list[tuple[str, NewTurn]]) -> AddReport:
    return memory.add_many(turns)


async def split_lines(pieces: AsyncIterator[bytes], *, most: int) -> AsyncIterator[bytes]:
    """Give the lines of a stream as they become whole; refuse one that is too long, however it comes."""
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            require_short(line, most)
            yield line
        require_short(rest, most)
    if rest:
        yield rest


def require_short(line: bytes, most: int) -> None:
    if len(line) > most:
        raise ProblemError(413, "too_long", f"a line may have {most} bytes", headers={"Connection": "close"})


@router.get("/users/{user}/turns", response_model=TurnsReply)
async def list_turns(
    service: ServiceGiven,
    memory: ToRead,
    session_id: Annotated[str | None, Query(description="Only of this session.")] = None,
    after: Annotated[str | None, Query(description="Only those after the turn of this id.")] = None,
    limit: Annotated[int, Query(ge=1)] = 100,
) -> Json:
    """Give turns as they were said, a page at a time: `next` is the `after` of the next page, null on the last."""
    most = min(limit, service.settings.most_listed)
    turns = await memory.run(read_page, session_id=session_id, after=after, limit=most + 1)
    next_page = turns[most - 1].turn_id if len(turns) > most else None
    return Json({"turns": [turn_document(turn) for turn in turns[:most]], "next": next_page})


def read_page(memory: Memory, *, session_id: str | None, after: str | None, limit: int) -> list[Turn]:
    return list(islice(memory.turns(session_id=session_id, after=after), limit))


@router.get("/users/{user}/turns/{turn_id}", response_model=TurnReply)
async def show_turn(memory: ToRead, turn_id: str) -> Json:
    """Give one turn as it was said."""
    return Json(turn_document(await memory.turn(decode_part(turn_id))))


@router.get("/users/{user}/sessions", response_model=SessionsReply)
async def list_sessions(memory: ToRead) -> Json:
    """List the sessions in the order they began to be written."""
    return Json({"sessions": [session_document(session) for session in await memory.sessions()]})
