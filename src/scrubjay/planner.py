"""Ask a model for a plan, and read what it wrote; loaded by plan.py only where there is a model."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING

from pydantic import ValidationError

from scrubjay.asking import render_moment, render_question, render_recent
from scrubjay.datatypes import DatePrecision, RecordType, Role, TimeRange, Usage
from scrubjay.dates import find_time_range
from scrubjay.errors import ModelReplyError
from scrubjay.iso_dates import first_and_last_day
from scrubjay.llm import ChatRequest
from scrubjay.llm.replies import describe
from scrubjay.plan_reply import PlanReply, RouteItem
from scrubjay.prompts import load_prompt
from scrubjay.routes import Plan, QuestionType, Route

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date, tzinfo

    from scrubjay.llm import ChatModel
    from scrubjay.plan_reply import RangeItem
    from scrubjay.settings import PlanSettings

STAGE = "plan"
BY_MODEL = "model"
PRECISIONS = {
    4: DatePrecision.YEAR,
    7: DatePrecision.MONTH,
    10: DatePrecision.DAY,
}  # by the length of an ISO date


def ask_for_plan(
    question: str, *, now: datetime, recent: Sequence[str], model: ChatModel, settings: PlanSettings
) -> tuple[Plan, Usage]:
    """Ask once; see plan_with_model."""
    request = build_request(question, now=now, recent=recent, settings=settings)
    completion = model.complete(request, PlanReply)
    if completion.value is None:
        raise ModelReplyError(f"{model.name}: the plan was cut short", usage=completion.usage)
    return read_plan(completion.value, question, now=now, settings=settings), completion.usage


def build_request(
    question: str, *, now: datetime, recent: Sequence[str], settings: PlanSettings
) -> ChatRequest:
    """Put a question to the model, with the last lines of the conversation it belongs to."""
    said = render_recent(recent, lines=settings.recent_lines, characters=settings.recent_characters)
    return ChatRequest(
        stage=STAGE,
        system=load_prompt("plan").format(
            most_routes=settings.most_routes, most_queries=settings.most_queries
        ),
        user=f"Now: {render_moment(now)}\n{said}{render_question(question)}",
        max_output_tokens=settings.max_output_tokens,
    )


def read_plan(reply: PlanReply, question: str, *, now: datetime, settings: PlanSettings) -> Plan:
    """Make a plan of a reply, route by route: one that can't be used is left out, and its reason kept.

    A time that the question names counts also where the model left it out. A single route looks for the question's own
    words too (paper B.2, query variants from q and the route); of several, each looks for a part of it.
    """
    whole = make_range(reply.time_range, now.tzinfo)
    routes: list[Route] = []
    dropped: list[str] = []
    for number, item in enumerate(reply.routes, start=1):
        try:
            route = make_route(RouteItem.model_validate(item), now=now, settings=settings)
        except ValidationError as error:
            dropped.append(f"route {number}: {describe(error)}")
            continue
        if len(routes) < settings.most_routes and route not in routes:
            routes.append(route)
        else:
            dropped.append(f"route {number}: the same again, or more than {settings.most_routes}")
    if len(routes) == 1:
        routes = [replace(routes[0], queries=distinct((question, *routes[0].queries), most=None))]
    if whole is None and all(route.time_range is None for route in routes):
        whole = find_time_range(question, now)
    return Plan(
        question_type=QuestionType(reply.question_type),
        routes=tuple(replace(route, time_range=route.time_range or whole) for route in routes),
        time_range=whole,
        made_by=BY_MODEL,
        dropped=tuple(dropped),
    )


def make_route(item: RouteItem, *, now: datetime, settings: PlanSettings) -> Route:
    """Make a route of what the model wrote, within its limits."""
    longest = settings.longest_query
    queries = distinct((text[:longest] for text in item.queries or [item.goal]), most=settings.most_queries)
    is_role = item.speaker is not None and item.speaker.casefold() in set(Role)
    role = item.speaker.casefold() if is_role and item.speaker else item.role
    return Route(
        goal=item.goal[:longest] or queries[0],
        queries=queries,
        entities=distinct(item.entities, most=settings.most_labels),
        topics=distinct(item.topics, most=settings.most_labels),
        record_types=tuple(RecordType(kind) for kind in dict.fromkeys(item.record_types)),
        speaker=None if is_role else item.speaker,
        role=Role(role) if role else None,
        time_range=make_range(item.time_range, now.tzinfo),
    )


def distinct(texts: Iterable[str], *, most: int | None) -> tuple[str, ...]:
    """Give the first texts that differ by more than capitals, in their order."""
    kept: dict[str, str] = {}
    for text in texts:
        kept.setdefault(text.casefold(), text)
    return tuple(kept.values())[:most]


def make_range(item: RangeItem | None, zone: tzinfo | None) -> TimeRange | None:
    """Make a half-open range, in the time zone of who asks, of dates that both count; None of what is none."""
    if item is None or not item.is_usable:
        return None
    start = midnight(first_and_last_day(item.start)[0], zone) if item.start else None
    end = midnight(first_and_last_day(item.end)[1] + timedelta(days=1), zone) if item.end else None
    written = [iso for iso in (item.start, item.end) if iso]
    precision = PRECISIONS[max(map(len, written))]
    return TimeRange(start=start, end=end, precision=precision, text=" to ".join(dict.fromkeys(written)))


def midnight(day: date, zone: tzinfo | None) -> datetime:
    return datetime.combine(day, time(), zone)
