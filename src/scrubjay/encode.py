"""WRITE: a segment becomes typed, self-contained records by one model call (LycheeMemory V2, 3.3 and C.2).

Pure, but for asking the model it is given.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

from scrubjay.datatypes import Encoding, ReferenceContext, Role, Usage
from scrubjay.encoder_records import Shown, ShownTurn, make_summary, read_items
from scrubjay.encoder_reply import RecordsReply, SummaryReply
from scrubjay.errors import ModelError, ModelReplyError
from scrubjay.llm import ChatRequest, add_usage
from scrubjay.passages import cut_places
from scrubjay.prompts import load_prompt
from scrubjay.quoting import CONTINUED, LINE_BREAK, WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from scrubjay.datatypes import Record, Turn
    from scrubjay.encoder_reply import EncoderReply
    from scrubjay.llm import ChatModel, Completion
    from scrubjay.settings import EncoderSettings

STAGE = "encode"
RECALLED = re.compile(r"<\s*(/?)\s*scrubjay\s*>", re.IGNORECASE)  # the markers context.py sets
OUR_TAGS = re.compile(r"<(?=\s*/?\s*(?:turns|reference)\b)", re.IGNORECASE)
ROUGH_TOKEN = re.compile(
    r"[\u0e00-\u0eff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff]|[^\s\u2e80-\u9fff\uac00-\ud7ff]{1,4}"
)
UNKNOWN_DAY = "unknown day"
VERSION_BYTES = 4
NOTHING_SPENT = Usage(stage=STAGE, model="", calls=0, input_tokens=0, output_tokens=0)


def encode_turns(
    turns: Sequence[Turn], *, model: ChatModel, reference: ReferenceContext, settings: EncoderSettings
) -> Encoding:
    """Encode a segment: one call, but more for an oversized turn, or where a reply is cut short.

    Raise what the model raises, and ModelReplyError where even the shortest piece gets no whole reply; what was
    spent until then is in the error's `usage`.
    """
    batches = split_oversized(turns, settings)
    return encode_parts(batches, model=model, reference=reference, settings=settings, spent=NOTHING_SPENT)


def encode_parts(
    parts: Sequence[Sequence[Turn]],
    *,
    model: ChatModel,
    reference: ReferenceContext,
    settings: EncoderSettings,
    spent: Usage,
) -> Encoding:
    """Encode parts of a segment one after the other, each with what the ones before it gave to refer to."""
    encoding = Encoding(records=(), note=reference.note, dropped=(), usage=spent)
    for part in parts:
        so_far = continue_reference(reference, encoding)
        try:
            found = encode_part(part, model=model, reference=so_far, settings=settings)
        except ModelError as error:
            error.usage = add_usage(encoding.usage, error.usage)
            raise
        encoding = join_encodings(encoding, found)
    return encoding


def encode_part(
    turns: Sequence[Turn], *, model: ChatModel, reference: ReferenceContext, settings: EncoderSettings
) -> Encoding:
    """Encode turns with one call, and again in halves where the reply is cut short."""
    request = build_request(turns, reference=reference, settings=settings)
    if request is None:
        return Encoding(records=(), note=reference.note, dropped=(), usage=NOTHING_SPENT)
    completion: Completion[EncoderReply] = model.complete(request, reply_model(settings))
    if not completion.truncated and completion.value is not None:
        reply, spent = completion.value, completion.usage
        encoding = read_reply(reply, turns, reference=reference, usage=spent, settings=settings)
        if (
            encoding.dropped and not encoding.records
        ):  # that is a failure, not a segment with nothing to remember
            raise ModelReplyError(f"{model.name}: no record can be used; {encoding.dropped[0]}", usage=spent)
        return encoding
    halves = halve(turns, settings)
    if not halves:
        fault = "the reply was cut short, and what was asked is too short to halve"
        raise ModelReplyError(f"{model.name}: {fault}", usage=completion.usage)
    return encode_parts(halves, model=model, reference=reference, settings=settings, spent=completion.usage)


def reply_model(settings: EncoderSettings) -> type[RecordsReply | SummaryReply]:
    return SummaryReply if settings.summaries else RecordsReply


def prompt_name(settings: EncoderSettings) -> str:
    return "encode_summary" if settings.summaries else "encode"


def prompt_version(settings: EncoderSettings) -> str:
    """Name what the model is asked, so that records made by another prompt can be told apart."""
    schema = json.dumps(reply_model(settings).model_json_schema(), sort_keys=True)
    asked = f"{load_prompt(prompt_name(settings))}\n{schema}"
    return f"{prompt_name(settings)}-{blake2b(asked.encode(), digest_size=VERSION_BYTES).hexdigest()}"


def build_request(
    turns: Sequence[Turn], *, reference: ReferenceContext, settings: EncoderSettings
) -> ChatRequest | None:
    """Put a segment to the model; None where no turn says anything that could become a record."""
    shown = show_turns(turns)
    if not shown:
        return None
    context = render_reference(reference, settings)
    return ChatRequest(
        stage=STAGE,
        system=load_prompt(prompt_name(settings)),
        user=f"{context}<turns>\n{render_turns(shown)}\n</turns>",
        max_output_tokens=settings.max_output_tokens,
        turn_ids=tuple(turn.turn_id for turn in turns),
    )


def show_turns(turns: Sequence[Turn]) -> list[ShownTurn]:
    """Give the turns with their numbers, from 1; the system's instructions and recalled memory are nothing anybody told."""
    shown = [
        ShownTurn(number=number, turn=turn, words=cut_recalled(turn.text).strip())
        for number, turn in enumerate(turns, start=1)
        if turn.role is not Role.SYSTEM
    ]
    return [one for one in shown if one.words or one.turn.caption]


def cut_recalled(text: str) -> str:
    """Cut out what stands between the markers of recalled memory, or after one that begins a context cut short."""
    kept: list[str] = []
    place, opened = 0, None
    for marker in RECALLED.finditer(text):
        if marker[1] and opened is not None:
            place, opened = marker.end(), None
        elif not marker[1] and opened is None:
            kept.append(text[place : marker.start()])
            opened = marker
    if opened is None:
        kept.append(text[place:])
    elif not LINE_BREAK.match(text, opened.end()):
        kept.append(text[opened.start() :])  # somebody only wrote the word
    return "".join(kept)


def render_turns(shown: Sequence[ShownTurn]) -> str:
    lines: list[str] = []
    last_day = ""
    for one in shown:
        if (day := day_line(one.turn.said_at)) != last_day:
            lines.append(day)
            last_day = day
        who = f"{one.turn.role.value}, {one.turn.speaker}" if one.turn.speaker else one.turn.role.value
        image = f"[image: {one.turn.caption}]" if one.turn.caption else ""
        words = " ".join(part for part in (one.words, image) if part)
        lines.append(quote(f"[{one.number}] {LINE_BREAK.sub(' ', who)}: {words}"))
    return "\n".join(lines)


def day_line(said_at: datetime | None) -> str:
    """Give the day in the turn's own time zone, with its weekday, which "last Friday" needs."""
    return f"# {UNKNOWN_DAY}" if said_at is None else f"# {said_at.date()}, {WEEKDAYS[said_at.weekday()]}"


def quote(words: str) -> str:
    """Keep stored words from ending the quotation or posing as a line of ours."""
    return LINE_BREAK.sub(CONTINUED, OUR_TAGS.sub("&lt;", words))


def render_reference(reference: ReferenceContext, settings: EncoderSettings) -> str:
    """Give the note, then as many of the latest records as fit, in their order (Table 11)."""
    if not settings.use_reference:
        return ""
    note = quote(reference.note[: settings.note_characters].strip())
    lines: list[str] = []
    left = settings.reference_characters - len(note)
    for text in reversed(reference.records[-settings.reference_records :]):
        line = quote(f"- {text}")
        left -= len(line) + 1
        if left < 0:
            break
        lines.insert(0, line)
    said = "\n".join([note, *lines] if note else lines)
    return f"<reference>\n{said}\n</reference>\n" if said else ""


def split_oversized(turns: Sequence[Turn], settings: EncoderSettings) -> list[list[Turn]]:
    """Give the turns as one batch, but an oversized turn in pieces, a batch each; every piece keeps its id (C.1)."""
    batches: list[list[Turn]] = [[]]
    for turn in turns:
        pieces = split_text(turn, settings.piece_tokens) if turn.role is not Role.SYSTEM else [turn]
        if len(pieces) == 1:
            batches[-1].append(turn)
        else:
            batches.extend([piece] for piece in pieces)
            batches.append([])
    return [batch for batch in batches if batch]


def split_text(turn: Turn, most_tokens: int) -> list[Turn]:
    """Cut a turn's text, recalled memory left out, where sentences end; its tokens are only estimated."""
    text = cut_recalled(turn.text) if len(turn.text) > most_tokens else turn.text
    starts = [found.start() for found in ROUGH_TOKEN.finditer(text)] if len(text) > most_tokens else []
    if len(starts) <= most_tokens:
        return [turn]
    cuts = [0, *cut_places(text, starts, most_tokens=most_tokens), len(text)]
    return [replace(turn, text=text[start:stop]) for start, stop in pairwise(cuts)]


def halve(turns: Sequence[Turn], settings: EncoderSettings) -> list[Sequence[Turn]]:
    """Give two halves of a batch, of its only turn's text if need be; nothing where that is too short."""
    middle = len(turns) // 2
    if middle:
        return [turns[:middle], turns[middle:]]
    if len(turns[0].text) <= settings.shortest_piece:
        return []
    tokens = sum(1 for _ in ROUGH_TOKEN.finditer(turns[0].text))
    pieces = split_text(turns[0], (tokens + 1) // 2)
    return [[piece] for piece in pieces] if len(pieces) > 1 else []


def continue_reference(reference: ReferenceContext, encoding: Encoding) -> ReferenceContext:
    """Give what may be referred to after a part of the segment is encoded."""
    texts = tuple(record.text for record in encoding.records)
    return ReferenceContext(note=encoding.note or reference.note, records=(*reference.records, *texts))


def join_encodings(first: Encoding, second: Encoding) -> Encoding:
    """Put two parts of a segment together; what both say counts once, with the turns of both."""
    return Encoding(
        records=merge_repeated((*first.records, *second.records)),
        note=second.note or first.note,
        dropped=(*first.dropped, *second.dropped),
        usage=add_usage(first.usage, second.usage) or first.usage,
    )


def merge_repeated(records: Iterable[Record]) -> tuple[Record, ...]:
    """Merge records with one id: the first gets the provenance of the others, and their support if it has none."""
    merged: dict[str, Record] = {}
    for record in records:
        first = merged.setdefault(record.record_id, record)
        turn_ids = tuple(dict.fromkeys((*first.turn_ids, *record.turn_ids)))
        support = first.support if first.support.supported else record.support
        merged[record.record_id] = replace(first, turn_ids=turn_ids, support=support)
    return tuple(merged.values())


def read_reply(
    reply: EncoderReply,
    turns: Sequence[Turn],
    *,
    reference: ReferenceContext,
    usage: Usage,
    settings: EncoderSettings,
) -> Encoding:
    """Make records of a reply, item by item: a bad one is left out and its reason kept, the good ones stay."""
    shown = Shown(turns=tuple(show_turns(turns)), reference=reference, settings=settings)
    dropped: list[str] = []
    if isinstance(reply, SummaryReply):
        records = make_summary(reply.summary, shown)
    else:
        records, dropped = read_items(reply.records, shown)
    return Encoding(
        records=merge_repeated(records),
        note=reply.note[: settings.note_characters].strip(),
        dropped=tuple(dropped),
        usage=usage,
    )
