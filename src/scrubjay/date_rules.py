"""Patterns over kinds of words, and where they fit a row of tokens.

A pattern is a row of kinds: `a|b` is either, `a?` may be missing, `!a` must not follow, and `day=a` hands the
word to the rule's action under that name. All words of a phrase must share a language.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from scrubjay.date_names import EVERY_LANGUAGE, Meaning, Token
from scrubjay.date_spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

Parts = Mapping[str, Meaning]
"""The named words of a phrase."""

Action = Callable[[datetime, Parts], Span]
"""What a phrase stands for, seen from a moment; ValueError where it names no time."""

Table = Sequence[tuple[str, Action]]
"""Patterns with their actions."""


@dataclass(frozen=True, slots=True)
class Element:
    """One place of a pattern."""

    name: str
    kinds: frozenset[str]
    optional: bool
    forbidden: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern and its action."""

    elements: tuple[Element, ...]
    action: Action
    absolute: bool  # stands in the calendar by itself
    supported: bool  # names a time only after a word such as "in"
    leading: bool  # names a time only at the head of a question


@dataclass(frozen=True, slots=True)
class Match:
    """A rule that fits a row of tokens up to `stop`, the languages in which it does, the words its action takes."""

    rule: Rule
    stop: int
    languages: int
    parts: Parts

    def resolve(self, reference: datetime) -> Span:
        return self.rule.action(reference, self.parts)


RuleIndex = Mapping[str, Sequence[tuple[int, Rule]]]
"""Rules with their ranks, by the kinds they may begin with."""


def make_rules(
    table: Table, *, absolute: bool = False, supported: bool = False, leading: bool = False
) -> list[Rule]:
    return [Rule(parse_pattern(pattern), action, absolute, supported, leading) for pattern, action in table]


def parse_pattern(pattern: str) -> tuple[Element, ...]:
    elements = []
    for place in pattern.split():
        name, _, kinds = place.strip("!?").rpartition("=")
        allowed = frozenset(kinds.split("|"))
        elements.append(Element(name, allowed, optional=place.endswith("?"), forbidden=place.startswith("!")))
    return tuple(elements)


def index_rules(rules: Sequence[Rule]) -> RuleIndex:
    """Rank rules by their order: of two phrases of one length, the earlier rule's is taken."""
    index: dict[str, list[tuple[int, Rule]]] = defaultdict(list)
    for rank, rule in enumerate(rules):
        for kind in rule.elements[0].kinds:
            index[kind].append((rank, rule))
    return dict(index)


def find_matches(index: RuleIndex, tokens: Sequence[Token], place: int) -> list[Match]:
    """Give every match that begins at a token, the longest first."""
    rules = dict(ranked for meaning in tokens[place].meanings for ranked in index.get(meaning.kind, ()))
    matches = [match for rank in sorted(rules) for match in fit(rules[rank], tokens, place)]
    return sorted(matches, key=lambda match: -match.stop)


def fit(rule: Rule, tokens: Sequence[Token], place: int) -> list[Match]:
    """Give the ways in which a rule fits the tokens from a place on; one way in two languages is one match."""
    states: list[tuple[int, int, dict[str, Meaning]]] = [(place, EVERY_LANGUAGE, {})]
    for element in rule.elements:
        states = [after for state in states for after in step(element, tokens, *state)]
    matches: dict[tuple[object, ...], Match] = {}
    for stop, languages, parts in states:
        way = (stop, *((name, part.name, part.number) for name, part in parts.items()))
        known = matches[way].languages if way in matches else 0
        matches[way] = Match(rule, stop, languages | known, parts)
    return list(matches.values())


def step(
    element: Element, tokens: Sequence[Token], place: int, languages: int, parts: dict[str, Meaning]
) -> Iterator[tuple[int, int, dict[str, Meaning]]]:
    """Take one element of a pattern: where it leads, the languages still possible, the words named so far."""
    meanings = tokens[place].meanings if place < len(tokens) else ()
    fitting = [each for each in meanings if each.kind in element.kinds and each.languages & languages]
    if element.forbidden:
        if not fitting:
            yield place, languages, parts
        return
    if element.optional:
        yield place, languages, parts
    for meaning in fitting:
        named = {**parts, element.name: meaning} if element.name else parts
        yield place + 1, languages & meaning.languages, named
