"""How often evidence is added to a prompt that nobody asked to have it added to: where it helps, and where it is in the way.

    python benchmarks/prompt_gate.py DATASET=PATH …

Claude Code's hook and LlamaIndex's memory add evidence to a prompt where the best of it bears on the prompt enough
(`integrations.earlier.Adding`). Each conversation becomes a memory, and a new session begins: the data set's questions
with evidence are asked, those without an answer, and prompts that no memory has to do with: small talk and work on code.
A data set whose file isn't there is skipped.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrubjay.bench.given import load_given
from scrubjay.integrations.earlier import Adding, bearing_of
from scrubjay.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrubjay.bench.questions import BenchSample

LEAST = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
SMALL_TALK = (
    "Thanks!",
    "Thank you so much, that helps.",
    "Hi there",
    "Good morning!",
    "ok",
    "Great, go on.",
    "yes, please do",
    "No, that's not what I meant.",
    "lol",
    "See you tomorrow!",
    "Danke dir!",
    "Alles klar, mach weiter.",
    "Guten Morgen",
    "¡Gracias!",
    "Vale, sigue.",
    "谢谢！",
    "好的，继续。",
    "早上好",
)
WORK = (
    "Fix the bug in foo.py.",
    "Run the tests and fix what fails.",
    "Add a docstring to parse_header in http/parser.py",
    "Why does `make check` say E501 in line 88?",
    "Refactor the retry loop into a function of its own, and add a test for the timeout.",
    "Rename UserService to AccountService everywhere.",
    "commit this with a good message",
    "What does this regular expression match: ^[a-z0-9_-]{3,16}$ ?",
    "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'",
    "Write a Dockerfile for a FastAPI application with a non-root user.",
    "Update the dependencies in package.json and check that the build still passes.",
    "Explain the difference between a process and a thread.",
    "Convert this CSS from floats to grid.",
    "Behebe den Fehler in der Funktion lade_daten.",
    "Arregla las pruebas que fallan en el módulo de pagos.",
    "修复登录页面的空指针错误。",
)
PROMPTS = {"small talk": SMALL_TALK, "work on code": WORK}


@dataclass(slots=True, kw_only=True)
class Bearing:
    """How far the evidence for prompts of a kind bears on them, and whether it held what was wanted."""

    bearings: list[float] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)  # a gold turn, of prompts that have one


def put_prompts(sample: BenchSample, max_tokens: int) -> Iterator[tuple[str, float, bool]]:
    """Give the kind of each prompt, how far its evidence bears on it, and whether a gold turn is in it."""
    with Memory(":memory:") as memory:
        sessions = sample.conversation.sessions
        memory.add_many((session.session_id, turn) for session in sessions for turn in session.turns)
        for question in sample.questions:
            kind = "questions with evidence" if question.evidence else "questions without an answer"
            evidence = memory.recall(question.question, max_tokens=max_tokens)
            yield kind, bearing_of(evidence), bool({*evidence.turn_ids} & {*question.evidence})
        for kind, prompts in PROMPTS.items():
            for prompt in prompts:
                yield kind, bearing_of(memory.recall(prompt, max_tokens=max_tokens)), False


def main() -> None:
    """Print a row for each kind of prompt, and a column for each least relevance."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="+", help="a name, or name=path")
    adding = Adding()
    for dataset in load_given(parser.parse_args().datasets):
        kinds: dict[str, Bearing] = defaultdict(Bearing)
        for sample in dataset.samples:
            for kind, bearing, held in put_prompts(sample, adding.max_tokens):
                kinds[kind].bearings.append(bearing)
                kinds[kind].held.append(held)
        print(f"\n{dataset.name}: evidence added, % of prompts, from each least relevance on "
              f"(the default is {adding.least_relevance}); data sha256 {dataset.sha256[:16]}…\n")  # fmt: skip
        print(f"| prompts | | {' | '.join(map(str, LEAST))} |\n|---|---:|{'---:|' * len(LEAST)}")
        for kind, found in kinds.items():
            print(row(kind, found.bearings))
            if any(found.held):
                both = zip(found.bearings, found.held, strict=True)
                print(row("… a gold turn in it", [bearing if held else 0.0 for bearing, held in both]))


def row(name: str, bearings: list[float]) -> str:
    shares = (100 * sum(bearing >= least for bearing in bearings) / len(bearings) for least in LEAST)
    return f"| {name} | {len(bearings):,} | {' | '.join(f'{share:.1f}' for share in shares)} |"


if __name__ == "__main__":
    main()
