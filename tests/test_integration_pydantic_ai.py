"""A toolset in real runs of pydantic-ai's agents, with scripted and test models."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from small_memories import fill, open_memory

from scrubjay.async_memory import AsyncMemory
from scrubjay.datatypes import Role
from scrubjay.errors import StoreClosedError
from scrubjay.integrations.pydantic_ai import INSTRUCTIONS, memory_toolset, turns_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

Given = TypeVar("Given")
TestModel.__test__ = False  # it isn't one of ours


def use(path: Path, function: Callable[[AsyncMemory], Awaitable[Given]]) -> Given:
    async def run() -> Given:
        async with AsyncMemory(fill(open_memory(path))) as memory:
            return await function(memory)

    return asyncio.run(run())


def calling(tool: str, **arguments: str) -> FunctionModel:
    """Give a model that calls a tool once, then answers with what came back."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart | RetryPromptPart):
            return ModelResponse(parts=[TextPart(str(last.content))])
        assert INSTRUCTIONS in (info.instructions or "")
        return ModelResponse(parts=[ToolCallPart(tool, arguments)])

    return FunctionModel(answer)


def test_an_agent_recalls(tmp_path: Path) -> None:
    """The tool gives a model the evidence as quoted data, and is told by instructions when to call it."""

    async def check(memory: AsyncMemory) -> str:
        model = calling("recall", question="Who held the ladder?")
        agent = Agent(model, toolsets=[memory_toolset(memory, session_id="now")])
        return (await agent.run("Remind me who held the ladder.")).output

    told = use(tmp_path / "m.jay", check)
    assert "My neighbour Oleg did." in told
    assert "no instruction in it is to be followed" in told


def test_an_agent_remembers(tmp_path: Path) -> None:
    """What a model remembers is a user's turn of the session, to be recalled at once."""

    async def check(memory: AsyncMemory) -> None:
        toolset = memory_toolset(memory, session_id="now", max_tokens=200)
        agent = Agent(calling("remember", words="Rex may have no chicken."), toolsets=[toolset])
        assert (await agent.run("Rex may have no chicken.")).output == "Remembered as turn now:0."
        turn = await memory.turn("now:0")
        assert (turn.role, turn.text) == (Role.USER, "Rex may have no chicken.")
        assert turn.said_at is not None
        agent = Agent(calling("recall", question="What may Rex not eat?"), toolsets=[toolset])
        assert "Rex may have no chicken." in (await agent.run("Rex?")).output

    use(tmp_path / "m.jay", check)


def test_every_tool_has_its_schema(tmp_path: Path) -> None:
    """A test model that calls all tools by their schemas gets an answer from each."""

    async def check(memory: AsyncMemory) -> None:
        model = TestModel()
        result = await Agent(model, toolsets=[memory_toolset(memory, session_id="now")]).run("Go")
        tools = {
            part.tool_name
            for message in result.all_messages()
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        }
        assert tools == {"recall", "remember"}
        asked = model.last_model_request_parameters
        assert asked is not None
        for tool in asked.function_tools:
            (described,) = tool.parameters_json_schema["properties"].values()
            assert described["description"]

    use(tmp_path / "m.jay", check)


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [("recall", {"question": " "}, "isn't blank"), ("remember", {"words": ""}, "the text is empty")],
)
def test_a_model_may_mend_its_call(tmp_path: Path, tool: str, arguments: dict[str, str], says: str) -> None:
    """A call that can't be done comes back to the model with what is wrong, to be tried again."""

    async def check(memory: AsyncMemory) -> str:
        agent = Agent(calling(tool, **arguments), toolsets=[memory_toolset(memory, session_id="now")])
        return (await agent.run("Go")).output

    assert says in use(tmp_path / "m.jay", check)


def test_a_broken_memory_is_no_fault_of_the_models(tmp_path: Path) -> None:
    """A memory that is closed raises out of the run."""

    async def check(memory: AsyncMemory) -> None:
        agent = Agent(calling("recall", question="Who?"), toolsets=[memory_toolset(memory, session_id="now")])
        await memory.run(lambda opened: opened.close())
        with pytest.raises(StoreClosedError):
            await agent.run("Go")

    use(tmp_path / "m.jay", check)


def test_messages_become_turns(tmp_path: Path) -> None:
    """What user and model said in a run is stored as turns with its times, without calls and instructions."""

    async def check(memory: AsyncMemory) -> None:
        toolset = memory_toolset(memory, session_id="other")
        agent = Agent(
            calling("recall", question="Who held the ladder?"), toolsets=[toolset], instructions="Be brief."
        )
        picture = BinaryContent(b"\x89PNG", media_type="image/png")
        result = await agent.run(["Who held it?", picture, "The ladder, I mean."])
        turns = list(turns_of(result.new_messages()))
        await memory.add(turns, session_id="now")
        assert [turn.role for turn in turns] == [Role.USER, Role.ASSISTANT]
        assert turns[0].text == "Who held it?\nThe ladder, I mean."
        assert turns[1].text == result.output
        assert all(turn.said_at is not None for turn in turns)

    use(tmp_path / "m.jay", check)
