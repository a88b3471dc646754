"""What callers send, checked by shape; what it means is checked by the memory itself."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, WithJsonSchema

from scrubjay.datatypes import DatePrecision, TimeRange
from scrubjay.turns import HIGHEST_INDEX, read_time

MOST_WORKERS = 8
MOST_IDLE_SECONDS = 1e9
MOST_RECENT = 100  # lines
MOST_TURNS = 10_000  # of one request; more go in a bulk upload
MOST_DEADLINE_SECONDS = 3_600.0

ISO_TIME: dict[str, Any] = {"type": "string", "format": "date-time"}


def read_moment(given: object) -> datetime | None:
    """Read ISO 8601 text with its offset, or seconds since 1970 UTC; a naive time is refused."""
    moment = read_time(given, 0)
    if moment is not None and moment.utcoffset() is None:
        raise ValueError(f"{given!r} has no time zone: add its offset, such as +02:00 or Z")
    return moment


Moment = Annotated[
    datetime | None,
    BeforeValidator(read_moment),
    WithJsonSchema({"anyOf": [ISO_TIME, {"type": "number"}, {"type": "null"}]}),
]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TurnBody(Body):
    """A turn; `content`, `name`, `created_at` and `id` are other names of `text`, `speaker`, `said_at` and `turn_id`."""

    role: Literal["user", "assistant", "system", "tool"]
    content: str | None = None
    text: str | None = None
    name: str | None = None
    speaker: str | None = None
    created_at: Moment = None
    said_at: Moment = None
    id: str | None = None
    turn_id: str | None = None
    index: int | None = Field(default=None, ge=0, le=HIGHEST_INDEX)
    caption: str | None = None
    metadata: dict[str, JsonValue] | None = None

    def given(self) -> dict[str, object]:
        """Give what was sent, as `Memory.add` takes it."""
        return {name: value for name, value in self if name in self.model_fields_set and value is not None}


class AddBody(Body):
    session_id: str = Field(min_length=1)
    turns: list[TurnBody] = Field(max_length=MOST_TURNS)
    said_at: Moment = None


class LineBody(TurnBody):
    """A line of a bulk upload: a turn with its session."""

    session_id: str = Field(min_length=1)


class RangeBody(Body):
    start: Moment = None
    end: Moment = None

    def range(self) -> TimeRange:
        return TimeRange(start=self.start, end=self.end, precision=DatePrecision.OTHER, text="")


class RecallBody(Body):
    question: str = Field(min_length=1)
    strategy: Literal["auto", "chain", "planned"] | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    deadline: float | None = Field(default=None, gt=0, le=MOST_DEADLINE_SECONDS)
    now: Moment = None
    time_range: RangeBody | None = None
    recent: list[str] = Field(default_factory=list, max_length=MOST_RECENT)
    asker: str | None = None


class LimitsBody(Body):
    most_segments: int | None = Field(default=None, ge=1)
    budget_tokens: int | None = Field(default=None, ge=1)
    workers: int = Field(default=1, ge=1, le=MOST_WORKERS)


class ConsolidateBody(Body):
    flush: bool = False
    idle_seconds: float | None = Field(default=None, ge=0, le=MOST_IDLE_SECONDS)
    limits: LimitsBody = Field(default_factory=LimitsBody)
    dry_run: bool = False


class ForgetBody(Body):
    """Exactly one of the first four; with `dry_run` nothing is deleted."""

    turn: str | None = None
    session: str | None = None
    before: Moment = None
    everything: bool = False
    dry_run: bool = False
