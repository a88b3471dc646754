"""How long a planned recall takes beside the chain's, on one memory of turns and records; the planning call is left out.

    python benchmarks/planned_speed.py [--turns 10000] [--records 4000]

Turns are those of benchmarks/speed.py. A scribe in place of a model writes records of words of the turns it is shown,
so that words, vectors, nodes, times and links are as many as a real encoding gives. Times are medians.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel
from speed import SEED, make_turns, sample_sentences

from scrubjay import Memory
from scrubjay.datatypes import Usage
from scrubjay.errors import ModelReplyError
from scrubjay.llm import Completion

if TYPE_CHECKING:
    from collections.abc import Generator

    from scrubjay.llm import ChatRequest, Reply

ROUNDS = 5
WORDS = 10  # of a record


@dataclass
class Scribe:
    """A chat model that writes so many records a turn, of the words of the sample."""

    a_turn: float
    name: str = "scribe"
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))

    def complete(self, request: ChatRequest, output: type[Reply]) -> Completion[Reply]:
        if not issubclass(output, BaseModel):
            raise ModelReplyError("the scribe only encodes")
        words, _ = sample_sentences()
        records = []
        for number in range(1, len(request.turn_ids) + 1):
            if self.chance.random() < self.a_turn:
                said = self.chance.choices(words, k=WORDS)
                cited = sorted({max(1, number - self.chance.randint(0, 2)), number})
                records.append(
                    {
                        "turns": cited,
                        "type": self.chance.choice(("fact", "event", "preference")),
                        "text": " ".join(said),
                        "entities": [said[0], said[1]],
                        "tags": [said[2]],
                        "speaker": None,
                        "stance": "asserted",
                        "t_ref": None,
                        "t_valid_from": None,
                        "t_valid_to": None,
                    }
                )
        text = json.dumps({"records": records, "summary": "", "note": ""})
        usage = Usage(stage=request.stage, model=self.name, calls=1, input_tokens=0, output_tokens=0)
        return Completion(value=output.model_validate_json(text), text=text, truncated=False, usage=usage)

    def stream(self, request: ChatRequest) -> Generator[str, None, Completion[str]]:
        yield from ()
        raise ModelReplyError(f"the scribe only encodes, not {request.stage}")

    def close(self) -> None:
        """Do nothing: there is no connection."""


def fill(path: Path, *, turns: int, records: int) -> int:
    """Make the memory; give how many records it holds."""
    with Memory(path, model=Scribe(a_turn=records / turns)) as memory:
        memory.add_many(make_turns(turns))
        return memory.consolidate(flush=True).records


def measure(path: Path) -> dict[str, float]:
    """Ask the sample's questions by both strategies, by turns, so that both find the machine as it is."""
    _, questions = sample_sentences()
    taken: dict[str, list[float]] = {"chain": [], "planned": []}
    with Memory(path, read_only=True) as memory:
        for strategy in taken:
            memory.recall("warm up", strategy=strategy)
        for question in questions * ROUNDS:
            for strategy, times in taken.items():
                started = time.perf_counter()
                memory.recall(question, strategy=strategy)
                times.append((time.perf_counter() - started) * 1000)
    return {strategy: statistics.median(times) for strategy, times in taken.items()}


def main() -> None:
    """Print the medians and their ratio as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=4_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.jay"
        made = fill(path, turns=asked.turns, records=asked.records)
        medians = measure(path)
    print(
        json.dumps(
            {
                "turns": asked.turns,
                "records": made,
                **{f"{name}, ms": round(value, 2) for name, value in medians.items()},
                "planned / chain": round(medians["planned"] / medians["chain"], 2),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
