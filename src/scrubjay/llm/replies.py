"""Read what a model was asked for out of what it wrote: fences, prose, thinking and cut-off ends tolerated. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

if TYPE_CHECKING:
    from collections.abc import Iterator

Output = TypeVar("Output", bound=BaseModel)

THINKING_OPENS = ("<think>", "<thinking>")
THINKING_CLOSES = re.compile(r"</think(?:ing)?>")
STRUCTURE = re.compile(
    r'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.DOTALL
)  # a string, whole or unfinished, or a bracket
JSON_OPENS = re.compile(r'\{\s*(?:"|\}|\Z)|\[\s*(?:[{\["\]]|\Z)')  # not {curly} or [1] of some prose
CLOSING = {"{": "}", "[": "]"}
MOST_STARTS = 64  # places at which JSON is looked for
FAULTS_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Generic[Output]):
    """What could be read of a reply: a value, or what is wrong, to tell the model."""

    value: Output | None
    truncated: bool
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a reply that looks like JSON; not whole where the reply ends before its brackets close."""

    text: str
    whole: bool


def read_reply(text: str, output: type[Output], *, cut_short: bool, longest: int) -> Reading[Output]:
    """Read the last valid value of `output` in a reply; `cut_short` says that the provider met an output limit."""
    if len(text) > longest:
        fault = f"the reply has {len(text):,} characters; at most {longest:,} are read"
        return Reading(value=None, truncated=cut_short, fault=fault)
    answer = without_thinking(text)
    value, fault, ends_early = None, "", False
    for piece in find_json(answer):
        if piece.whole:
            found, wrong = read_value(piece.text, output)
            value, fault = (found or value), (fault or wrong)
        else:
            ends_early = True
            value = value or read_start(piece.text, output)
    if value is not None and not ends_early:
        return Reading(value=value, truncated=False)
    if cut_short or (ends_early and not answer.rstrip(" \n\t`").endswith(tuple(CLOSING.values()))):
        return Reading(value=value, truncated=True, fault="the reply was cut short")
    if ends_early:
        fault = "the JSON's brackets or quotes don't match"
    if not answer.strip():
        fault = "the reply is empty"
    return Reading(value=None, truncated=False, fault=fault or "the reply holds no JSON object")


def without_thinking(text: str) -> str:
    """Leave out what a reasoning model wrote before its answer, in <think> tags or before a lone </think>."""
    rest = text.lstrip()
    while rest.startswith(THINKING_OPENS):
        closing = THINKING_CLOSES.search(rest)
        rest = rest[closing.end() :].lstrip() if closing else ""
    closing = THINKING_CLOSES.search(rest)
    if closing and closing.start() < (rest.find("{") if "{" in rest else len(rest)):
        rest = rest[closing.end() :].lstrip()
    return rest


def find_json(text: str) -> Iterator[Piece]:
    """Give the outermost objects and arrays in a text, from left to right."""
    place = 0
    for _ in range(MOST_STARTS):
        opening = JSON_OPENS.search(text, place)
        if opening is None:
            return
        stop = find_end(text, opening.start())
        yield Piece(text=text[opening.start() : stop], whole=stop is not None)
        if stop is None:
            return
        place = stop


def find_end(text: str, start: int) -> int | None:
    """Give the place after the bracket that closes the one at `start`; None where the text ends before."""
    depth = 0
    for found in STRUCTURE.finditer(text, start):
        sign = found.group()
        depth += (sign in CLOSING) - (sign in CLOSING.values())
        if depth == 0 and sign in CLOSING.values():
            return found.end()
    return None


def read_value(text: str, output: type[Output]) -> tuple[Output | None, str]:
    """Read a value, also from inside a wrapper or an echo of the schema; give what is wrong where it can't be."""
    try:
        data = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        return None, f"the JSON can't be read: {error}"
    if is_schema(data):
        return None, "the reply repeats the schema: reply with data that follows it"
    fault = ""
    for shape in (data, *inner_values(data)):
        try:
            return output.model_validate(shape), ""
        except ValidationError as error:
            fault = fault or describe(error)
    return None, fault


def read_start(text: str, output: type[Output]) -> Output | None:
    """Read what is complete of JSON that ends early, if it makes a value at all."""
    try:
        return output.model_validate(from_json(text, allow_partial=True))
    except ValueError:  # a ValidationError is one
        return None


def is_schema(data: object) -> bool:
    """Tell a schema sent back from data: its properties have types where data has values."""
    if not isinstance(data, dict) or not isinstance(properties := data.get("properties"), dict):
        return False
    return bool(properties) and all(
        isinstance(of, dict) and {"type", "anyOf", "$ref"} & of.keys() for of in properties.values()
    )


def inner_values(data: object) -> Iterator[object]:
    """Give what a model may have wrapped its answer in: a single key, or the schema's own "properties"."""
    if isinstance(data, dict):
        if isinstance(data.get("properties"), dict):
            yield data["properties"]
        if len(data) == 1:
            yield next(iter(data.values()))


def describe(error: ValidationError) -> str:
    """Say in words what the first faults are, without repeating what the model wrote."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    shown = [
        f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: {fault['msg']}"
        for fault in faults[:FAULTS_SHOWN]
    ]
    more = len(faults) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")
