"""What a question is to the stages that answer it: its terms, vector, names and cues."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.cues import QuestionCues, question_cues
from scrubjay.errors import QuestionError
from scrubjay.terms import extract_terms, hash_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from scrubjay.datatypes import TimeRange, TurnTable


LEAST_NICKNAME = 3  # letters
LONGEST_LEAD = 16  # characters before a word that are looked at

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?:^|[.!?…\n])[\s\"'“”‘’(\[¿¡-]*$")
_BEFORE_A_DATE = re.compile(
    r"\b(?:in|of|since|until|till|by|before|after|last|next|this|early|late|mid|during|every|\d{1,2}(?:st|nd|rd|th)?)[\s-]+$",
    re.IGNORECASE,
)
_AFTER_A_DATE = re.compile(r"\s+(?:the\s+)?\d")
_POSSESSIVE = re.compile(r"['’]s\b")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """A question as the stages read it; m distinct terms."""

    text: str
    terms: tuple[str, ...]  # distinct, in order of first occurrence
    hashes: NDArray[np.uint64]  # (m,)
    weights: NDArray[
        np.float32
    ]  # (m,) 0 for a speaker's name, which says who spoke rather than what was said; else 1
    vector: NDArray[np.float32]  # (dimension,)
    named: tuple[int, ...]  # speakers it names, as places among the memory's speakers
    asker: int | None  # the speaker who asks, where known
    time_range: tuple[float, float] | None  # seconds since 1970 UTC, half-open; infinite where open
    cues: QuestionCues


@lru_cache(maxsize=4096)
def name_terms(name: str) -> frozenset[str]:
    """Return the terms by which a text names a speaker; of `order-lookup` not `order`, which is a word of its own."""
    words = [extract_terms(word) for word in name.split()]
    return frozenset(
        term for terms in words for term in (terms if terms and not terms[0].isascii() else terms[:1])
    )


def capitalised_words(text: str) -> frozenset[str]:
    """Return the words that a capital shows to be names: not the first of a sentence, unless something is theirs.

    So that Will and May are told from will and may; "in May" is a month.
    """
    if text.isupper():
        return frozenset()
    words = (word for word in _WORD.finditer(text) if word[0][0].isupper() and len(word[0]) > 1)
    return frozenset(word[0] for word in words if _stands_as_name(text, word))


def _stands_as_name(text: str, word: re.Match[str]) -> bool:
    if _POSSESSIVE.match(text, word.end()):
        return True
    nearby = max(word.start() - LONGEST_LEAD, 0), word.start()
    opens = _SENTENCE_END.search(text, *nearby)  # ^ holds at the beginning of the text alone
    dates = _BEFORE_A_DATE.search(text, *nearby) or _AFTER_A_DATE.match(text, word.end())
    return not (opens or dates)


def read_question(
    text: str,
    *,
    vector: NDArray[np.float32],
    speakers: Sequence[str],
    asker: str | None = None,
    time_range: tuple[float, float] | None = None,
) -> Question:
    """Read a question against the names of a memory's speakers."""
    terms = tuple(dict.fromkeys(extract_terms(text)))
    names = [name_terms(speaker) for speaker in speakers]
    is_name = [any(term in name for name in names) for term in terms]
    capitalised = capitalised_words(text)
    named = tuple(
        place
        for place, (speaker, name) in enumerate(zip(speakers, names, strict=True))
        if name.intersection(terms) or capitalised.intersection(speaker.split())
    )
    return Question(
        text=text,
        terms=terms,
        hashes=hash_terms(terms),
        weights=np.array([0 if name else 1 for name in is_name], np.float32),
        vector=vector,
        named=named or find_shortened(capitalised, speakers),
        asker=find_speaker(asker, speakers),
        time_range=time_range,
        cues=question_cues(text),
    )


def find_shortened(words: Iterable[str], speakers: Sequence[str]) -> tuple[int, ...]:
    """Return the places of those whose name a word begins, as Mel does Melanie; not where it begins several speakers'."""
    found: set[int] = set()
    for word in (word.casefold() for word in words if len(word) >= LEAST_NICKNAME):
        begun = [
            place
            for place, speaker in enumerate(speakers)
            if any(name.startswith(word) for name in speaker.casefold().split())
        ]
        found.update(begun if len(begun) == 1 else ())
    return tuple(sorted(found))


def find_speaker(name: str | None, speakers: Sequence[str]) -> int | None:
    """Return the place of the speaker of this name, or of the one whose name it begins; None where there is none.

    However its letters are cased.
    """
    if name is None:
        return None
    wanted = name.strip().casefold()
    whole = [place for place, speaker in enumerate(speakers) if speaker.casefold() == wanted]
    return next(iter([*whole, *find_shortened([wanted], speakers)]), None)


def require_askable(question: str, *, most: int, deadline: float | None) -> None:
    """Raise QuestionError for what can't be asked; any text that isn't blank can."""
    if not isinstance(question, str) or not question.strip():
        raise QuestionError(f"a question is text that isn't blank, found {question!r}")
    if most < 1:
        raise QuestionError(f"how much may be found at most is a number above 0, found {most!r}")
    if deadline is not None and not deadline > 0:
        raise QuestionError(f"a deadline is a number of seconds above 0, found {deadline!r}")


def as_seconds(time_range: TimeRange | None) -> tuple[float, float] | None:
    """Give a time range in seconds since 1970 UTC, infinite where it is open; raise QuestionError for naive times."""
    if time_range is None:
        return None
    for moment in (time_range.start, time_range.end):
        if moment is not None and moment.utcoffset() is None:
            raise QuestionError(
                f"a time range from {moment.isoformat()} has no time zone: give aware datetimes"
            )
    start = -np.inf if time_range.start is None else time_range.start.timestamp()
    end = np.inf if time_range.end is None else time_range.end.timestamp()
    return start, end


def said_within(table: TurnTable, time_range: TimeRange) -> NDArray[np.bool_]:
    """Tell of each turn whether it was said in a time range; one of unknown time was not."""
    start, end = as_seconds(time_range) or (-np.inf, np.inf)
    return (table.said_at >= start) & (table.said_at < end)
