"""Claude Code's hooks: each records what the transcript holds by then, two of them recall; `scrubjay hook` runs it."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay.datatypes import Role
from scrubjay.errors import FormatError
from scrubjay.formats.claude_code import make_turn, read_said
from scrubjay.formats.conversation import ReadingLog
from scrubjay.formats.source import Entry, Source, parse_line
from scrubjay.formats.validation import Untrusted, check_shape
from scrubjay.integrations.earlier import Adding, recall_earlier
from scrubjay.integrations.turn_log import has_turn

if TYPE_CHECKING:
    from scrubjay.datatypes import NewTurn
    from scrubjay.memory import Memory

START, PROMPT = "SessionStart", "UserPromptSubmit"
RESUMED, COMPACTED = "resume", "compact"  # why a session starts
LAST_PROMPTS = 2  # of the session before: what a new one is likely about


class HookInput(Untrusted):
    """What Claude Code tells a hook; it tells more, which is left out."""

    hook_event_name: str
    session_id: str
    transcript_path: str | None = None
    prompt: str = ""
    source: str = ""


def run_hook(memory: Memory, told: str, *, adding: Adding | None = None) -> str:
    """Record the transcript's new turns, and give what the hook prints: context for the model as JSON, or "".

    Running it again changes nothing. Raise FormatError where the input or the transcript can't be read.
    """
    given = read_input(told)
    said = read_transcript(Path(given.transcript_path)) if given.transcript_path is not None else []
    record(memory, said, session_id=given.session_id)
    context = recall_for(memory, given, adding or Adding(), begun=begin(said))
    if not context:
        return ""
    shown = {"hookEventName": given.hook_event_name, "additionalContext": context}
    return json.dumps({"hookSpecificOutput": shown})


def read_input(told: str) -> HookInput:
    entry = Entry(path=Path("standard input"), where="hook")
    value = parse_line(entry, told.encode("utf-8", "surrogatepass"))
    if isinstance(value, FormatError):
        raise value
    return check_shape(HookInput, value, entry=entry)


def record(memory: Memory, said: list[NewTurn], *, session_id: str) -> int:
    """Store what was said after the last turn that the memory has, in whatever session; give how many turns.

    What stands before it and isn't there was forgotten.
    """
    new = list(takewhile(lambda turn: not has_turn(memory, turn.turn_id or ""), reversed(said)))[::-1]
    return memory.add(new, session_id=session_id).added if new else 0


def read_transcript(path: Path) -> list[NewTurn]:
    """Give what was said; a line that is still being written is read the next time."""
    lines = Source(path=path, is_lines=True, document=None)
    try:
        said = [each for _, each in read_said(lines, ReadingLog(skip_bad=True))] if path.exists() else []
    except OSError as error:
        raise FormatError(
            str(path), entry="transcript", field="file", expected="lines of JSON", found=str(error)
        ) from error
    return [make_turn(each, time_of(each.timestamp)) for each in said]


def begin(said: list[NewTurn]) -> datetime | None:
    """Say when the first was said of what stands in a session's context, copies of what it was forked from too."""
    return min((turn.said_at for turn in said if turn.said_at is not None), default=None)


def time_of(given: object) -> datetime | None:
    """Give an entry's time where it is one, with its zone: words are kept without it too."""
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.utcoffset() is not None else None


def recall_for(memory: Memory, given: HookInput, adding: Adding, *, begun: datetime | None = None) -> str:
    """Recall for a prompt; at a start, for what was asked last, which after a compaction is of this session."""
    if given.hook_event_name == PROMPT:
        return recall_earlier(memory, given.prompt, session_id=given.session_id, adding=adding, begun=begun)
    if given.hook_event_name != START or given.source == RESUMED:
        return ""
    sessions = [session.session_id for session in memory.sessions()]
    compacted = given.source == COMPACTED
    before = [each for each in sessions if (each == given.session_id) is compacted]
    if not before:
        return ""
    said = [turn.text for turn in memory.turns(session_id=before[-1]) if turn.role is Role.USER]
    asked = "\n".join(said[-LAST_PROMPTS:])
    if compacted:
        return recall_earlier(memory, asked, session_id="", adding=adding)
    return recall_earlier(memory, asked, session_id=given.session_id, adding=adding, begun=begun)
