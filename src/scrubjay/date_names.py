"""Words of dates in many languages, and the reading of a text into them.

The names are in `date_names/names.json`, written by `tools/build_date_names.py` from CLDR and from
`date_names/words.json`; they are loaded when a question first needs them.
"""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "ru", "zh", "ja", "ko")
"""Languages whose dates are understood, as ISO 639-1 codes; the place in this tuple is the language's bit."""

EVERY_LANGUAGE = (1 << len(LANGUAGES)) - 1

CORE_KINDS = frozenset(
    {"month", "weak-month", "short-month", "weekday", "relative", "season", "weak-season", "half"}
)
"""Kinds of words without which, or a digit, a text names no date."""

TURN_KINDS = frozenset({"shift", "past", "ago-before", "ago-after", "in-before", "in-after", "in-head"})
"""Kinds one of which a unit, such as "week", needs to name a time."""

NUMERALS = {numeral: digit for digit, numeral in enumerate("〇一二三四五六七八九十")} | {"两": 2, "百": 100}

LONGEST_NUMBER = 3  # digits of a count or a day; four are a year, more are neither

FIRST_UNSPACED = "\u2e80"
UNSPACED = "\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff"  # Han, kana and Hangul: each character is a piece

PIECE = re.compile(
    rf"""
    (?<![\d./-])(?P<date>\d{{4}}([-/.])\d{{1,2}}\2\d{{1,2}} | \d{{1,2}}([-/.])\d{{1,2}}\3\d{{4}} | \d{{4}}-\d{{2}})(?![\d-])
    | (?P<ordinal>\d{{1,2}})(?:st|nd|rd|th|er|re|eme|e|o|a)(?![a-z\d])
    | q(?=[1-4](?![a-z\d]))
    | (?P<count>\d{{1,3}})(?=(?:d|w|wks?|mo|mon|mos|y|yrs?|h|hrs?|mins?)\ ago\b)
    | (?:[a-z]+\d|\d+[a-z])[a-z\d]*
    | (?P<number>\d+)
    | [{UNSPACED}]
    | [^\W\d_{UNSPACED}]+
    | [^\w\s]
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a word may stand for: a kind of the grammar, its value, and the languages in which it does."""

    kind: str
    name: str = ""
    number: int = 0
    languages: int = EVERY_LANGUAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A word or phrase of a question with everything it may mean; places are of the question as written."""

    start: int
    end: int
    meanings: tuple[Meaning, ...]


UNKNOWN = Token(start=0, end=0, meanings=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Lexicon:
    """The names: phrases by their first piece, longest first, and what in a text hints at a date."""

    phrases: dict[str, list[tuple[tuple[str, ...], tuple[Meaning, ...]]]]
    cues: frozenset[str]  # words that may name a date
    units: frozenset[str]  # words that do so with a turn
    turns: frozenset[str]  # last, past, ago, in
    pairs: frozenset[tuple[str, str]]  # the first two characters of what names a date in unspaced writing


@lru_cache(maxsize=4096)
def fold_character(character: str) -> str:
    """Fold case, width and marks away; é and E are e. Hangul stays composed."""
    plain = "".join(
        part for part in unicodedata.normalize("NFKD", character) if unicodedata.category(part) != "Mn"
    )
    return unicodedata.normalize("NFC", plain.lower()).replace("’", "'")


def fold(text: str) -> str:
    return text.lower() if text.isascii() else "".join(map(fold_character, text))


def split_pieces(text: str) -> list[str]:
    """Cut a text into folded words, numbers, unspaced characters and signs."""
    return [found.group() for found in PIECE.finditer(fold(text))]


@lru_cache(maxsize=1)
def load_lexicon() -> Lexicon:
    names = json.loads(files("scrubjay").joinpath("date_names", "names.json").read_text("utf-8"))
    phrases: dict[str, list[tuple[tuple[str, ...], tuple[Meaning, ...]]]] = {}
    kinds: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for phrase, rows in names["phrases"].items():
        pieces, meanings = tuple(phrase.split(" ")), tuple(Meaning(*row) for row in rows)
        phrases.setdefault(pieces[0], []).append((pieces, meanings))
        for meaning in meanings:
            kinds[meaning.kind].add(pieces)
    for choices in phrases.values():
        choices.sort(key=lambda choice: -len(choice[0]))
    core = set().union(*(kinds[kind] for kind in CORE_KINDS))
    counts = {count[-1] for count in kinds["number"] | kinds["fuzzy"]} | NUMERALS.keys()
    return Lexicon(
        phrases=phrases,
        cues=longest_words(core),
        units=longest_words(kinds["unit"]),
        turns=longest_words(set().union(*(kinds[kind] for kind in TURN_KINDS))),
        pairs=frozenset(
            {(name[0], name[1]) for name in core if len(name) > 1 and is_unspaced(name[0])}
            | {(count, unit[0]) for count in counts for unit in kinds["unit"] if is_unspaced(unit[0])}
        ),
    )


def is_unspaced(piece: str) -> bool:
    return piece >= FIRST_UNSPACED


def longest_words(phrases: Iterable[tuple[str, ...]]) -> frozenset[str]:
    """Give the longest word of each phrase, by which the phrase is noticed."""
    return frozenset(max(phrase, key=len) for phrase in phrases if not is_unspaced(phrase[0]))


def has_cue(text: str) -> bool:
    """Tell cheaply whether a text could name a date at all."""
    pieces = split_pieces(text)
    words = set(pieces)
    lexicon = load_lexicon()
    return (
        not lexicon.cues.isdisjoint(words)
        or any(piece[0].isdecimal() for piece in words)
        or not (lexicon.units.isdisjoint(words) or lexicon.turns.isdisjoint(words))
        or any(map(lexicon.pairs.__contains__, itertools.pairwise(pieces)))
    )


def read_tokens(question: str) -> list[Token]:
    """Read a question into tokens, the longest known phrase at each place; what is not known means nothing."""
    found = list(PIECE.finditer(fold(question)))
    pieces = [match.group() for match in found]
    places = original_places(question)
    tokens = []
    place = 0
    while place < len(found):
        length, meanings = read_meanings(found, pieces, place)
        if meanings:
            start, end = places[found[place].start()], places[found[place + length - 1].end() - 1] + 1
            if question[start].isupper():
                meanings = tuple(map(strengthen, meanings))
            tokens.append(Token(start=start, end=end, meanings=meanings))
        else:
            tokens.append(UNKNOWN)
        place += length
    return tokens


def read_meanings(
    found: Sequence[re.Match[str]], pieces: Sequence[str], place: int
) -> tuple[int, tuple[Meaning, ...]]:
    """Give how many pieces the token at a place has, and what it may mean."""
    length, meanings = read_phrase(pieces, place)
    if pieces[place] in NUMERALS:
        numeral_length, numeral = read_numeral(pieces, place)
        if numeral_length > length:
            return numeral_length, numeral
        if numeral_length == length:
            return length, (*meanings, *numeral)
    return length, meanings or read_number(found[place])


def original_places(question: str) -> Sequence[int]:
    """Map each place of the folded text to the place of its character in the question."""
    if question.isascii():
        return range(len(question))
    return [place for place, character in enumerate(question) for _ in fold_character(character)]


def read_phrase(pieces: Sequence[str], place: int) -> tuple[int, tuple[Meaning, ...]]:
    for phrase, meanings in load_lexicon().phrases.get(pieces[place], ()):
        if tuple(pieces[place : place + len(phrase)]) == phrase:
            return len(phrase), meanings
    return 1, ()


def read_numeral(pieces: Sequence[str], place: int) -> tuple[int, tuple[Meaning, ...]]:
    """Read Chinese numerals below a thousand."""
    total = digit = length = 0
    for numeral in itertools.takewhile(NUMERALS.__contains__, pieces[place:]):
        value = NUMERALS[numeral]
        total, digit = (total + (digit or 1) * value, 0) if value >= 10 else (total, value)
        length += 1
    return length, (Meaning("number", "", total + digit), Meaning("day", "", total + digit))


def read_number(found: re.Match[str]) -> tuple[Meaning, ...]:
    """Tell what a piece with digits may be, by its form and its length."""
    if date := found["date"]:
        return (Meaning("date", date),)
    digits = found["ordinal"] or found["count"] or found["number"] or ""
    if found["number"] and len(digits) == LONGEST_NUMBER + 1:
        return (Meaning("year", "", int(digits)),)
    if not digits or len(digits) > LONGEST_NUMBER:
        return ()
    as_day = "ordinal" if found["ordinal"] else "day"
    return Meaning("number", "", int(digits)), Meaning(as_day, "", int(digits))


def strengthen(meaning: Meaning) -> Meaning:
    """Take May and March, written large, for months; may and march could be verbs."""
    return replace(meaning, kind="month") if meaning.kind == "weak-month" else meaning
