"""Write `src/scrubjay/date_names/names.json` from CLDR, read through babel, and `words.json` beside it.

CLDR gives the names of months and weekdays, the relative words ("yesterday", "上周") and the patterns of
distances ("{0} days ago"), out of which the units and the markers are cut. `words.json` holds what CLDR lacks:
inflected adjectives, seasons, number words, prepositions. Run again after changing it: `python tools/build_date_names.py`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import babel

from scrubjay.date_names import EVERY_LANGUAGE, LANGUAGES, split_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = Path(__file__).parents[1] / "src" / "scrubjay" / "date_names"
UNITS = ("minute", "hour", "day", "week", "month", "quarter", "year")
NAME_KINDS = {"months": "month", "days": "weekday"}
SIGNS = {"sep": ",.", "dash": "-–—~"}

Row = tuple[str, str, str, int]
"""A phrase (pieces parted by one space), its kind, and its value as a name and a number."""


def key(phrase: str) -> str:
    return " ".join(split_pieces(phrase))


def calendar_rows(locale: babel.Locale) -> Iterator[Row]:
    """Give the names of months and weekdays; a shortened name is a kind of its own outside English."""
    for source, kind in NAME_KINDS.items():
        for widths in getattr(locale, source).values():
            wide = {key(name) for name in widths["wide"].values()}
            yield from ((key(name), kind, "", number) for number, name in widths["wide"].items())
            if kind == "month":
                short = "month" if locale.language == "en" else "short-month"
                for number, name in widths["abbreviated"].items():
                    if (phrase := key(name.rstrip("."))) not in wide:
                        yield phrase, short, "", number


def relative_rows(locale: babel.Locale) -> Iterator[Row]:
    for unit in UNITS:
        for offset, phrase in fields(locale, unit).get("relative", {}).items():
            if isinstance(offset, int) and unit not in {"minute", "hour"}:
                yield key(phrase), "relative", unit, offset


def distance_rows(locale: babel.Locale, *, direction: str, before: str, after: str) -> Iterator[Row]:
    """Cut "{0} days ago" into its unit and its marker: what every unit's pattern has before or after in common."""
    patterns = [(unit, pattern) for unit in UNITS for pattern in fields(locale, unit)[direction].values()]
    prefix = common_start([split_pieces(pattern.partition("{0}")[0]) for _, pattern in patterns])
    ends = [(unit, split_pieces(pattern.partition("{0}")[2])) for unit, pattern in patterns]
    suffix = common_start([end[::-1] for _, end in ends])[::-1]
    yield " ".join(prefix), before, "", 0
    yield " ".join(suffix), after, "", 0
    yield from ((" ".join(end[: len(end) - len(suffix)]), "unit", unit, 0) for unit, end in ends)


def duration_rows(locale: babel.Locale) -> Iterator[Row]:
    for unit in UNITS:
        widths = locale._data["unit_patterns"].get(f"duration-{unit}", {})  # noqa: SLF001 -- babel has no public door to these
        patterns = {count: pattern for count, pattern in widths.get("long", {}).items() if count != "per"}
        yield from ((key(pattern.replace("{0}", "")), "unit", unit, 0) for pattern in patterns.values())


def fields(locale: babel.Locale, unit: str) -> Any:
    return locale._data["date_fields"][unit]  # noqa: SLF001 -- babel has no public door to these


def common_start(rows: Sequence[Sequence[str]]) -> list[str]:
    return [column[0] for column in takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False))]


def word_rows(words: dict[str, str | dict[str, str]]) -> Iterator[Row]:
    """Read the words of one language; a value is a unit, a number, or a unit with an offset."""
    for kind, values in words.items():
        for value, phrases in {"": values}.items() if isinstance(values, str) else values.items():
            *names, last = value.split(" ") if value else [""]
            number = int(last) if last.lstrip("-").isdecimal() else 0
            name = " ".join(names) if last.lstrip("-").isdecimal() else value
            yield from ((key(phrase), kind, name, number) for phrase in phrases.split("|"))


def language_rows(language: str, words: dict[str, str | dict[str, str]], plain: set[str]) -> Iterator[Row]:
    """Give one language's rows, without the relative phrases that the grammar composes of smaller words."""
    locale = babel.Locale(language)
    own = dict(words)
    alone = str(own.pop("alone", "")).split("|")
    own.pop("plain", "")
    rows = [*calendar_rows(locale), *relative_rows(locale), *duration_rows(locale), *word_rows(own)]
    rows += distance_rows(locale, direction="past", before="ago-before", after="ago-after")
    rows += distance_rows(locale, direction="future", before="in-before", after="in-after")
    pieces = defaultdict(set)
    for phrase, kind, _, _ in rows:
        pieces[kind].update(phrase.split(" "))
    composed = pieces["shift"] | pieces["unit"] | pieces["the"] | pieces["at"]
    also_at = {phrase for phrase, kind, _, _ in rows if kind == "at"}
    for phrase, kind, name, number in rows:
        parts = set(phrase.split(" "))
        if kind == "relative" and parts <= composed and parts & pieces["shift"]:
            continue  # "last week" is read as "last" and "week"
        if kind in {"month", "short-month"} and any(part.isdecimal() for part in parts):
            continue  # 3月 is read as a number and a mark
        if kind == "short-month" and phrase in plain:
            continue  # "3 out of 5" is no day of October
        if kind == "in-before" and phrase in also_at:  # within a question, "in two weeks" may say how long
            yield phrase, "in-head", name, number
            continue
        yield phrase, f"weak-{kind}" if phrase in plain else kind, name, number
        if kind in alone:
            yield phrase, f"lone-{kind}", name, number


def build_names() -> str:
    """Give the text of `names.json`: per phrase its meanings as [kind, name, number, languages as bits]."""
    words = json.loads((FOLDER / "words.json").read_text("utf-8"))
    languages: dict[Row, int] = defaultdict(int)
    for kind, signs in SIGNS.items():
        languages.update({(sign, kind, "", 0): EVERY_LANGUAGE for sign in signs})
    plain = set(words["en"]["plain"].split("|"))
    for place, language in enumerate(LANGUAGES):
        for row in language_rows(language, words[language], plain):
            if row[0]:
                languages[row] |= 1 << place
    phrases = defaultdict(list)
    for (phrase, kind, name, number), bits in sorted(languages.items()):
        phrases[phrase].append([kind, name, number, bits])
    names = {"source": f"CLDR through babel {babel.__version__}, and words.json", "phrases": phrases}
    return json.dumps(names, ensure_ascii=False, separators=(",", ":")).replace(']],"', ']],\n"') + "\n"


if __name__ == "__main__":
    (FOLDER / "names.json").write_text(build_names(), "utf-8")
