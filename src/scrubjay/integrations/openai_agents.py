"""Sessions of the OpenAI Agents SDK in a memory, and a tool to recall from it (extra `openai-agents`)."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from scrubjay.datatypes import NewTurn, Role
from scrubjay.errors import InputError, MissingExtraError, NotFoundError
from scrubjay.formats.messages import CHAT_ROLES
from scrubjay.formats.parts import sort_parts
from scrubjay.integrations.turn_log import session_turns
from scrubjay.telling import tell_evidence

try:
    from agents import FunctionTool, RunContextWrapper, SessionSettings, function_tool
except ImportError as error:
    raise MissingExtraError("openai-agents", extra="openai-agents") from error

if TYPE_CHECKING:
    from agents import TResponseInputItem

    from scrubjay.async_memory import AsyncMemory
    from scrubjay.datatypes import Turn

MARK = "openai_agents"  # under it a turn's metadata hold the whole item


class ScrubJaySession:
    """A session whose items are turns: what was said in it can be recalled, then and in any later session.

    `pop_item` and `clear_session` forget what they take, down to the file's bytes. A session that was written by
    other means goes on as well.
    """

    def __init__(
        self, session_id: str, memory: AsyncMemory, *, session_settings: SessionSettings | None = None
    ) -> None:
        """Take a memory, which stays its giver's to close."""
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._memory = memory

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        settings = self.session_settings
        most = settings.limit if limit is None and settings is not None else limit
        items = [item_of(turn) for turn in await self._memory.run(session_turns, self.session_id)]
        return items if most is None else items[max(len(items) - most, 0) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        now = datetime.now(UTC)
        turns = [turn_of(cast("dict[str, Any]", item), now) for item in items]
        await self._memory.add(turns, session_id=self.session_id)

    async def pop_item(self) -> TResponseInputItem | None:
        turns = await self._memory.run(session_turns, self.session_id)
        if not turns:
            return None
        await self._memory.forget(turn=turns[-1].turn_id)
        return item_of(turns[-1])

    async def clear_session(self) -> None:
        with suppress(NotFoundError):  # it is clear
            await self._memory.forget(session=self.session_id)


def recall_tool(memory: AsyncMemory, *, max_tokens: int | None = None) -> FunctionTool:
    """Make a tool by which an agent recalls what was said in every session."""

    @function_tool(failure_error_function=tell_error)
    async def recall(question: str) -> str:
        """Find what was said in earlier conversations, word for word and with its date.

        Args:
            question: A whole question with the names in it, such as: When did Mira move to Lisbon?

        """
        return tell_evidence(await memory.recall(question, max_tokens=max_tokens))

    return recall


def tell_error(_: RunContextWrapper[Any], error: Exception) -> str:
    """Tell a model what it may mend in its call; raise any other error out of the run."""
    if isinstance(error, InputError):
        return str(error)
    raise error


def turn_of(item: dict[str, Any], now: datetime) -> NewTurn:
    """Make an item a turn: its words to be found, and all of it in the metadata."""
    kind = "tool" if item.get("type") == "function_call_output" else item.get("role", "")
    role = CHAT_ROLES.get(kind, Role.ASSISTANT)
    return NewTurn(role=role, text=text_of(item), said_at=now, metadata={MARK: item})


def text_of(item: dict[str, Any]) -> str:
    if item.get("type") == "function_call":
        return f"{item['name']}({item['arguments']})"
    said = item.get("content") or item.get("output") or item.get("summary") or ""
    texts = sort_parts([said] if isinstance(said, str) else said).texts
    return "\n".join(filter(None, texts)) or f"({item.get('type', 'message')})"


def item_of(turn: Turn) -> TResponseInputItem:
    """Give a turn's item; of a turn that came by other means, a message with its words."""
    role = turn.role.value if turn.role in (Role.USER, Role.SYSTEM) else Role.ASSISTANT.value
    item: Any = turn.metadata.get(MARK) or {"role": role, "content": turn.text or turn.caption or ""}
    return cast("TResponseInputItem", item)
