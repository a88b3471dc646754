"""/v1/chat/completions: a conversation with a model, which is remembered, and reminded of what was said before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse

from scrubjay.async_memory import AsyncMemory
from scrubjay.errors import NotFoundError
from scrubjay.server.keys import Right
from scrubjay.server.problems import ProblemError
from scrubjay.server.service import CallerGiven, Service, ServiceGiven
from scrubjay.server.upstream import (
    ROUTE,
    SAID_ROLES,
    ChatBody,
    ReplyReader,
    ask_upstream,
    turn_id_of,
    with_evidence,
)

if TYPE_CHECKING:
    import httpx2

    from scrubjay.evidence import Evidence

router = APIRouter(prefix="/v1", tags=["proxy"])

OK = 200
LONGEST_QUESTION = 4_000  # characters of a message, from its end, that are asked about
RECENT_LINES = 6
PASSED_ON = ("content-type", "retry-after")  # headers of the model's server
COMPLETIONS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {"schema": {"type": "string"}}, "application/json": {"schema": {}}}
    }
}


@router.post(ROUTE, response_class=Response, responses=COMPLETIONS)
async def complete_chat(
    service: ServiceGiven,
    caller: CallerGiven,
    body: ChatBody,
    *,
    x_scrubjay_user: Annotated[str | None, Header(description="Whose memory; else the field `user`.")] = None,
    x_scrubjay_session: Annotated[str | None, Header(description="Its session; else one a day.")] = None,
    x_scrubjay_memory: Annotated[
        Literal["on", "off"], Header(description="off: only pass the request on.")
    ] = "on",
) -> Response:
    """Pass a conversation on to the configured model, with the evidence for its last question as quoted data.

    What the user said last and what the model replied are stored, as they were said, once the model has replied.
    Its errors come through as they are.
    """
    client = service.upstream
    if client is None:
        raise ProblemError(501, "no_upstream", "no model's server is configured: set SCRUBJAY_UPSTREAM_URL")
    user_id = x_scrubjay_user or body.user
    conversation = None
    if x_scrubjay_memory == "on":
        if not user_id:
            raise ProblemError(
                422, "no_user", "say whose memory it is: the header X-ScrubJay-User, or `user`"
            )
        caller.require(Right.WRITE, user_id)
        conversation = Conversation(
            service=service, user_id=user_id, body=body, session_id=x_scrubjay_session or ""
        )
    else:
        caller.require(Right.WRITE)
    evidence = None if conversation is None else await conversation.recall()
    sent = body.model_dump(mode="json", exclude_unset=True)
    sent["messages"] = with_evidence(body.messages, evidence)
    return await relay(await ask_upstream(client, sent), conversation)


@dataclass(slots=True, kw_only=True)
class Conversation:
    """A conversation as it was sent, and the memory it belongs to."""

    service: Service
    user_id: str
    body: ChatBody
    session_id: str
    begun_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        self.session_id = self.session_id or f"chat {self.begun_at.date()}"

    def _memory(self, *, create: bool) -> AsyncMemory:
        service = self.service
        return AsyncMemory.of_user(service.home, self.user_id, create=create, threads=service.threads)

    async def recall(self) -> Evidence | None:
        """Give the evidence for what the user said last; None where there is nothing to ask, or nobody known."""
        messages = self.body.messages
        places = [
            place for place, message in enumerate(messages) if message.role == "user" and message.said.strip()
        ]
        if not places:
            return None
        question = messages[places[-1]].said.strip()[-LONGEST_QUESTION:]
        before = [m.said for m in messages[: places[-1]] if m.role in SAID_ROLES and m.said]
        try:
            evidence = await self._memory(create=False).recall(
                question,
                max_tokens=self.service.settings.proxy_tokens,
                now=self.begun_at,
                recent=before[-RECENT_LINES:],
            )
        except NotFoundError:  # their first words
            return None
        self.service.metrics.count_evidence(evidence)
        self.service.metrics.count_usage(evidence.usage)
        return evidence

    async def remember(self, reply: ReplyReader) -> None:
        """Store what the user said last, unless a tool has spoken since, and what was replied."""
        turns: list[dict[str, object]] = []
        last = self.body.messages[-1]
        if last.role == "user" and last.said:
            said_id = turn_id_of(self.session_id, self.body.messages)
            said: dict[str, object] = {"role": "user", "content": last.said, "id": said_id}
            turns.append({**said, "created_at": self.begun_at, **({"name": last.name} if last.name else {})})
        if reply.text:
            whole = {} if reply.is_whole else {"metadata": {"broken_off": True}}
            turns.append(
                {"role": "assistant", "content": reply.text, "created_at": datetime.now(UTC), **whole}
            )
        if turns:
            report = await self._memory(create=True).add(turns, session_id=self.session_id)
            self.service.metrics.turns.inc(report.added)


async def relay(answer: httpx2.Response, conversation: Conversation | None) -> Response:
    """Give a model's answer to the caller as it is; one that isn't an answer is remembered by nobody."""
    headers = {name: answer.headers[name] for name in PASSED_ON if name in answer.headers}
    if answer.headers.get("content-type", "").startswith("text/event-stream") and answer.status_code == OK:
        return StreamingResponse(relay_stream(answer, conversation), headers=headers)
    body = await read_all(answer)
    if conversation is not None and answer.status_code == OK:
        reply = ReplyReader()
        reply.read_whole(body)
        await conversation.remember(reply)
    return Response(body, status_code=answer.status_code, headers=headers)


async def read_all(answer: httpx2.Response) -> bytes:
    import httpx2

    try:
        return await answer.aread()
    except httpx2.TransportError as error:
        raise ProblemError(502, "upstream_broke_off", "the model's server broke off its answer") from error
    finally:
        await answer.aclose()


async def relay_stream(answer: httpx2.Response, conversation: Conversation | None) -> AsyncIterator[bytes]:
    """Give a streamed answer piece by piece; what was said is stored at its end, also where somebody hangs up."""
    reply = ReplyReader()
    try:
        async for piece in answer.aiter_bytes():
            reply.read_stream(piece)
            yield piece
    finally:
        ending = asyncio.create_task(end_stream(answer, reply, conversation))
        if conversation is not None:
            conversation.service.keep(ending)
        await asyncio.shield(ending)


async def end_stream(answer: httpx2.Response, reply: ReplyReader, conversation: Conversation | None) -> None:
    await answer.aclose()
    if conversation is not None and (reply.text or reply.is_whole):
        await conversation.remember(reply)
