"""The application: routes, and what stands before them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI

from scrubjay import __version__
from scrubjay.server import consolidating, health, keeping, page, problems, proxy, reading, turns, users
from scrubjay.server.bounds import Bounds, RawPath
from scrubjay.server.crew import Board
from scrubjay.server.gate import Gate
from scrubjay.server.metrics import Metrics
from scrubjay.server.observing import Observer
from scrubjay.server.operations import Operations
from scrubjay.server.replies import ProblemReply
from scrubjay.server.room import Room
from scrubjay.server.service import BEARER, Service, refuse_unknown
from scrubjay.server.upstream import open_client
from scrubjay.threads import Threads

if TYPE_CHECKING:
    from scrubjay.home import Home
    from scrubjay.server.agents import McpRoute
    from scrubjay.server.crew import Crew
    from scrubjay.server.keys import KeyRing
    from scrubjay.server.settings import ServerSettings

DESCRIPTION = (
    "Long-term memory for LLM agents: every turn kept unchanged, evidence organised when a question arrives."
)
REFUSALS = {
    400: "A path or body that can't be read.",
    401: "No key, or one that isn't valid.",
    403: "The key isn't for this.",
    404: "No such memory, session, turn or operation.",
    408: "The body came too slowly.",
    409: "It is taken, or under way.",
    413: "The body is too long.",
    415: "Another kind of body is expected.",
    422: "What was sent can't be used.",
    429: "Too many requests.",
    500: "The server failed.",
    501: "No model is configured, or a package is missing.",
    502: "The model failed.",
    503: "Busy: come again when `Retry-After` says.",
    504: "It took too long.",
    507: "The disk is full.",
}
ROUTERS = (users, turns, reading, consolidating, keeping, proxy)


def problem_responses() -> dict[int | str, dict[str, Any]]:
    schema = {"$ref": "#/components/schemas/ProblemReply"}
    return {
        status: {"description": words, "content": {problems.MEDIA_TYPE: {"schema": schema}}}
        for status, words in REFUSALS.items()
    }


def build_app(
    home: Home,
    *,
    keys: KeyRing | None,
    settings: ServerSettings,
    on_stop: Callable[[], object] | None,
    on_end: Callable[[], object] | None = None,
    crew: Crew | None = None,
) -> FastAPI:
    """Put the application together; its threads start with the first request and end with its lifespan, as does the crew."""
    service = make_service(home, keys=keys, settings=settings, crew=crew)
    agents = open_agents(home, most=settings.call_threads + settings.waiting_calls)

    @asynccontextmanager
    async def live(_: FastAPI) -> AsyncIterator[None]:
        async with agents.running() if agents else nullcontext():
            yield
        service.stopping = True
        if on_stop is not None:
            on_stop()
        await service.close()
        if on_end is not None:
            on_end()

    app = FastAPI(
        title="ScrubJay",
        version=__version__,
        description=DESCRIPTION,
        lifespan=live,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.service = service
    problems.register(app)
    add_routes(app)
    if agents is not None:
        app.router.routes.append(agents.route)
    add_middleware(app, service)
    describe(app)
    return app


def open_agents(home: Home, *, most: int) -> McpRoute | None:
    """Give the route of the Model Context Protocol, where its package is installed."""
    if find_spec("mcp") is None:
        return None
    from scrubjay.server.agents import McpRoute

    return McpRoute(home, most=most)


def make_service(home: Home, *, keys: KeyRing | None, settings: ServerSettings, crew: Crew | None) -> Service:
    metrics = Metrics(crew)
    return Service(
        home=home,
        keys=keys,
        settings=settings,
        threads=Threads(calls=settings.call_threads, long=settings.long_threads),
        operations=Operations(kept=settings.kept_operations, metrics=metrics, board=Board(crew)),
        metrics=metrics,
        crew=crew,
        upstream=open_client(settings),
    )


def add_routes(app: FastAPI) -> None:
    for module in ROUTERS:
        guards = [Depends(BEARER), Depends(refuse_unknown)]
        app.include_router(module.router, responses=problem_responses(), dependencies=guards)
    app.include_router(health.router)
    app.include_router(page.router)


def add_middleware(app: FastAPI, service: Service) -> None:
    """Put before the routes what every request passes, the innermost first."""
    settings = service.settings
    app.add_middleware(Bounds, settings=settings)
    app.add_middleware(Room, threads=service.threads, settings=settings)
    app.add_middleware(Gate, keys=service.keys, rate=settings.rate)
    app.add_middleware(RawPath)
    app.add_middleware(Observer, metrics=service.metrics, log_content=settings.log_content)


def describe(app: FastAPI) -> None:
    """Add to the description what the framework doesn't know: the shape of problems."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        described = generate()
        schemas = described["components"]["schemas"]
        schemas["ProblemReply"] = ProblemReply.model_json_schema()
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        return described

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation extends it
