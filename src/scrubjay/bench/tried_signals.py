"""Signals that were tried to tell questions without an answer by, and that confidence doesn't use (docs/answers.md).

Most are of the scores; two read what the likeliest turns say, a sentence at a time: whether what fits the question stands
beside a number where it asks for one, or beside a name where it asks for one.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.confidence import as_log_odds
from scrubjay.relevance import covered_share
from scrubjay.terms import extract_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrubjay.question import Question
    from scrubjay.results import Found

READ = 12  # of the likeliest turns, whose text is looked at
TIED = 0.9  # what the words of two sentences together count, to those of one
LEAST = -7.0  # log-odds

_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")
_ASKS_NUMBER = re.compile(
    r"\bhow (?:much|many|old|long|far|big|tall|often)\b|\b(?:price|cost|charge|paid)\b"
    r"|\bwie ?viele?\b|\bwie alt\b|\bcuánt[oa]s?\b|多少|几|多大|多久",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundred|thousand|million|dozen"
    r"|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|zwölf|\w+zig|hundert|tausend"
    r"|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|veinte|cien|\w*cientos|mil)\b|[二三四五六七八九十百千万两]",
    re.IGNORECASE,
)
_ASKS_NAME = re.compile(r"\bnames?\b|\bcall(?:ed)?\b|\bheißt\b|\bllama\b|叫", re.IGNORECASE)
_NAME = re.compile(r"(?<=[^\W\d_] )[A-ZÀ-Þ][a-zß-ÿ]+")


def read_tried_signals(found: Found, texts: Sequence[str]) -> dict[str, float]:
    """Read the signals of a question; `texts` are those of all turns by row."""
    scores, question = found.scores, found.question
    best = scores.relevance[scores.order[:6]]
    odds = [as_log_odds(float(chance), LEAST) for chance in best] + [LEAST] * (6 - len(best))
    shares = covered_share(scores.channels.covered, scores.channels.idf)
    held = np.bitwise_or.reduce(scores.channels.covered) if len(shares) else np.uint64(0)
    top = scores.order[:1]
    return {
        "lead of the best turn over the next, log-odds": odds[0] - odds[1],
        "… over the sixth": odds[0] - odds[5],
        "evidence expected in all": float(scores.relevance.sum()),
        "share of the question that the best turn has": float(shares[top].max(initial=0)),
        "share that any turn has": float(covered_share(np.array([held]), scores.channels.idf)[0]),
        "cosine of the best turn": float(scores.channels.dense[top].max(initial=0)),
        "BM25 of the best turn": float(scores.channels.lexical[top].max(initial=0)),
        "words of the question": float(np.count_nonzero(scores.channels.idf)),
        **read_values(question, [texts[row] for row in scores.order[:READ]], scores.channels.idf.tolist()),
    }


def read_values(question: Question, texts: Sequence[str], idf: Sequence[float]) -> dict[str, float]:
    """Say whether a number or a name is asked, and how much less fits where there is one than anywhere; else 0."""
    weights = dict(zip(question.terms, idf, strict=True))
    whole = max(sum(weights.values()), 1e-9)
    said = [(text, cover(text, weights) / whole * share) for text, share in split_passages(texts)]
    most = max((fits for _, fits in said), default=0.0)
    known = set(_WORD.findall(question.text))
    numbers = [fits for text, fits in said if _NUMBER.search(text)]
    names = [fits for text, fits in said if not known.issuperset(_NAME.findall(text))]
    asks_number = float(_ASKS_NUMBER.search(question.text) is not None)
    asks_name = float(_ASKS_NAME.search(question.text) is not None)
    return {
        "a number is asked": asks_number,
        "a number is asked, and what fits has none": asks_number * (most - max(numbers, default=0.0)),
        "a name is asked": asks_name,
        "a name is asked, and what fits has none": asks_name * (most - max(names, default=0.0)),
    }


def split_passages(texts: Sequence[str]) -> list[tuple[str, float]]:
    """Give the sentences of texts, and each two that follow each other, with what their words count."""
    split = [_SENTENCE.findall(text) for text in texts]
    alone = [(sentence, 1.0) for sentences in split for sentence in sentences]
    return alone + [(one + other, TIED) for sentences in split for one, other in pairwise(sentences)]


def cover(text: str, weights: Mapping[str, float]) -> float:
    return sum(weights.get(term, 0.0) for term in set(extract_terms(text)))
