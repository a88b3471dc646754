"""What the encoder is asked to write, and how far it may stray: items are checked one by one (paper Table 12)."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal, Self

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

MOST_IN_RANGE = 500  # turns that "3-9" may stand for
TURN_NUMBERS = re.compile(r"(\d{1,6})\s*(?:-|–|\.\.|to)\s*(\d{1,6})|(\d{1,6})")
LABEL_BREAK = re.compile(r"\s*[,;、，；]\s*")
NO_VALUE = frozenset({"", "null", "none", "n/a", "unknown", "unresolved"})
NAME_KEYS = ("name", "text", "entity", "tag")
STANCES = {
    "assertion": "asserted",
    "stated": "asserted",
    "fact": "asserted",
    "question": "asked",
    "asking": "asked",
    "hypothetical": "supposed",
    "supposition": "supposed",
    "supposing": "supposed",
    "wish": "supposed",
}


def read_turn_numbers(given: object) -> object:
    """Read 3, "3", [3, 4], "3-5", {"start": 3, "end": 5}, ["T3"] as numbers; leave what is none of these."""
    if isinstance(given, dict):
        ends = [end for end in given.values() if isinstance(end, int)]
        return list(range(ends[0], min(ends[-1], ends[0] + MOST_IN_RANGE) + 1)) if ends else given
    if isinstance(given, list):
        return [number for one in given for number in numbers_of(one)]
    return numbers_of(given) or given


def numbers_of(given: object) -> list[int]:
    if isinstance(given, int) and not isinstance(given, bool):
        return [given]
    if isinstance(given, float) and given.is_integer():
        return [int(given)]
    numbers: list[int] = []
    for first, last, single in TURN_NUMBERS.findall(given) if isinstance(given, str) else ():
        start, end = (int(single), int(single)) if single else (int(first), int(last))
        numbers.extend(range(start, min(end, start + MOST_IN_RANGE) + 1))
    return numbers


def clean(text: str) -> str:
    """Replace lone surrogates, which no store can hold."""
    return text.encode("utf-8", "replace").decode()


def read_text(given: object) -> object:
    return clean(given) if isinstance(given, str) else given


def read_labels(given: object) -> object:
    """Read one string, a list of strings or of objects with a name, or nothing, as a list of labels."""
    if given is None:
        return []
    if isinstance(given, str):
        return [label for label in LABEL_BREAK.split(clean(given).strip()) if label]
    if not isinstance(given, list):
        return given
    named = [find_name(one) if isinstance(one, dict) else one for one in given]
    return [clean(str(label)).strip() for label in named if isinstance(label, str | int | float)]


def find_name(given: dict[str, object]) -> object:
    return next((given[key] for key in NAME_KEYS if key in given), None)


def read_choice(given: object) -> object:
    """Read "Failure pattern" as failure_pattern."""
    return re.sub(r"[\s-]+", "_", given.strip().lower()) if isinstance(given, str) else given


def read_stance(given: object) -> object:
    choice = "asserted" if given is None else read_choice(given)
    return STANCES.get(choice, choice) if isinstance(choice, str) else choice


def read_optional(given: object) -> object:
    """Read what models write for nothing as None, and a year written as a number as text."""
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    return None if isinstance(given, str) and given.strip().lower() in NO_VALUE else read_text(given)


def require_all(schema: dict[str, Any]) -> None:
    """Make every field required in the schema the model sees; what it leaves out all the same has a default."""
    schema["required"] = list(schema["properties"])
    for field in schema["properties"].values():
        field.pop("default", None)
        field.pop("title", None)


Labels = Annotated[list[str], BeforeValidator(read_labels)]
Moment = Annotated[str | None, BeforeValidator(read_optional)]
Words = Annotated[str, BeforeValidator(read_text)]


class RecordItem(BaseModel):
    """A record as the model writes it; its keys may have the names that models give them instead."""

    model_config = ConfigDict(str_strip_whitespace=True, json_schema_extra=require_all)

    turns: Annotated[list[int], BeforeValidator(read_turn_numbers)] = Field(
        validation_alias=AliasChoices(
            "turns",
            "turn",
            "turn_numbers",
            "turn_ids",
            "evidence",
            "evidence_turns",
            "evidence_turn_range",
            "sources",
        )
    )
    type: Annotated[
        Literal[
            "fact", "preference", "event", "constraint", "procedure", "failure_pattern", "tool_affordance"
        ],
        BeforeValidator(read_choice),
    ] = Field(validation_alias=AliasChoices("type", "memory_type", "record_type", "category", "kind"))
    text: Words = Field(
        validation_alias=AliasChoices(
            "text", "semantic_text", "statement", "content", "memory", "fact", "record"
        )
    )
    entities: Labels = Field([], validation_alias=AliasChoices("entities", "entity", "names"))
    tags: Labels = Field([], validation_alias=AliasChoices("tags", "tag", "topics", "topic", "keywords"))
    speaker: Moment = Field(None, validation_alias=AliasChoices("speaker", "said_by", "source_speaker"))
    stance: Annotated[Literal["asserted", "asked", "supposed"], BeforeValidator(read_stance)] = "asserted"
    t_ref: Moment = Field(None, validation_alias=AliasChoices("t_ref", "date", "time", "when"))
    t_valid_from: Moment = Field(None, validation_alias=AliasChoices("t_valid_from", "valid_from", "from"))
    t_valid_to: Moment = Field(None, validation_alias=AliasChoices("t_valid_to", "valid_to", "to", "until"))

    @model_validator(mode="before")
    @classmethod
    def unfold_times(cls, given: object) -> object:
        """Take times from a nested object, which the paper's own schema has."""
        if isinstance(given, dict) and isinstance(times := given.get("temporal"), dict):
            return {**times, **given}
        return given


def read_items(given: object) -> object:
    """Take a single record for a list of one."""
    return [given] if isinstance(given, dict) else given


def read_note(given: object) -> object:
    if given is None:
        return ""
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


Note = Annotated[Words, BeforeValidator(read_note)]
NOTE_KEYS = AliasChoices(
    "note", "disambiguation", "disambiguation_state", "disambiguation_context", "disambiguation_note"
)
Item = Annotated[JsonValue, WithJsonSchema(RecordItem.model_json_schema())]


class RecordsReply(BaseModel):
    """The encoder's reply: records, each checked by itself later, and the note for the next segment."""

    model_config = ConfigDict(json_schema_extra=require_all)

    records: Annotated[list[Item], BeforeValidator(read_items)] = Field(
        validation_alias=AliasChoices("records", "memories", "memory_records", "statements", "facts", "items")
    )
    note: Note = Field("", validation_alias=NOTE_KEYS)

    @model_validator(mode="before")
    @classmethod
    def name_list(cls, given: object) -> object:
        """Take a bare list for the records."""
        return {"records": given} if isinstance(given, list) else given

    @model_validator(mode="after")
    def require_usable(self) -> Self:
        """Refuse a reply with records none of which can be used: the model is asked again."""
        fault: ValidationError | None = None
        for item in self.records:
            try:
                RecordItem.model_validate(item)
            except ValidationError as error:
                fault = fault or error
            else:
                return self
        if fault is not None:
            where = fault.errors(include_url=False, include_input=False)[0]
            raise ValueError(
                f"no record can be used; the first: {'.'.join(map(str, where['loc']))}: {where['msg']}"
            )
        return self


class SummaryReply(BaseModel):
    """The reply of the ablation with one summary a segment (paper E.2)."""

    model_config = ConfigDict(str_strip_whitespace=True, json_schema_extra=require_all)

    summary: Words
    note: Note = Field("", validation_alias=NOTE_KEYS)


EncoderReply = RecordsReply | SummaryReply
