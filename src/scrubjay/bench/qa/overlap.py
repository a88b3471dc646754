"""Compare an answer with its gold without a judge: token F1 and exact match, as SQuAD normalises. Pure."""

from __future__ import annotations

import re
import string
from collections import Counter

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
CITATIONS = re.compile(r"[\[【［]\s*#?\d{1,6}(?:\s*[,;，、–-]\s*#?\d{1,6})*\s*[\]】］]")
PUNCTUATION = re.compile(f"[{re.escape(string.punctuation)}“”‘’«»…、。，！？；：（）《》]")
UNSPACED = re.compile(
    r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff])"
)  # each a token: these are written without blanks


def normalize_answer(text: str) -> list[str]:
    """Give the tokens of an answer: lower case, without citations, punctuation and English articles."""
    plain = PUNCTUATION.sub("", CITATIONS.sub(" ", text).lower())
    return ARTICLES.sub(" ", UNSPACED.sub(r" \1 ", plain)).split()


def measure_exact(answer: str, gold: str) -> float:
    return float(normalize_answer(answer) == normalize_answer(gold))


def measure_f1(answer: str, gold: str) -> float:
    """Give the harmonic mean of the shares of tokens they have in common; two without any token agree."""
    given, wanted = normalize_answer(answer), normalize_answer(gold)
    if not given or not wanted:
        return float(given == wanted)
    shared = sum((Counter(given) & Counter(wanted)).values())
    return 2 * shared / (len(given) + len(wanted))
