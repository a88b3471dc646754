"""Word search over turns: SQLite's FTS5 with an OR of the question's words, beside the postings held in memory.

    python benchmarks/lexical.py [--turns 1000 10000 100000]

The same turns, the same questions, in one run; medians of processor milliseconds, and what is left of a deleted word.
"""

from __future__ import annotations

import argparse
import re
import sqlite3
import statistics
import time
from typing import TYPE_CHECKING

import numpy as np
from speed import make_turns, sample_sentences

from scrubjay.indexing import count_terms
from scrubjay.lexical import LexicalIndex
from scrubjay.settings import LexicalSettings
from scrubjay.terms import extract_terms, hash_terms

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS = 3
HITS = 50


def median_ms(work: Callable[[str], object], questions: list[str]) -> float:
    taken = []
    for question in questions * REPEATS:
        started = time.process_time()
        work(question)
        taken.append((time.process_time() - started) * 1000)
    return statistics.median(taken)


def fill_fts(texts: list[str]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE turn USING fts5 (text, tokenize = 'porter unicode61')")
    connection.executemany("INSERT INTO turn VALUES (?)", [(text,) for text in texts])
    return connection


def ask_fts(connection: sqlite3.Connection) -> Callable[[str], object]:
    def ask(question: str) -> object:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        sql = "SELECT rowid, bm25(turn) FROM turn WHERE turn MATCH ? ORDER BY rank LIMIT ?"
        return connection.execute(sql, (words, HITS)).fetchall()

    return ask


def fill_postings(texts: list[str]) -> LexicalIndex:
    index = LexicalIndex(LexicalSettings())
    counted = [count_terms(text) for text in texts]
    index.append(
        terms=np.concatenate([terms for _, terms, _ in counted]),
        counts=np.concatenate([counts for _, _, counts in counted]),
        distinct=np.array([len(terms) for _, terms, _ in counted], np.int32),
        length=np.array([length for length, _, _ in counted], np.int32),
    )
    return index


def ask_postings(index: LexicalIndex) -> Callable[[str], object]:
    def ask(question: str) -> object:
        scores = index.scores(hash_terms(dict.fromkeys(extract_terms(question))))
        return np.argpartition(-scores, HITS)[:HITS]

    return ask


def count_left_over() -> int:
    """Delete a row from a full-text table; give how often its word still stands in the database's bytes."""
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("CREATE VIRTUAL TABLE turn USING fts5 (text)")
    connection.executemany("INSERT INTO turn VALUES (?)", [(f"word{number}",) for number in range(200)])
    connection.execute("INSERT INTO turn VALUES ('xylophonist')")
    connection.commit()
    connection.execute("DELETE FROM turn WHERE turn MATCH 'xylophonist'")
    connection.commit()
    return connection.serialize().count(b"xylophonist")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    questions = sample_sentences()[1]
    print("| turns | FTS5, ms | postings in memory, ms | ratio |\n|---:|---:|---:|---:|")
    for count in parser.parse_args().turns:
        texts = [turn.text for _, turn in make_turns(count)]
        full_text = median_ms(ask_fts(fill_fts(texts)), questions)
        postings = median_ms(ask_postings(fill_postings(texts)), questions)
        print(f"| {count:,} | {full_text:.2f} | {postings:.2f} | {full_text / postings:.1f} |")
    print(f"a deleted word is left in the full-text table's bytes {count_left_over()} time(s)")


if __name__ == "__main__":
    main()
