"""Claude Code's hooks: each records what the transcript holds by then, two of them recall; `scrubjay hook` runs it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from scrubjay.datatypes import NewTurn, Role
from scrubjay.errors import FormatError, NotFoundError
from scrubjay.integrations.earlier import Adding, recall_earlier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrubjay.memory import Memory

START, PROMPT = "SessionStart", "UserPromptSubmit"
RESUMED, COMPACTED = "resume", "compact"  # why a session starts
NOBODY_SAID = (
    "isMeta",
    "isSidechain",
    "isCompactSummary",
)  # marks of entries that are no part of the conversation
COMMANDS = ("<command-", "<local-command-", "<bash-")  # what begins a command's echo
LAST_PROMPTS = 2  # of the session before: what a new one is likely about


class HookInput(BaseModel):
    """What Claude Code tells a hook; it tells more, which is left out."""

    hook_event_name: str
    session_id: str
    transcript_path: Path | None = None
    prompt: str = ""
    source: str = ""


def run_hook(memory: Memory, told: str, *, adding: Adding | None = None) -> str:
    """Record the transcript's new turns, and give what the hook prints: context for the model as JSON, or "".

    Running it again changes nothing. Raise FormatError where the input or the transcript can't be read.
    """
    given = read_input(told)
    if given.transcript_path is not None:
        record_transcript(memory, given.transcript_path, session_id=given.session_id)
    context = recall_for(memory, given, adding or Adding())
    if not context:
        return ""
    shown = {"hookEventName": given.hook_event_name, "additionalContext": context}
    return json.dumps({"hookSpecificOutput": shown})


def read_input(told: str) -> HookInput:
    try:
        return HookInput.model_validate_json(told)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "all of it"
        raise FormatError(
            "standard input",
            entry="hook",
            field=field,
            expected="what Claude Code tells a hook",
            found=first["msg"],
        ) from error


def record_transcript(memory: Memory, path: Path, *, session_id: str) -> int:
    """Store the turns of a transcript that the memory has in no session yet; give how many."""
    turns = [turn for turn in read_transcript(path) if not has_turn(memory, turn.turn_id or "")]
    return memory.add(turns, session_id=session_id).added if turns else 0


def has_turn(memory: Memory, turn_id: str) -> bool:
    try:
        memory.turn(turn_id)
    except NotFoundError:
        return False
    return True


def read_transcript(path: Path) -> Iterator[NewTurn]:
    """Give what user and assistant said to each other; a line that is still being written is read the next time."""
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines() if path.exists() else []
    except OSError as error:
        raise FormatError(
            str(path), entry="transcript", field="file", expected="lines of JSON", found=str(error)
        ) from error
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        turn = turn_of(entry) if isinstance(entry, dict) else None
        if turn is not None:
            yield turn


def turn_of(entry: dict[str, Any]) -> NewTurn | None:
    """Make an entry a turn under the entry's id; None for tool calls, their results, thoughts and commands."""
    message, uuid = entry.get("message"), entry.get("uuid")
    if entry.get("type") not in ("user", "assistant") or any(entry.get(mark) for mark in NOBODY_SAID):
        return None
    if not (isinstance(message, dict) and isinstance(uuid, str) and uuid):
        return None
    text = text_of(message.get("content"))
    if not text or text.startswith(COMMANDS):
        return None
    return NewTurn(
        role=Role(entry["type"]),
        text=text,
        said_at=time_of(entry.get("timestamp")),
        turn_id=f"claude-code:{uuid}",
        metadata={"host": "claude-code", "cwd": str(entry.get("cwd", ""))},
    )


def text_of(content: object) -> str:
    if isinstance(content, str):
        return content.strip()
    blocks = content if isinstance(content, list) else []
    said = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    return "\n".join(text for text in said if isinstance(text, str)).strip()


def time_of(given: object) -> datetime | None:
    """Give an entry's time where it is one, with its zone."""
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.utcoffset() is not None else None


def recall_for(memory: Memory, given: HookInput, adding: Adding) -> str:
    """Recall for a prompt; at a start, for what was asked last, which after a compaction is of this session."""
    if given.hook_event_name == PROMPT:
        return recall_earlier(memory, given.prompt, session_id=given.session_id, adding=adding)
    if given.hook_event_name != START or given.source == RESUMED:
        return ""
    sessions = [session.session_id for session in memory.sessions()]
    compacted = given.source == COMPACTED
    before = [each for each in sessions if (each == given.session_id) is compacted]
    if not before:
        return ""
    said = [turn.text for turn in memory.turns(session_id=before[-1]) if turn.role is Role.USER]
    begun = "" if compacted else given.session_id
    return recall_earlier(memory, "\n".join(said[-LAST_PROMPTS:]), session_id=begun, adding=adding)
