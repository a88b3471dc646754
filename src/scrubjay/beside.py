"""READ: what turns can't well be read without: the question that a short one answers, what its neighbour says it is about. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.cues import FLAG_QUESTION
from scrubjay.datatypes import Purpose
from scrubjay.scores import MASK_BITS, unpack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scrubjay.datatypes import TurnTable
    from scrubjay.scores import Channels, TurnScores
    from scrubjay.settings import ChainSettings

    Floats = NDArray[np.float64]
    Rows = NDArray[np.intp]

LEAST_WEIGHT = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Beside:
    """The turns before and after each of n turns, as places among them."""

    place: Rows  # (n, 2) -1 where there is none that may be shown
    share: Floats  # (n, 2) how far the turn can't be read without that one, from 0 to 1
    answers: NDArray[
        np.bool_
    ]  # (n, 2) because that one asks what the turn answers; else for the words it adds

    def purpose(self, turn: int, side: int) -> Purpose:
        return Purpose.QUESTION if self.answers[turn, side] else Purpose.SUBJECT


def weigh_terms(channels: Channels, rows: Rows) -> Floats:
    """Give of each turn what every term of the question that it holds counts, (n, terms); all terms together count 1."""
    idf = channels.idf[:MASK_BITS].astype(np.float64)
    held = unpack(channels.covered[rows], len(idf))
    weighed: Floats = held * (idf / max(float(idf.sum()), LEAST_WEIGHT))
    return weighed


def with_neighbours(rows: Rows, table: TurnTable, scores: TurnScores) -> Rows:
    """Append the turns of the pool beside these, each once, in the order in which they first stand beside one."""
    beside = np.column_stack((table.previous[rows], table.following[rows])).ravel()
    known = np.zeros(len(table), np.bool_)
    known[rows] = True
    new = beside[(beside >= 0) & ~known[beside] & (scores.relevance[beside] > 0)]
    _, first = np.unique(new, return_index=True)
    return np.concatenate((rows, new[np.sort(first)]))


def look_beside(rows: Rows, table: TurnTable, covered: Floats, settings: ChainSettings) -> Beside:
    """Say how far each turn needs those beside it; `covered`, (n, terms), is what each term it holds counts."""
    beside = np.column_stack((table.previous[rows], table.following[rows]))
    place_of = np.full(len(table) + 1, -1, np.intp)  # the last stands for no turn
    place_of[rows] = np.arange(len(rows))
    place = place_of[beside]
    lacks = covered == 0
    adds = np.column_stack([(covered[side] * lacks).sum(axis=1) for side in place.T])
    answers = np.column_stack((answer_shares(rows, table, settings), np.zeros(len(rows))))
    return Beside(place=place, share=np.maximum(answers, adds), answers=answers >= adds)


def answer_shares(rows: Rows, table: TurnTable, settings: ChainSettings) -> Floats:
    """Say how far turns can't be read without the one before: 1 for a short answer to another's question, less for a longer one."""
    before = table.previous[rows]
    asked = (before >= 0) & ((table.flags[before] & FLAG_QUESTION) != 0)
    another = (table.speaker[rows] != table.speaker[before]) | (table.role[rows] != table.role[before])
    short = np.minimum(1.0, settings.short_answer / np.maximum(table.tokens[rows], 1))
    return np.where(asked & another, short, 0.0)
