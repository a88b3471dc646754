"""/v1/users/{user}/recall and /answer: evidence for a question, and a model's answer from it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse

from scrubjay.answer import RecallOptions
from scrubjay.errors import ScrubJayError
from scrubjay.server.bodies import RecallBody
from scrubjay.server.problems import ProblemError, problem_document, problem_of
from scrubjay.server.replies import AnswerReply, EvidenceReply, Json
from scrubjay.server.service import Service, ServiceGiven, ToRead

if TYPE_CHECKING:
    from scrubjay.async_memory import AsyncAnswerStream
    from scrubjay.datatypes import JsonValue

router = APIRouter(prefix="/v1", tags=["reading"])

EVENTS = "text/event-stream"
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {EVENTS: {"schema": {"type": "string"}}}}}


@router.post("/users/{user}/recall", response_model=EvidenceReply)
async def recall(service: ServiceGiven, memory: ToRead, body: RecallBody) -> Json:
    """Organise the evidence for a question; nothing is written. Past `deadline` seconds a cheaper path is taken."""
    with counting(service):
        evidence = await memory.recall(body.question, **read_options(body, service))
    service.metrics.count_evidence(evidence)
    service.metrics.count_usage(evidence.usage)
    return Json(evidence.to_dict(trace=True))


def read_options(body: RecallBody, service: Service) -> RecallOptions:
    most = service.settings.most_tokens
    if body.max_tokens is not None and body.max_tokens > most:
        raise ProblemError(422, "invalid", f"max_tokens: at most {most}, found {body.max_tokens}")
    return RecallOptions(
        strategy=body.strategy,
        max_tokens=body.max_tokens,
        deadline=body.deadline,
        now=body.now,
        time_range=None if body.time_range is None else body.time_range.range(),
        recent=body.recent,
        asker=body.asker,
    )


@router.post("/users/{user}/answer", response_model=AnswerReply, responses=STREAMED)
async def answer(
    service: ServiceGiven, memory: ToRead, body: RecallBody, accept: Annotated[str, Header()] = ""
) -> Json | StreamingResponse:
    """Answer a question from what recall finds for it, by one call of a model.

    With `Accept: text/event-stream` the answer is streamed: an event `evidence`, then one `piece` for each piece of
    text, then `answer` with the whole, or `problem` where the model failed meanwhile.
    """
    options = read_options(body, service)
    if EVENTS in accept:
        with counting(service):
            stream = await memory.answer_stream(body.question, **options)
        return StreamingResponse(tell_answer(stream, service), media_type=EVENTS)
    with counting(service):
        given = await memory.answer(body.question, **options)
    service.metrics.count_evidence(given.evidence)
    service.metrics.count_usage(given.usage)
    return Json(given.to_dict())


async def tell_answer(stream: AsyncAnswerStream, service: Service) -> AsyncIterator[bytes]:
    """Give an answer as server-sent events; a caller who hangs up ends the model's work too."""
    async with aclosing(stream):
        service.metrics.count_evidence(stream.evidence)
        yield event("evidence", stream.evidence.to_dict(trace=True))
        try:
            with counting(service):
                async for piece in stream:
                    yield event("piece", {"text": piece})
        except ScrubJayError as error:
            yield event("problem", problem_document(problem_of(error), request_id=""))
            return
        if stream.answer is not None:
            service.metrics.count_usage(stream.answer.usage)
            yield event("answer", stream.answer.to_dict())


@contextmanager
def counting(service: Service) -> Iterator[None]:
    """Count what was spent before something failed."""
    try:
        yield
    except ScrubJayError as error:
        service.metrics.count_usage(error.spent)
        raise


def event(name: str, document: dict[str, JsonValue]) -> bytes:
    """Give a server-sent event; JSON in ASCII holds no line break that could end it early."""
    return f"event: {name}\ndata: {json.dumps(document)}\n\n".encode()
