"""READ: how likely each turn is evidence for a question.

Two channels find turns: words (BM25) and vectors (cosine). Around them stand softer signals: what the neighbours and the session
say, who speaks, what the question's small words ask for. Their weighted sum is the log-odds that a turn is evidence. All turns are
scored on the channels; a pool of the best is looked at closely.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from scrubjay.cues import FLAG_QUESTION, FLAG_TIME, turn_flags
from scrubjay.datatypes import ROLES, Role
from scrubjay.scores import MASK_BITS, Channels, TurnScores, pack, unpack
from scrubjay.settings import RelevanceWeights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scrubjay.datatypes import TurnTable
    from scrubjay.lexical import LexicalMatch
    from scrubjay.question import Question
    from scrubjay.settings import RelevanceSettings

    Floats = NDArray[np.float32]
    Masks = NDArray[np.uint64]
    Rows = NDArray[np.intp]
    Signals = dict[str, NDArray[Any]]  # numbers and truths, a value a turn of the pool

__all__ = ["SIGNALS", "read_channels", "score_turns", "turn_flags", "turn_signals"]

Column = TypeVar("Column", bound=np.generic)
Real = TypeVar("Real", np.float32, np.float64)

SIGNALS = tuple(weight.name for weight in fields(RelevanceWeights))
"""The columns of `turn_signals`; settings.RelevanceWeights says what each is."""

weights_of = attrgetter(*SIGNALS)

SECONDS_A_DAY = 86_400
TINY = 1e-9
MACHINES = tuple(ROLES.index(role) for role in (Role.ASSISTANT, Role.TOOL, Role.SYSTEM))


def read_channels(
    question: Question, match: LexicalMatch, cosines: Floats, turn_of_passage: NDArray[np.int32]
) -> Channels:
    """Give each turn the scores of its best passage; the passages of a turn must follow each other, turns in order."""
    covered, lexical, dense = match.covered, match.scores, cosines
    if len(turn_of_passage) and int(turn_of_passage[-1]) + 1 < len(turn_of_passage):
        starts = np.flatnonzero(np.diff(turn_of_passage, prepend=-1))
        covered = np.bitwise_or.reduceat(covered, starts)
        lexical = np.maximum.reduceat(lexical, starts)
        dense = np.maximum.reduceat(dense, starts)
    return Channels(lexical=lexical, dense=dense, covered=covered, idf=match.idf * question.weights)


def score_turns(
    question: Question,
    table: TurnTable,
    channels: Channels,
    settings: RelevanceSettings,
    *,
    allowed: NDArray[np.bool_] | None = None,
) -> TurnScores:
    """Score every turn; those not `allowed` get 0 and stay out of the order."""
    pool = choose_pool(table, channels, settings, allowed=allowed)
    signals = turn_signals(question, table, channels, pool, settings)
    among = len(table) if allowed is None else int(np.count_nonzero(allowed))
    return rank_pool(pool, weigh_signals(signals, settings, among=among), channels, settings)


def weigh_signals(
    signals: NDArray[np.float64], settings: RelevanceSettings, *, among: int
) -> NDArray[np.float64]:
    """Return the log-odds that each turn of a pool is evidence, were it the only one that looks so.

    A turn taken from `among` many is the less likely the one that was meant: its odds are shared out over them.
    """
    log_odds = weighted_sum(signals, np.array(weights_of(settings.weights))) + settings.bias
    shared_out: NDArray[np.float64] = log_odds - np.log(max(among, settings.fewest_turns))
    return shared_out


def share_odds(log_odds: NDArray[np.float64], settings: RelevanceSettings) -> NDArray[np.float64]:
    """Return the log-odds of turns that rival each other: where many look like evidence, most of them aren't.

    Part of the logarithm of their summed odds, and of 1 for there being no evidence, is taken from each, so that
    the odds of all turns of a question change alike, never their order.
    """
    rivals = float(np.logaddexp.reduce(log_odds, initial=0.0))
    return log_odds - settings.rivalry * rivals


def rank_pool(
    pool: Rows, log_odds: NDArray[np.float64], channels: Channels, settings: RelevanceSettings
) -> TurnScores:
    """Order the turns of a pool, the most likely first; all others score 0."""
    relevance = np.zeros(len(channels.lexical), np.float32)
    relevance[pool] = logistic(share_odds(log_odds, settings))
    order = pool[np.lexsort((pool, -log_odds))]
    promise = float(logistic(log_odds.max(initial=-np.inf)))
    return TurnScores(relevance=relevance, order=order, promise=promise, channels=channels)


def logistic(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-log_odds))


def choose_pool(
    table: TurnTable,
    channels: Channels,
    settings: RelevanceSettings,
    *,
    allowed: NDArray[np.bool_] | None = None,
) -> Rows:
    """Return the rows that both channels and the neighbours rank highest, rising."""
    rows = np.arange(len(table)) if allowed is None else np.flatnonzero(allowed)
    if len(rows) <= settings.pool:
        return rows
    mixed = mix_channels(channels, settings)
    mixed = mixed + settings.neighbour_share * (at(mixed, table.previous) + at(mixed, table.following))
    best = np.argpartition(-mixed[rows], settings.pool)[: settings.pool]
    return np.sort(rows[best])


def turn_signals(
    question: Question, table: TurnTable, channels: Channels, pool: Rows, settings: RelevanceSettings
) -> NDArray[np.float64]:
    """Return the signals of the turns in `pool`, a column for each of SIGNALS."""
    mixed = mix_channels(channels, settings)
    signals = {
        **channel_signals(channels, pool),
        **neighbour_signals(table, channels, pool, mixed, settings),
        **session_signals(table, channels, pool, mixed),
        **speaker_signals(question, table, channels, pool, mixed),
        **turn_own_signals(question, table, pool, settings),
    }
    return np.column_stack([signals[name].astype(np.float64) for name in SIGNALS])


def channel_signals(channels: Channels, pool: Rows) -> Signals:
    cosines = channels.dense
    spread = float(cosines.std()) if len(cosines) else 0.0
    return {
        "lexical": unit(channels.lexical)[pool],
        "lexical_mass": channels.lexical[pool] / np.float32(max(float(channels.idf.sum()), TINY)),
        "dense": unit(cosines)[pool],
        "dense_standout": (cosines[pool] - cosines.mean() if spread else cosines[pool] * 0)
        / max(spread, TINY),
    }


def neighbour_signals(
    table: TurnTable, channels: Channels, pool: Rows, mixed: Floats, settings: RelevanceSettings
) -> Signals:
    """Say what stands around each turn: an answer often has its question's words in the turn before.

    Where one alone speaks, as in notes, nobody answers anybody: what stands around says nothing of one turn more than of
    another, and each has the mean of its session.
    """
    before, after = table.previous[pool], table.following[pool]
    shortness = np.minimum(1, settings.short_turn / np.maximum(at(table.tokens, before), 1))
    window = channels.covered[pool] | at(channels.covered, before) | at(channels.covered, after)
    signals: Signals = {
        "previous_short": at(mixed, before) * shortness.astype(np.float32),
        "following_lexical": at(unit(channels.lexical), after),
        "previous_second": at(mixed, at(table.previous, before, missing=-1)),
        "following_second": at(mixed, at(table.following, after, missing=-1)),
        "window_covered": covered_share(window, channels.idf),
    }
    alone = speaks_alone(table)[table.session[pool]]
    if not alone.any():
        return signals
    return {name: level_sessions(values, table.session[pool], alone) for name, values in signals.items()}


def speaks_alone(table: TurnTable) -> NDArray[np.bool_]:
    """Tell of each session whether a single one speaks in it."""
    voice = table.speaker.astype(np.int64) * len(ROLES) + table.role
    changes = (table.previous >= 0) & (voice != at(voice, table.previous))
    alone = np.ones(int(table.session.max(initial=0)) + 1, np.bool_)
    alone[table.session[changes]] = False
    return alone


def level_sessions(
    values: Floats, session: NDArray[np.int32], chosen: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Give each of the chosen turns the mean of those of its session, and leave the others as they are."""
    means = np.bincount(session, values) / np.maximum(np.bincount(session), 1)
    return np.where(chosen, means[session], values)


def session_signals(table: TurnTable, channels: Channels, pool: Rows, mixed: Floats) -> Signals:
    """Say how well each turn's session fits as a whole, its rare words weighed by how few sessions hold them."""
    sessions, session_of = np.unique(table.session[pool], return_inverse=True)
    best = np.zeros(len(sessions), np.float32)
    np.maximum.at(best, session_of, mixed[pool])
    every, masks = gather_by_session(table.session, channels.covered)
    bits = unpack(masks, len(channels.idf))
    held = bits.sum(axis=0)
    idf = np.log1p((len(every) - held + 0.5) / (held + 0.5)) * (channels.idf[:MASK_BITS] > 0)
    share = weighted_sum(bits, idf / max(float(idf.sum()), TINY))
    return {
        "session_best": best[session_of],
        "session_covered": share[np.searchsorted(every, sessions)[session_of]],
    }


def gather_by_session(session: NDArray[np.int32], covered: Masks) -> tuple[NDArray[np.int32], Masks]:
    """Return the sessions, rising, and the terms that each holds anywhere."""
    if np.any(session[1:] < session[:-1]):  # sessions written side by side
        order = np.argsort(session, kind="stable")
        session, covered = session[order], covered[order]
    starts = np.flatnonzero(np.diff(session, prepend=-1))
    return session[starts], np.bitwise_or.reduceat(covered, starts) if len(starts) else covered


def speaker_signals(
    question: Question, table: TurnTable, channels: Channels, pool: Rows, mixed: Floats
) -> Signals:
    """Say whether the right one speaks: who is named, who asks, or the other one.

    Where it isn't known which person speaks, a turn that has the name will do: it tells of the one who is named.
    """
    speaker, cues = table.speaker[pool], question.cues
    machine = np.isin(table.role[pool], MACHINES)
    asks = ~machine if question.asker is None else speaker == question.asker
    about_asker = cues.first_person and not cues.asks_other and not cues.is_message
    names = pack(question.weights == 0)
    told_of = (speaker < 0) & ~machine & ((channels.covered[pool] & names) != 0)
    doubted = (machine & (not cues.asks_other)).astype(np.float32)
    return {
        "named": np.isin(speaker, question.named) | told_of,
        "by_asker": asks & about_asker,
        "machine": doubted,
        "machine_score": doubted * mixed[pool],
    }


def turn_own_signals(
    question: Question, table: TurnTable, pool: Rows, settings: RelevanceSettings
) -> Signals:
    flags = table.flags[pool]
    full = np.log(settings.whole_turn)
    return {
        "asks": (flags & FLAG_QUESTION) != 0,
        "substance": np.minimum(np.log(np.maximum(table.tokens[pool], 1)), full) / full,
        "time_asked": ((flags & FLAG_TIME) != 0) & question.cues.asks_when,
        "opens": table.previous[pool] < 0,
        "in_range": nearness_in_time(question, table.said_at[pool], settings),
    }


def nearness_in_time(
    question: Question, said_at: NDArray[np.float64], settings: RelevanceSettings
) -> NDArray[np.float64]:
    """Return 1 for what was said in the range the question names, less the longer after: news is often told later."""
    if question.time_range is None:
        return np.zeros(len(said_at))
    start, end = question.time_range
    late = np.maximum(said_at - end, 0) / (settings.told_later * SECONDS_A_DAY)
    return np.where(
        said_at >= start, np.exp2(-late), 0
    )  # NaN, an unknown time, is never at or after the start


def mix_channels(channels: Channels, settings: RelevanceSettings) -> Floats:
    share = np.float32(settings.dense_share)
    return share * unit(channels.dense) + (1 - share) * unit(channels.lexical)


def unit(values: Floats) -> Floats:
    """Scale scores so that the best is 1; what is below 0 says nothing."""
    scaled: Floats = np.maximum(values, 0) * np.float32(1 / max(float(values.max(initial=0)), TINY))
    return scaled


def at(values: NDArray[Column], rows: NDArray[np.int32], *, missing: int = 0) -> NDArray[Column]:
    """Return the values at these rows, `missing` where the row is -1."""
    return np.where(rows >= 0, values[rows], values.dtype.type(missing))


def covered_share(masks: Masks, idf: Floats) -> Floats:
    """Return which share of the question's IDF the terms in each mask make up."""
    weights = idf[:MASK_BITS] / np.float32(max(float(idf[:MASK_BITS].sum()), TINY))
    return weighted_sum(unpack(masks, len(weights)), weights)


def weighted_sum(rows: NDArray[Real], weights: NDArray[Real]) -> NDArray[Real]:
    """Return rows @ weights. Not `@`: BLAS sums in an order of its own, and warns of values that it never met."""
    if not len(weights):  # einsum was once seen to give something else than zeros for these
        return np.zeros(len(rows), weights.dtype)
    product: NDArray[Real] = np.einsum("ij,j->i", rows, weights)
    return product
