"""What the planner is asked to write, and how far it may stray: routes are checked one by one (paper 3.5)."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from scrubjay.datatypes import RecordType, Role
from scrubjay.encoder_reply import Labels, Moment, clean, read_choice, read_items, read_text, require_all
from scrubjay.iso_dates import first_and_last_day, read_iso
from scrubjay.routes import QuestionType

RANGE_BREAK = re.compile(r"\s*(?:/|\.\.+|–|—|\bto\b|\bbis\b|至|到|~)\s*")
NO_GOAL = "a route needs a goal or a query"
ENDS = {
    "start": "from",
    "begin": "from",
    "after": "from",
    "since": "from",
    "end": "to",
    "until": "to",
    "before": "to",
}
TYPE_KEYS = AliasChoices("question_type", "type", "query_type", "intent")
QUERY_KEYS = AliasChoices("queries", "query", "search_queries", "searches", "search_query")


def read_question_type(given: object) -> object:
    """Read a type that isn't one as `other`: the routes are worth more than it."""
    choice = read_choice(given)
    return choice if choice in set(QuestionType) else QuestionType.OTHER.value


def read_texts(given: object) -> object:
    """Read one string, or a list of strings or of objects with one, as a list of strings; blanks are left out."""
    if given is None:
        return []
    items = given if isinstance(given, list) else [given]
    texts = [next(iter(one.values()), None) if isinstance(one, dict) else one for one in items]
    return [clean(text).strip() for text in texts if isinstance(text, str) and text.strip()]


def read_record_types(given: object) -> list[str]:
    """Read the kinds of record there are; others are left out."""
    choices = [read_choice(one) for one in given] if isinstance(given, list) else [read_choice(given)]
    return [str(choice) for choice in choices if choice in set(RecordType)]


def read_role(given: object) -> object:
    choice = read_choice(given)
    return choice if choice in {Role.USER, Role.ASSISTANT, Role.TOOL} else None


def read_range(given: object) -> object:
    """Read {"from": …, "to": …}, ["…", "…"], "2024-03" or "2024-03 to 2024-05"; what is no range is none."""
    if isinstance(given, dict):
        ends = {ENDS.get(str(key).lower(), str(key).lower()): end for key, end in given.items()}
        return {"from": ends.get("from"), "to": ends.get("to")}
    parts = RANGE_BREAK.split(given) if isinstance(given, str) else given
    if not isinstance(parts, list) or not parts:
        return None
    return {"from": parts[0], "to": parts[-1]}


def read_date(given: object) -> object:
    """Read an ISO date of any precision; what is none is left open."""
    written = str(given) if isinstance(given, int) and not isinstance(given, bool) else given
    return read_iso(written) if isinstance(written, str) else None


class RangeItem(BaseModel):
    """A range of time with both ends included, each a day, month or year."""

    model_config = ConfigDict(json_schema_extra=require_all)

    start: Annotated[str | None, BeforeValidator(read_date)] = Field(None, alias="from")
    end: Annotated[str | None, BeforeValidator(read_date)] = Field(None, alias="to")

    @property
    def is_usable(self) -> bool:
        if self.start is None or self.end is None:
            return self.start is not None or self.end is not None
        return first_and_last_day(self.start)[0] <= first_and_last_day(self.end)[1]


RANGE_OR_NONE = {
    "anyOf": [RangeItem.model_json_schema(), {"type": "null"}]
}  # inline: references can't be nested
Range = Annotated[RangeItem | None, BeforeValidator(read_range), WithJsonSchema(RANGE_OR_NONE)]
RecordTypes = Annotated[
    list[
        Literal[
            "fact", "preference", "event", "constraint", "procedure", "failure_pattern", "tool_affordance"
        ]
    ],
    BeforeValidator(read_record_types),
]


class RouteItem(BaseModel):
    """A route as the model writes it; its keys may have the names that models give them instead."""

    model_config = ConfigDict(str_strip_whitespace=True, json_schema_extra=require_all)

    goal: Annotated[
        str, BeforeValidator(lambda given: read_text(given) if isinstance(given, str) else "")
    ] = Field("", validation_alias=AliasChoices("goal", "route_goal", "need", "purpose", "description"))
    queries: Annotated[list[str], BeforeValidator(read_texts)] = Field([], validation_alias=QUERY_KEYS)
    entities: Labels = Field([], validation_alias=AliasChoices("entities", "entity", "names", "people"))
    topics: Labels = Field([], validation_alias=AliasChoices("topics", "topic", "tags", "keywords"))
    record_types: RecordTypes = Field(
        [], validation_alias=AliasChoices("record_types", "record_type", "memory_types", "types")
    )
    speaker: Moment = Field(None, validation_alias=AliasChoices("speaker", "said_by"))
    role: Annotated[Literal["user", "assistant", "tool"] | None, BeforeValidator(read_role)] = None
    time_range: Range = Field(None, validation_alias=AliasChoices("time_range", "time", "dates", "temporal"))

    @model_validator(mode="before")
    @classmethod
    def unfold_constraints(cls, given: object) -> object:
        """Take a bare string for the query, and constraints from a nested object, which the paper's own plans have."""
        if isinstance(given, str):
            return {"queries": [given]}
        if isinstance(given, dict) and isinstance(constraints := given.get("constraints"), dict):
            return {**constraints, **given}
        return given

    @model_validator(mode="after")
    def require_need(self) -> Self:
        if not self.goal and not self.queries:
            raise ValueError(NO_GOAL)
        return self


Item = Annotated[JsonValue, WithJsonSchema(RouteItem.model_json_schema())]


class PlanReply(BaseModel):
    """The planner's reply: a type, and routes that are each checked by themselves later."""

    model_config = ConfigDict(json_schema_extra=require_all)

    question_type: Annotated[
        Literal[
            "single",
            "aggregate",
            "temporal",
            "comparison",
            "personalized_advice",
            "prior_assistant_response",
            "other",
        ],
        BeforeValidator(read_question_type),
    ] = Field("other", validation_alias=TYPE_KEYS)
    time_range: Range = Field(None, validation_alias=AliasChoices("time_range", "time", "temporal", "dates"))
    routes: Annotated[list[Item], BeforeValidator(read_items)] = Field(
        validation_alias=AliasChoices("routes", "route", "plan", "needs")
    )

    @model_validator(mode="before")
    @classmethod
    def name_list(cls, given: object) -> object:
        """Take a bare list for the routes."""
        return {"routes": given} if isinstance(given, list) else given

    @model_validator(mode="after")
    def require_usable(self) -> Self:
        """Refuse a reply without a route that can be used: the model is asked again."""
        fault = "there is no route"
        for item in self.routes:
            try:
                RouteItem.model_validate(item)
            except ValidationError as error:
                where = error.errors(include_url=False, include_input=False)[0]
                fault = f"no route can be used; the last: {'.'.join(map(str, where['loc']))}: {where['msg']}"
            else:
                return self
        raise ValueError(fault)
