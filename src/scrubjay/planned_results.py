"""What a planned read chose, made into what is shown: records with their reasons, turns as links of a chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.chain import Chain, ChainLink, arrange
from scrubjay.context import RecordItem
from scrubjay.datatypes import ChannelScore, LinkKind
from scrubjay.evidence import RecordLink
from scrubjay.results import rank_scores
from scrubjay.scores import MASK_BITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrubjay.context import Context
    from scrubjay.corpus import Corpus
    from scrubjay.datatypes import Record, Turn
    from scrubjay.planned import Chosen
    from scrubjay.selection import Pick


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChosenRecords:
    """The records chosen, by their rows in the corpus, with the last turn that each was made from."""

    picks: tuple[Pick, ...]
    rows: tuple[int, ...]
    last_turns: tuple[int, ...]  # rows of turns


def chosen_records(chosen: Chosen) -> ChosenRecords:
    records, sources = chosen.candidates.records, chosen.recalled.sources
    picks = tuple(pick for pick in chosen.picks if pick.item < len(records))
    rows = tuple(int(records[pick.item]) for pick in picks)
    return ChosenRecords(picks=picks, rows=rows, last_turns=tuple(int(sources.of(row)[-1]) for row in rows))


def chosen_chain(chosen: Chosen, corpus: Corpus) -> Chain:
    """Give the turns chosen as a chain: what was chosen for itself is an anchor, what stands beside one its neighbour."""
    first = len(chosen.candidates.records)
    scores = chosen.recalled.found[0].scores.channels
    chances = chosen.recalled.chances.max(axis=0)
    seen = 0
    links: list[ChainLink] = []
    for pick in (pick for pick in chosen.picks if pick.item >= first):
        row = int(chosen.candidates.turns[pick.item - first])
        is_anchor = pick.anchor == pick.item
        new = int(scores.covered[row]) & ~seen if is_anchor else 0
        seen |= new
        links.append(
            ChainLink(
                row=row,
                kind=LinkKind.ANCHOR if is_anchor else LinkKind.NEIGHBOUR,
                rank=pick.rank,
                anchor=int(chosen.candidates.turns[pick.anchor - first]),
                relevance=float(chances[row]),
                new_terms=tuple(
                    place for place in range(min(len(scores.idf), MASK_BITS)) if new >> place & 1
                ),
                purpose=pick.purpose,
            )
        )
    return Chain(links=arrange(links, corpus.turns), tokens=0)


def record_items(
    picks: Sequence[Pick], records: Sequence[Record], last_turns: Sequence[Turn]
) -> list[RecordItem]:
    return [
        RecordItem(record=record, said_at=turn.said_at, value=-float(pick.rank))
        for pick, record, turn in zip(picks, records, last_turns, strict=True)
    ]


def make_record_links(
    chosen: Chosen,
    held: ChosenRecords,
    items: Sequence[RecordItem],
    context: Context,
    numbers: Mapping[str, int],
) -> tuple[RecordLink, ...]:
    """Give the records that the context shows, in the order of their numbers, each with its reason."""
    shown = [
        (number, place, tokens)
        for number, (place, tokens) in enumerate(
            zip(context.shown, context.line_tokens, strict=True), start=1
        )
        if place < len(items)
    ]
    channels = record_channels(chosen, [held.rows[place] for _, place, _ in shown])
    return tuple(
        RecordLink(
            number=number,
            record=items[place].record,
            reason=reason_of(held.picks[place], scores),
            rank=held.picks[place].rank,
            score=held.picks[place].gain,
            channels=scores,
            tokens=tokens,
            turns=tuple(numbers[turn_id] for turn_id in items[place].record.turn_ids if turn_id in numbers),
        )
        for (number, place, tokens), scores in zip(shown, channels, strict=True)
    )


def record_channels(chosen: Chosen, rows: Sequence[int]) -> list[dict[str, ChannelScore]]:
    """Give the rank and score of records in each channel that found them, for the route that liked them best."""
    places = np.array(rows, np.intp)
    best: list[dict[str, ChannelScore]] = [{} for _ in rows]
    for channel, scores in (pair for route in chosen.recalled.routes for pair in route.channels.items()):
        ranks = rank_scores(scores.astype(np.float32), places).tolist()
        for found, rank, score in zip(best, ranks, scores[places].tolist(), strict=True):
            if score > (found[channel.value].score if channel.value in found else 0):
                found[channel.value] = ChannelScore(rank=rank, score=score)
    return best


def reason_of(pick: Pick, channels: Mapping[str, ChannelScore]) -> str:
    found = ", ".join(f"{name} #{channel.rank}" for name, channel in channels.items())
    return (
        f"choice {pick.rank}, covers {pick.gain:.2f} turns of evidence anew; found by {found or 'its turns'}"
    )
