"""/healthz, /readyz and /metrics: for whoever runs the server."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from scrubjay.server.keys import Right
from scrubjay.server.replies import HealthReply, Json
from scrubjay.server.service import CallerGiven, ServiceGiven

router = APIRouter(tags=["health"])


@router.get("/healthz", response_model=HealthReply)
async def show_health() -> Json:
    """Say that the process answers."""
    return Json({"status": "ok"})


@router.get(
    "/readyz",
    response_model=HealthReply,
    responses={503: {"model": HealthReply, "description": "It is stopping, or busy: ask another."}},
)
async def show_readiness(service: ServiceGiven) -> Json:
    """Say whether requests may be sent: threads are free to take one, and the server isn't stopping."""
    if service.stopping:
        return Json({"status": "stopping"}, status_code=503)
    if service.threads.waiting() >= service.settings.waiting_calls:
        return Json({"status": "busy"}, status_code=503)
    await service.threads.read(lambda: None)
    return Json({"status": "ok"})


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def show_metrics(service: ServiceGiven, caller: CallerGiven) -> Response:
    """Give counts for Prometheus; any key may ask."""
    caller.require(Right.READ)
    return Response(service.metrics.render(), media_type=CONTENT_TYPE_LATEST)
