"""The ways to ask for JSON: the provider's schema mode, a tool call, or words. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

if TYPE_CHECKING:
    from pydantic_ai.models import Model

Mode = Literal["native", "tool", "prompted"]
MODES: tuple[Mode, ...] = ("native", "tool", "prompted")
"""In the order in which they are tried."""

TOOL_NAME = "reply"
TOOL_DESCRIPTION = "Give the reply."
PROMPTED = (
    "{system}\n\nReply with one JSON object that follows this JSON schema, and with nothing else: "
    "no words around it, no code fence, and data, not the schema.\n{schema}"
)


def offered_modes(model: Model) -> tuple[Mode, ...]:
    """Give the modes that a model is said to offer; the last works with any."""
    lacking = {
        "native": not model.profile.get("supports_json_schema_output", False),
        "tool": not model.profile.get("supports_tools", True),
    }
    return tuple(mode for mode in MODES if not lacking.get(mode, False))


def system_prompt(system: str, output: type[BaseModel | str], mode: Mode | None) -> str:
    if not issubclass(output, BaseModel) or mode != "prompted":
        return system
    schema = json.dumps(output.model_json_schema(), ensure_ascii=False)
    return PROMPTED.format(system=system, schema=schema)


def request_parameters(output: type[BaseModel | str], mode: Mode | None) -> ModelRequestParameters:
    if not issubclass(output, BaseModel) or mode in {None, "prompted"}:
        return ModelRequestParameters(output_mode="text", allow_text_output=True)
    schema = output.model_json_schema()
    if mode == "native":
        output_object = OutputObjectDefinition(json_schema=schema, name=TOOL_NAME)
        return ModelRequestParameters(
            output_mode="native", output_object=output_object, allow_text_output=True
        )
    tool = ToolDefinition(
        name=TOOL_NAME, description=TOOL_DESCRIPTION, parameters_json_schema=schema, kind="output"
    )
    return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)
