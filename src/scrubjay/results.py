"""Rows of turns, as found, made into what is shown: hits, links, excerpts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.context import ContextItem
from scrubjay.datatypes import ChannelScore, Hit, Link, LinkKind, Purpose, RankBy
from scrubjay.scores import relevant_rows
from scrubjay.terms import locate_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from scrubjay.chain import Chain, ChainLink
    from scrubjay.context import Context
    from scrubjay.corpus import Corpus
    from scrubjay.datatypes import TimeRange, Turn
    from scrubjay.question import Question
    from scrubjay.scores import TurnScores
    from scrubjay.settings import ChainSettings

ELLIPSIS_TOKENS = 2  # of the marks of an excerpt
RRF_KAPPA = 60.0  # paper, Table 14


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """All that was found for a question, before it is organised; n turns."""

    question: Question
    time_range: TimeRange | None
    corpus: Corpus
    scores: TurnScores
    best_passage: NDArray[np.intp]  # (n,) the passage of each turn that both channels like best


def rank_scores(values: NDArray[np.float32], rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Give the ranks of some rows among all, from 1; equals share theirs. A sort is far cheaper than an argsort."""
    return len(values) - np.searchsorted(np.sort(values), values[rows], side="right") + 1


def order_rows(found: Found, settings: ChainSettings, *, by: RankBy) -> NDArray[np.intp]:
    """Give rows of turns, best first, by one way of ranking; those that score nothing are left out.

    By relevance, those that a chain would not take are left out too.
    """
    if by is RankBy.RELEVANCE:
        return relevant_rows(found.scores, settings)
    channels = found.scores.channels
    if by is RankBy.FUSED:
        every = np.arange(len(found.corpus.turns))
        fused = sum(
            1 / (RRF_KAPPA + rank_scores(values, every)) for values in (channels.lexical, channels.dense)
        )
        return np.argsort(-np.asarray(fused), kind="stable")
    values = channels.lexical if by is RankBy.LEXICAL else channels.dense
    order = np.argsort(-values, kind="stable")
    return order[values[order] > 0]


def channel_scores(found: Found, rows: Sequence[int]) -> list[dict[str, ChannelScore]]:
    """Give the rank and score of turns in each channel."""
    scores, places = found.scores.channels, np.array(rows, np.intp)
    by_channel = {"lexical": scores.lexical, "dense": scores.dense}
    ranks = {name: rank_scores(values, places).tolist() for name, values in by_channel.items()}
    return [
        {
            name: ChannelScore(rank=ranks[name][n], score=float(values[row]))
            for name, values in by_channel.items()
        }
        for n, row in enumerate(rows)
    ]


def make_hits(found: Found, rows: Sequence[int], turns: Sequence[Turn]) -> tuple[Hit, ...]:
    return tuple(
        Hit(
            turn=turn,
            rank=rank,
            score=float(found.scores.relevance[row]),
            channels=channels,
        )
        for rank, (row, turn, channels) in enumerate(
            zip(rows, turns, channel_scores(found, rows), strict=True), start=1
        )
    )


def find_best_passages(
    lexical: NDArray[np.float32], dense: NDArray[np.float32], turn_of_passage: NDArray[np.int32], turns: int
) -> NDArray[np.intp]:
    """Give of each turn the passage with the best scores together, the first of equals; a turn's lie together."""
    if len(turn_of_passage) == turns:
        return np.arange(turns)
    most = float(lexical.max(initial=0))
    together = (lexical / np.float32(most) if most else lexical) + dense
    first = np.flatnonzero(np.diff(turn_of_passage, prepend=-1))
    best = np.repeat(np.maximum.reduceat(together, first), np.diff(first, append=len(turn_of_passage)))
    places = np.flatnonzero(together == best)[::-1]
    found = np.zeros(turns, np.intp)
    found[turn_of_passage[places]] = places
    return found


def excerpts(found: Found, rows: Sequence[int], *, whole_tokens: int) -> list[tuple[int, int] | None]:
    """Give the characters to show of turns longer than `whole_tokens`, their best passage; None of the others."""
    passages, turns = found.corpus.passages, found.corpus.turns
    shown: list[tuple[int, int] | None] = []
    for row in rows:
        best = found.best_passage[row]
        is_long = turns.tokens[row] > whole_tokens
        shown.append((int(passages.start[best]), int(passages.stop[best])) if is_long else None)
    return shown


def line_costs(found: Found, *, whole_tokens: int) -> NDArray[np.int32]:
    """Give the tokens of each turn's line in a context, (n,), a long turn's as an excerpt."""
    turns = found.corpus.turns
    excerpt = found.corpus.passages.tokens[found.best_passage] + ELLIPSIS_TOKENS
    return np.where(turns.tokens > whole_tokens, np.minimum(excerpt, turns.tokens), turns.tokens)


def chain_items(found: Found, chain: Chain, turns: Sequence[Turn], *, whole_tokens: int) -> list[ContextItem]:
    """Give the turns of a chain as what wants a place in the context, worth most what was chosen first."""
    order = order_sessions(found, chain)
    shown = excerpts(found, [link.row for link in chain.links], whole_tokens=whole_tokens)
    return [
        ContextItem(
            turn=turn,
            session=order[int(found.corpus.turns.session[link.row])],
            value=-link.rank
            - 0.5 * (link.kind is LinkKind.NEIGHBOUR),  # before the next anchor, after its own
            excerpt=excerpt,
            tokens=None if excerpt else int(found.corpus.turns.tokens[link.row]),
        )
        for link, turn, excerpt in zip(chain.links, turns, shown, strict=True)
    ]


def order_sessions(found: Found, chain: Chain) -> dict[int, int]:
    """Put the sessions of a chain in order of their first turn's time; those of unknown time come last."""
    turns = found.corpus.turns
    rows = np.array([link.row for link in chain.links], np.intp)
    said_at, session = np.nan_to_num(turns.said_at[rows], nan=np.inf), turns.session[rows]
    ordered = session[np.lexsort((session, said_at))].tolist()
    return {row: place for place, row in enumerate(dict.fromkeys(ordered))}


def make_links(
    found: Found, chain: Chain, items: Sequence[ContextItem], context: Context, *, records: int = 0
) -> tuple[Link, ...]:
    """Give the links that the context shows, in the order of their numbers, each with its reason.

    So many `records` were given to the context before the turns.
    """
    rendered = [
        (place - records, tokens)
        for place, tokens in zip(context.shown, context.line_tokens, strict=True)
        if place >= records
    ]
    first = 1 + len(context.shown) - len(rendered)
    numbers = {chain.links[place].row: number for number, (place, _) in enumerate(rendered, start=first)}
    channels = channel_scores(found, [chain.links[place].row for place, _ in rendered])
    stands = locate_terms(found.question.text)
    links = []
    for shown, (place, tokens) in enumerate(rendered):
        link, item = chain.links[place], items[place]
        words = words_of(found.question, link.new_terms, stands)
        anchor = numbers.get(link.anchor) if link.kind is LinkKind.NEIGHBOUR else None
        links.append(
            Link(
                number=numbers[link.row],
                turn=item.turn,
                kind=link.kind,
                reason=reason_of(link, words, anchor),
                anchor=anchor,
                rank=link.rank,
                probability=link.relevance,
                channels=channels[shown],
                new_terms=words,
                excerpt=item.excerpt,
                tokens=tokens,
                purpose=link.purpose,
            )
        )
    return tuple(links)


def words_of(
    question: Question, terms: Sequence[int], stands: Mapping[str, tuple[int, int]]
) -> tuple[str, ...]:
    """Give the words of a question that its terms stand for, as they are written there, in its order."""
    spans: list[list[int]] = []
    named = [question.terms[term] for term in terms]
    for start, stop in sorted(stands[term] for term in named if term in stands):
        if spans and start <= spans[-1][1]:  # pairs of characters, a compound and its part
            spans[-1][1] = max(stop, spans[-1][1])
        else:
            spans.append([start, stop])
    written = [question.text[start:stop] for start, stop in spans]
    return tuple(dict.fromkeys(written + [term for term in named if term not in stands]))


def reason_of(link: ChainLink, words: tuple[str, ...], anchor: int | None) -> str:
    """Say in words why a turn is shown, and how likely it is evidence."""
    covers = f", first with {', '.join(words)}" if words else ""
    chance = f"{percent(link.relevance)} likely evidence"
    if link.kind is LinkKind.ANCHOR:
        return f"anchor {link.rank}, {chance}{covers}"
    beside = f"[{anchor}]" if anchor is not None else f"anchor {link.rank}"
    reasons = {
        Purpose.QUESTION: f"the question that {beside} answers",
        Purpose.SUBJECT: f"tells what {beside} is about",
        Purpose.WINDOW: f"beside {beside}",
    }
    return f"{reasons[link.purpose or Purpose.WINDOW]}, {chance}{covers}"


def percent(chance: float) -> str:
    """Write a probability, so that a small one isn't none and a great one isn't certain."""
    shown = 100 * chance
    return f"{shown:.0f} %" if 1 <= shown < 99.5 else "< 1 %" if shown < 1 else "> 99 %"
