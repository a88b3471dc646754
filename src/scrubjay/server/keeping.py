"""/v1/users/{user}: records, status, export, and forgetting parts of a memory."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from scrubjay.datatypes import NodeKey, NodeKind, RecordType
from scrubjay.documents import forget_document, node_document, record_document, status_document, turn_document
from scrubjay.formats.export import EXPORT_VERSION, HEADER_KEY
from scrubjay.organize import normalize_key
from scrubjay.server.bodies import ForgetBody
from scrubjay.server.replies import ForgetReply, Json, NodesReply, RecordsReply, StatusReply
from scrubjay.server.service import ServiceGiven, ToForget, ToRead
from scrubjay.server.turns import NDJSON

if TYPE_CHECKING:
    from scrubjay.async_memory import AsyncMemory
    from scrubjay.datatypes import Node, Record
    from scrubjay.memory import Memory

router = APIRouter(prefix="/v1", tags=["keeping"])

EXPORTED: dict[int | str, dict[str, Any]] = {200: {"content": {NDJSON: {"schema": {"type": "string"}}}}}
LINES_AT_ONCE = 100  # of an export


@router.get("/users/{user}/records", response_model=RecordsReply)
async def list_records(  # noqa: PLR0913 -- the filters of a query
    service: ServiceGiven,
    memory: ToRead,
    *,
    type: Annotated[RecordType | None, Query(description="Only of this type.")] = None,  # noqa: A002 -- the field's name
    kind: Annotated[NodeKind, Query(description="Of the node that `key` names.")] = NodeKind.ENTITY,
    key: Annotated[str | None, Query(description="Only those that this evidence node leads to.")] = None,
    session_id: Annotated[str | None, Query(description="Only made from turns of this session.")] = None,
    after: Annotated[int, Query(ge=0, le=1_000_000_000, description="Pass over so many.")] = 0,
    limit: Annotated[int, Query(ge=1)] = 100,
) -> Json:
    """List the records made of the conversation in the order they were made, each with its source turns."""
    most = min(limit, service.settings.most_listed)
    exact = key if key is None or kind is not NodeKind.ENTITY else normalize_key(key)
    node = None if exact is None else NodeKey(kind=kind, key=exact)

    def read_page(opened: Memory) -> list[Record]:
        found = opened.records.records(type=type, node=node, session_id=session_id)
        return list(islice(found, after, after + most + 1))

    records = await memory.run(read_page)
    next_page = after + most if len(records) > most else None
    return Json({"records": [record_document(record) for record in records[:most]], "next": next_page})


@router.get("/users/{user}/nodes", response_model=NodesReply)
async def list_nodes(
    memory: ToRead, kind: Annotated[NodeKind | None, Query(description="Only of this kind.")] = None
) -> Json:
    """List evidence nodes, which records are found by: entities, topics, days, months, event frames."""
    found = await memory.run(read_nodes, kind=kind)
    return Json({"nodes": [node_document(node) for node in found]})


def read_nodes(memory: Memory, *, kind: NodeKind | None) -> tuple[Node, ...]:
    return memory.records.nodes(kind)


@router.get("/users/{user}/status", response_model=StatusReply)
async def show_status(memory: ToRead) -> Json:
    """Say what the memory holds, how far its records are, and what was spent."""
    document = status_document(await memory.status())
    del document["path"]  # where the server keeps it is nobody's business
    return Json(document)


@router.post("/users/{user}/forget", response_model=ForgetReply)
async def forget(memory: ToForget, body: ForgetBody) -> Json:
    """Delete turns and all that was made of them, for good: one turn, a session, what was said before a time, or all."""
    report = await memory.forget(
        turn=body.turn,
        session=body.session,
        before=body.before,
        everything=body.everything,
        dry_run=body.dry_run,
    )
    return Json(forget_document(report))


@router.get("/users/{user}/export", response_class=StreamingResponse, responses=EXPORTED)
async def export(memory: ToRead) -> StreamingResponse:
    """Give every turn with all its fields as lines of JSON, which `scrubjay import` reads back without loss."""
    await memory.run(lambda _: None)  # whoever isn't there is told so before the answer begins
    return StreamingResponse(export_lines(memory), media_type=NDJSON)


async def export_lines(memory: AsyncMemory) -> AsyncIterator[str]:
    """Give the header of an export and a line for each turn, some at a time."""
    lines = [json.dumps({HEADER_KEY: EXPORT_VERSION})]
    async for turn in memory.turns():
        lines.append(json.dumps(turn_document(turn)))
        if len(lines) == LINES_AT_ONCE:
            yield "\n".join([*lines, ""])
            lines = []
    yield "\n".join([*lines, ""] if lines else [])
