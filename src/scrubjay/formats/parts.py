"""Join the parts of a chat message (texts, images, tool calls) to what one turn can hold."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrubjay.datatypes import JsonValue, Role

if TYPE_CHECKING:
    from collections.abc import Sequence

TEXT_KEYS = ("text", "refusal", "transcript")  # where a part keeps words that were said
ALT_KEYS = ("alt", "alt_text", "caption", "description")
# A model's own notes: nobody said them.
HIDDEN_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning"})
CALL_TYPES = frozenset({"tool_use", "tool_call", "function_call", "server_tool_use"})


@dataclass(slots=True, kw_only=True)
class Parts:
    """The parts of one message, sorted by what becomes of them."""

    texts: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)  # what a tool gave back
    calls: list[JsonValue] = field(default_factory=list)
    alts: list[str] = field(default_factory=list)  # what images show, where the file says it
    attachments: list[str] = field(default_factory=list)  # kinds or names of what isn't text


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What a turn says."""

    role: Role
    text: str
    caption: str | None
    metadata: dict[str, JsonValue]


def sort_parts(content: Sequence[JsonValue]) -> Parts:
    """Sort a message's parts; a part of a kind not known is remembered by its kind."""
    parts = Parts()
    for part in content:
        if isinstance(part, str):
            parts.texts.append(part)
        elif isinstance(part, dict):
            _sort_part(part, parts)
    return parts


def _sort_part(part: dict[str, JsonValue], parts: Parts) -> None:
    kind = part.get("type")
    name = kind if isinstance(kind, str) else "part"
    if name in HIDDEN_TYPES:
        return
    if name in CALL_TYPES:
        parts.calls.append({key: part[key] for key in ("name", "input", "arguments") if key in part})
    elif name.endswith("tool_result"):
        result = part.get("content")
        inner = sort_parts(
            [result] if isinstance(result, str) else result if isinstance(result, list) else []
        )
        parts.results.extend(inner.texts)
    elif texts := [text for key in TEXT_KEYS if isinstance(text := part.get(key), str)]:
        parts.texts.extend(texts)
    else:
        parts.attachments.append(name)
        parts.alts.extend(_alts(part))


def _alts(part: dict[str, JsonValue]) -> list[str]:
    image = part.get("image_url")
    holders = [part, image] if isinstance(image, dict) else [part]
    return [
        alt
        for holder in holders
        for key in ALT_KEYS
        if isinstance(alt := holder.get(key), str) and alt.strip()
    ]


def make_body(parts: Parts, role: Role) -> Body | None:
    """Make one turn's body: words first, or else a tool's, or else a caption; None where nothing is said.

    A message that is only calls or only results of tools becomes a tool's turn, calls as JSON. An image becomes a
    caption where the file describes it, or where there is nothing else to keep the turn by.
    """
    text = join_texts(parts.texts)
    metadata: dict[str, JsonValue] = {}
    if text:
        beside = {"tool_calls": parts.calls, "tool_results": list[JsonValue](parts.results)}
        metadata.update({name: values for name, values in beside.items() if values})
    elif parts.calls or parts.results:
        role = Role.TOOL
        calls = [json.dumps(parts.calls, ensure_ascii=False)] if parts.calls else []
        text = join_texts([*parts.results, *calls])
    if parts.attachments:
        metadata["attachments"] = list[JsonValue](parts.attachments)
    caption = "; ".join(parts.alts) or None
    if not text and caption is None:
        if not parts.attachments:
            return None
        caption = "; ".join(f"[{name}]" for name in parts.attachments)
    return Body(role=role, text=text, caption=caption, metadata=metadata)


def join_texts(texts: Sequence[str]) -> str:
    """Join texts as paragraphs; a single one stays exactly as it was written."""
    return "\n\n".join(text for text in texts if text.strip())
