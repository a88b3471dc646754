"""Score `find_time_range` on recorded date phrases, and time it on questions without a date.

`python benchmarks/dates.py PATH` reads a JSON object whose keys are a reference time and a text, parted by
U+001F, and whose values are the first and last moment or null. The phrases were recorded from another program,
its misses included; what is counted as wrong only for that is shown apart, never left out of the first table.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from scrubjay.date_names import CORE_KINDS, LANGUAGES, TURN_KINDS, read_tokens
from scrubjay.dates import find_time_range

HELD_OUT = 5  # every fifth phrase, by a hash, was not looked at while the grammar was written
RESOLUTION = timedelta.resolution
SCRIPTS = (
    ("ja", "[\u3040-\u30ff]"),
    ("ko", "[\uac00-\ud7a3]"),
    ("zh", "[\u4e00-\u9fff]"),
    ("ru", "[\u0400-\u04ff]"),
)

WORDS_OF_TIME = CORE_KINDS | TURN_KINDS | {"unit"}

READ_OTHERWISE = {
    "may that is a verb or has no year, recorded as a day": r"\bmay\b(?! \d)",
    "a distance in weeks, months or years, recorded as one day": r"[周月年]前|\dmon ago",
    "a range, recorded as its first day": r"^between ",
    "a German day, recorded as its month": r"am \d\. ",
}
"""Recorded with an interval that a reader would not give; `find_time_range` gives another, or none, on purpose."""

NAMES_A_DATE = {
    "a numeric date, day first": r"\d{2}\.\d{2}\.\d{4}",
    "a year, or a whole date, written with 年": r"\d{4}年",
    "the coming week": r"next week",
    "a part of today": r"(this|to)\s?(morning|night)",
}
"""Recorded as no date though a reader sees one; `find_time_range` reads them on purpose."""

QUESTIONS = (
    "What does Dana like to cook for her friends?",
    "How did the team decide on the name of the project?",
    "Which of my two cameras did I lend to my brother?",
    "Was hat mir der Arzt gegen Kopfschmerzen empfohlen?",
    "Quel restaurant ai-je conseillé à ma sœur ?",
    "¿Cómo se llama el perro de mi vecina?",
    "Как зовут преподавателя по рисованию?",
    "我的同事喜欢喝什么咖啡？",
    "妹の好きな食べ物は何ですか？",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """A recorded phrase with what was recorded and what is found now."""

    reference: str
    text: str
    language: str
    held_out: bool
    expected: tuple[str, str] | None
    found: tuple[str, str] | None

    @property
    def right(self) -> bool:
        return self.expected == self.found

    @property
    def contested(self) -> bool:
        kinds = READ_OTHERWISE if self.expected else NAMES_A_DATE
        return any(re.search(each, self.text) for each in kinds.values())


def read_phrases(path: Path) -> list[Phrase]:
    recorded: dict[str, list[str] | None] = json.loads(path.read_text("utf-8"))
    phrases = []
    for key, interval in recorded.items():
        reference, _, text = key.partition("\x1f")
        digest = int(hashlib.sha256(key.encode()).hexdigest(), 16)
        phrases.append(
            Phrase(
                reference=reference,
                text=text,
                language=guess_language(text),
                held_out=digest % HELD_OUT == 0,
                expected=(interval[0], interval[1]) if interval else None,
                found=find_interval(text, datetime.fromisoformat(reference).replace(tzinfo=UTC)),
            )
        )
    return phrases


def find_interval(text: str, reference: datetime) -> tuple[str, str] | None:
    found = find_time_range(text, reference)
    if found is None:
        return None
    start = found.start.replace(tzinfo=None).isoformat() if found.start else ""
    end = (found.end - RESOLUTION).replace(tzinfo=None).isoformat() if found.end else ""
    return start, end


def guess_language(text: str) -> str:
    """Guess a phrase's language by its script, else by which language knows most of its words of time."""
    for language, script in SCRIPTS:
        if re.search(script, text):
            return language
    bits = [0] * len(LANGUAGES)
    for token in read_tokens(text):
        known = 0
        for meaning in token.meanings:
            known |= meaning.languages if meaning.kind in WORDS_OF_TIME else 0
        for place in range(len(LANGUAGES)):
            bits[place] += known >> place & 1
    return LANGUAGES[bits.index(max(bits))]


def share(phrases: list[Phrase]) -> str:
    if not phrases:
        return f"{'–':>16}"
    right = sum(phrase.right for phrase in phrases)
    return f"{right:>5} of {len(phrases):>4} {right / len(phrases):>4.0%}"


def print_table(phrases: list[Phrase]) -> None:
    groups = {language: [each for each in phrases if each.language == language] for language in LANGUAGES}
    groups |= {"all": phrases, "held out": [each for each in phrases if each.held_out]}
    print(
        f"{'language':<10}{'intervals right':>18}{'no date right':>18}{'  without the contested:':<26}{'no date':>10}"
    )
    for name, group in groups.items():
        dated = [each for each in group if each.expected]
        dateless = [each for each in group if not each.expected]
        if group:
            clear = [[each for each in kind if not each.contested] for kind in (dated, dateless)]
            print(
                f"{name:<10}{share(dated):>18}{share(dateless):>18}{share(clear[0]):>18}{share(clear[1]):>18}"
            )
    print("contested intervals:", "; ".join(READ_OTHERWISE))
    print("contested, recorded as no date:", "; ".join(NAMES_A_DATE))


def print_misses(phrases: list[Phrase]) -> None:
    misses = Counter((each.text, bool(each.expected), bool(each.found)) for each in phrases if not each.right)
    kinds = {
        (True, False): "not found",
        (False, True): "found, recorded as none",
        (True, True): "another interval",
    }
    for (text, expected, found), count in sorted(misses.items()):
        print(f"  {count} × {kinds[expected, found]:<24}{text[:60]!r}")


def print_times() -> None:
    reference = datetime(2024, 5, 15, 12, tzinfo=UTC)
    begun = time.perf_counter()
    find_time_range(QUESTIONS[0], reference)
    print(f"first question, loading the names: {(time.perf_counter() - begun) * 1e3:.1f} ms")
    fastest = []
    for question in QUESTIONS:
        rounds = []
        for _ in range(50):
            begun = time.perf_counter()
            find_time_range(question, reference)
            rounds.append(time.perf_counter() - begun)
        fastest.append(median(rounds) * 1e6)
    print(f"questions without a date: {median(fastest):.0f} µs, at most {max(fastest):.0f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="the recorded phrases")
    parser.add_argument("--misses", action="store_true", help="list the phrases that differ")
    arguments = parser.parse_args()
    print_times()
    if not arguments.path.exists():
        print(f"skipped: no recorded phrases at {arguments.path}", file=sys.stderr)
        return
    phrases = read_phrases(arguments.path)
    print_table(phrases)
    if arguments.misses:
        print_misses(phrases)


if __name__ == "__main__":
    main()
