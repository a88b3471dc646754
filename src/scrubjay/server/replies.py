"""What the server answers: the documents of documents.py, described for OpenAPI and rendered once."""

from __future__ import annotations

import json
from typing import Any, Literal

from fastapi import Response
from pydantic import BaseModel, Field, JsonValue
from pydantic_core import PydanticSerializationError, to_json

Spoken = Literal["user", "assistant", "system", "tool"]
State = Literal["open", "pending", "encoded", "failed"]


class Json(Response):
    """A document as JSON: UTF-8, or where its text holds what UTF-8 can't, ASCII escapes."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        try:
            return to_json(content, inf_nan_mode="null")
        except PydanticSerializationError:  # a lone surrogate, which a turn may hold
            return json.dumps(content, separators=(",", ":")).encode()


class ProblemReply(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str
    usage: list[UsageReply] | None = Field(
        default=None, description="What a model's calls cost all the same."
    )


class UsersReply(BaseModel):
    users: list[str]
    next: str | None


class ForgottenUserReply(BaseModel):
    user: str
    forgotten: bool


class AddedReply(BaseModel):
    turn_ids: list[str]
    added: int
    unchanged: int


class BulkReply(BaseModel):
    lines: int
    added: int
    unchanged: int
    batches: int


class TurnReply(BaseModel):
    turn_id: str
    session_id: str
    index: int
    role: Spoken
    speaker: str | None
    text: str
    caption: str | None
    said_at: str | None
    added_at: str
    metadata: dict[str, JsonValue]


class TurnsReply(BaseModel):
    turns: list[TurnReply]
    next: str | None


class SessionReply(BaseModel):
    session_id: str
    turns: int
    speakers: list[str]
    first_said_at: str | None
    last_said_at: str | None


class SessionsReply(BaseModel):
    sessions: list[SessionReply]


class ChannelReply(BaseModel):
    rank: int
    score: float


class RangeReply(BaseModel):
    start: str | None
    end: str | None
    precision: str
    text: str


class RecordReply(BaseModel):
    record_id: str
    type: str
    text: str
    entities: list[str]
    tags: list[str]
    t_ref: str | None
    t_valid_from: str | None
    t_valid_to: str | None
    stance: str
    speaker: str | None
    supported: bool
    support_reason: str
    turn_ids: list[str]


class RecordsReply(BaseModel):
    records: list[RecordReply]
    next: int | None


class NodeReply(BaseModel):
    kind: str
    key: str
    text: str
    records: int


class NodesReply(BaseModel):
    nodes: list[NodeReply]


class RecordLinkReply(BaseModel):
    number: int
    reason: str
    rank: int
    score: float
    channels: dict[str, ChannelReply]
    tokens: int
    turns: list[int]
    record: RecordReply


class LinkReply(BaseModel):
    number: int
    kind: Literal["anchor", "neighbour"]
    reason: str
    anchor: int | None
    rank: int
    probability: float
    channels: dict[str, ChannelReply]
    new_terms: list[str]
    excerpt: list[int] | None
    tokens: int
    turn: TurnReply


class StageReply(BaseModel):
    stage: str
    milliseconds: float
    fallback: str


class UsageReply(BaseModel):
    stage: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int


class EvidenceReply(BaseModel):
    """The evidence for a question, as `scrubjay ask --json` prints it."""

    question: str
    strategy: str
    tokens: int
    max_tokens: int
    time_range: RangeReply | None
    question_type: str
    records: list[RecordLinkReply]
    links: list[LinkReply]
    confidence: float
    is_answerable: bool
    text: str
    usage: list[UsageReply] | None = None
    trace: list[StageReply] | None = None


class AnswerReply(BaseModel):
    question: str
    answer: str
    citations: list[str]
    numbers: list[int]
    unknown_numbers: list[int]
    abstained: bool
    truncated: bool
    usage: list[UsageReply]
    evidence: EvidenceReply


class PlanReply(BaseModel):
    segments: int
    calls: int
    input_tokens: int
    output_tokens: int


class CountsReply(BaseModel):
    open: int
    pending: int
    encoded: int
    failed: int


class ConsolidationReply(BaseModel):
    closed: int
    encoded: int
    failed: int
    records: int
    repeated: int
    dropped: int
    usage: list[UsageReply]
    turns_by_state: CountsReply
    stopped: str
    retry_at: str | None


class OperationReply(BaseModel):
    operation_id: str
    kind: str
    state: Literal["running", "done", "failed", "stopped"]
    begun_at: str
    ended_at: str | None
    done: int
    total: int | None
    report: ConsolidationReply | None
    problem: ProblemReply | None


class SegmentReply(BaseModel):
    segment: int
    session_id: str
    number: int
    state: State
    reason: str
    probability: float | None
    signals: dict[str, float]
    tokens: int
    turn_ids: list[str]
    attempts: int
    last_error: str
    updated_at: str


class SegmentsReply(BaseModel):
    segments: list[SegmentReply]


class RetriedReply(BaseModel):
    retried: int


class BackgroundReply(BaseModel):
    running: bool
    working: bool
    last_run_at: str | None
    next_run_at: str | None
    last_error: str


class StatusReply(BaseModel):
    memory_id: str
    owner: str | None
    turns: int
    sessions: int
    passages: int
    first_said_at: str | None
    last_said_at: str | None
    embedder: str
    file_bytes: int
    turns_by_state: CountsReply
    segments_by_state: CountsReply
    records: int
    nodes: int
    usage: list[UsageReply]
    failing: list[SegmentReply]
    background: BackgroundReply | None


class ForgetReply(BaseModel):
    turns: int
    passages: int
    sessions: int
    records: int
    nodes: int
    notes: int
    scrubbed: bool
    pending: str


class HealthReply(BaseModel):
    status: Literal["ok", "stopping", "busy"]
