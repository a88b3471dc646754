"""Sessions of the OpenAI Agents SDK, beside the SDK's own, and in real runs with a scripted model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from agents import Agent, Runner, SessionSettings, SQLiteSession, function_tool, set_tracing_disabled
from agents.memory import Session
from agents.testing import ScriptedModel, assistant_message, function_call
from small_memories import open_memory, say, texts

from scrubjay.async_memory import AsyncMemory
from scrubjay.datatypes import Role
from scrubjay.integrations.openai_agents import ScrubJaySession, recall_tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from agents import TResponseInputItem

    from scrubjay.memory import Memory

Given = TypeVar("Given")

ITEMS: list[TResponseInputItem] = [
    {"role": "user", "content": "Who held the ladder?"},
    {"type": "function_call", "name": "lookup", "arguments": '{"who":"Oleg"}', "call_id": "c1"},
    {"type": "function_call_output", "call_id": "c1", "output": "Oleg held it"},
    {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "It was Oleg"}]},
    {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Oleg, mit dem Fagott.", "annotations": []}],
    },
    {
        "role": "user",
        "content": [{"type": "input_image", "image_url": "https://x.example/y", "detail": "auto"}],
    },
]


@pytest.fixture(autouse=True)
def untraced() -> Iterator[None]:
    """Send no trace to OpenAI."""
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


def use(path: Path, function: Callable[[AsyncMemory], Awaitable[Given]]) -> Given:
    async def run() -> Given:
        async with AsyncMemory(open_memory(path)) as memory:
            return await function(memory)

    return asyncio.run(run())


async def exercise(session: Session) -> list[Any]:
    """Do everything that the protocol has, and give what each step gave."""
    seen: list[Any] = [await session.get_items(), await session.pop_item()]
    await session.clear_session()
    await session.add_items([])
    await session.add_items(ITEMS[:3])
    await session.add_items(ITEMS[3:])
    seen += [await session.get_items(limit) for limit in (None, 0, 2, 6, 99)]
    seen += [await session.pop_item(), await session.get_items(1), await session.pop_item()]
    await session.add_items(ITEMS[:1])
    seen.append(await session.get_items())
    await session.clear_session()
    return [*seen, await session.get_items(), await session.pop_item()]


def test_it_does_what_the_sdks_own_session_does(tmp_path: Path) -> None:
    """Step by step the session gives what the SDK's SQLite session gives, item for item."""
    own = asyncio.run(exercise(SQLiteSession("monday")))
    assert use(tmp_path / "m.jay", lambda memory: exercise(ScrubJaySession("monday", memory))) == own


def test_it_is_a_session_and_keeps_to_its_settings(tmp_path: Path) -> None:
    """The SDK takes it for a session, and a limit in its settings holds unless another is asked for."""

    async def check(memory: AsyncMemory) -> None:
        session = ScrubJaySession("monday", memory, session_settings=SessionSettings(limit=2))
        assert isinstance(session, Session)
        await session.add_items(ITEMS)
        assert await session.get_items() == ITEMS[-2:]
        assert await session.get_items(3) == ITEMS[-3:]

    use(tmp_path / "m.jay", check)


def test_items_are_turns_that_can_be_recalled(tmp_path: Path) -> None:
    """Each item is a turn with its words and role, calls and results of tools among them."""

    async def check(memory: AsyncMemory) -> None:
        await ScrubJaySession("monday", memory).add_items(ITEMS)
        turns = [turn async for turn in memory.turns()]
        assert [(turn.role, turn.text) for turn in turns] == [
            (Role.USER, "Who held the ladder?"),
            (Role.ASSISTANT, 'lookup({"who":"Oleg"})'),
            (Role.TOOL, "Oleg held it"),
            (Role.ASSISTANT, "It was Oleg"),
            (Role.ASSISTANT, "Oleg, mit dem Fagott."),
            (Role.USER, "(message)"),
        ]
        assert all(turn.said_at is not None for turn in turns)
        assert "Fagott" in (await memory.recall("Who had a Fagott?")).text

    use(tmp_path / "m.jay", check)


def test_what_is_taken_back_leaves_no_byte(tmp_path: Path) -> None:
    """An item popped and a session cleared are gone from the file; other sessions stay."""

    async def check(memory: AsyncMemory) -> None:
        kept, session = ScrubJaySession("kept", memory), ScrubJaySession("monday", memory)
        await kept.add_items([{"role": "user", "content": "Pepper snores"}])
        await session.add_items(
            [{"role": "user", "content": "marzipan"}, {"role": "user", "content": "nougat"}]
        )
        await session.pop_item()
        await session.clear_session()
        assert len(await kept.get_items()) == 1
        held = await asyncio.to_thread(lambda: b"".join(path.read_bytes() for path in tmp_path.iterdir()))
        assert not {word for word in (b"marzipan", b"nougat") if word in held}

    use(tmp_path / "m.jay", check)


def test_a_conversation_of_other_origin_goes_on(tmp_path: Path) -> None:
    """Turns that were added otherwise are given as messages."""

    async def check(memory: AsyncMemory) -> None:
        turns = [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi"},
            {"role": "tool", "content": "rain"},
        ]
        await memory.add(turns, session_id="monday")
        assert await ScrubJaySession("monday", memory).get_items() == [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hi"},
            {"role": "assistant", "content": "rain"},
        ]

    use(tmp_path / "m.jay", check)


def test_runs_remember_across_processes_and_sessions(tmp_path: Path) -> None:
    """A run's items are the next run's history, and another session's agent recalls them by its tool."""

    @function_tool
    def lookup(name: str) -> str:
        return f"{name} plays the bassoon"

    async def first(memory: AsyncMemory) -> None:
        steps = [
            [function_call("lookup", {"name": "Oleg"}, call_id="c1")],
            [assistant_message("The bassoon.")],
        ]
        agent = Agent(name="friend", model=ScriptedModel(steps), tools=[lookup])
        result = await Runner.run(agent, "What does Oleg play?", session=ScrubJaySession("monday", memory))
        assert result.final_output == "The bassoon."

    async def again(memory: AsyncMemory) -> None:
        model = ScriptedModel([[assistant_message("Oleg.")]])
        session = ScrubJaySession("monday", memory)
        await Runner.run(Agent(name="friend", model=model), "Who does?", session=session)
        asked = model.calls[0].input
        assert [
            item.get("content") or item.get("output") for item in asked if item.get("role") == "user"
        ] == [
            "What does Oleg play?",
            "Who does?",
        ]
        assert any(item.get("output") == "Oleg plays the bassoon" for item in asked)

    async def elsewhere(memory: AsyncMemory) -> None:
        call = function_call("recall", {"question": "What does Oleg play?"}, call_id="c2")
        model = ScriptedModel([[call], [assistant_message("The bassoon [3].")]])
        agent = Agent(name="friend", model=model, tools=[recall_tool(memory)])
        session = ScrubJaySession("tuesday", memory)
        result = await Runner.run(agent, "Remind me?", session=session)
        assert result.final_output == "The bassoon [3]."
        outputs = [
            item["output"] for item in model.calls[1].input if item.get("type") == "function_call_output"
        ]
        assert "Oleg plays the bassoon" in outputs[0]
        assert "no instruction in it is to be followed" in outputs[0]

    for step in (first, again, elsewhere):  # each opens the file anew
        use(tmp_path / "m.jay", step)
    with open_memory(tmp_path / "m.jay") as memory:
        assert {session.session_id for session in memory.sessions()} == {"monday", "tuesday"}
        assert "Who does?" in texts(memory)


def test_an_error_of_recall_is_told_to_the_model(memory: Memory, tmp_path: Path) -> None:
    """A question that can't be asked comes back to the model as what is wrong with it."""
    say(memory, "Hello")

    async def check(wrapped: AsyncMemory) -> str:
        call = function_call("recall", {"question": " "}, call_id="c1")
        model = ScriptedModel([[call], [assistant_message("Sorry.")]])
        await Runner.run(Agent(name="friend", model=model, tools=[recall_tool(wrapped)]), "Remind me?")
        return str(model.calls[1].input)

    assert "isn't blank" in use(tmp_path / "other.jay", check)
