"""Records in memory: brought up to date they are the same as read anew."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest
from planned_memories import EVENINGS, RECORDS, recollect, record, remember

from scrubjay.datatypes import RecordTime
from scrubjay.record_corpus import RecordCache, content_keys, interval_of
from scrubjay.settings import LexicalSettings
from scrubjay.terms import hash_terms

if TYPE_CHECKING:
    from pathlib import Path

    from scrubjay.record_corpus import RecordCorpus

LATER = {"attic": (("Jonas", "The attic smells of apples."), ("Mira", "Oleg stores them there."))}
LATER_RECORDS = (
    record("Oleg stores apples in the attic.", "attic:1", entities=["Oleg"], tags=["attic"], day="2024-03"),
)


def columns(corpus: RecordCorpus) -> dict[str, object]:
    """Give all that a corpus holds, as lists."""
    query = np.full(64, 0.125, np.float32)
    asked = hash_terms(["oleg", "appl", "kitchen", "mira"])
    table = {field.name: getattr(corpus.records, field.name) for field in fields(corpus.records)}
    links = {
        name: getattr(corpus, name)
        for name in ("node_row", "node_kind", "source_record", "source_turn", "link_node", "link_record")
    }
    searched = {
        "words": corpus.lexical.scores(asked),
        "vectors": corpus.vectors.scores(query),
        "node words": corpus.node_lexical.scores(asked),
        "node vectors": corpus.node_vectors.scores(query),
    }
    return {name: np.array(held).tolist() for name, held in (table | links | searched).items()}


def test_brought_up_to_date_is_read_anew(tmp_path: Path) -> None:
    """After more records, after a forgetting, and where nothing changed."""
    path = tmp_path / "m.jay"
    remember(path)
    cache = RecordCache(LexicalSettings())
    with recollect(path, read_only=False) as memory:
        first = cache.current(memory.records)
        assert cache.current(memory.records) is first
        remember(path, LATER_RECORDS, LATER)
        grown = cache.current(memory.records)
        assert len(grown.records) == len(RECORDS) + 1
        np.testing.assert_equal(
            columns(grown), columns(RecordCache(LexicalSettings()).current(memory.records))
        )
        memory.forget(session="kitchen")
        fewer = cache.current(memory.records)
        assert len(fewer.records) == len(RECORDS) - 1
        np.testing.assert_equal(
            columns(fewer), columns(RecordCache(LexicalSettings()).current(memory.records))
        )
    assert EVENINGS  # what `remember` fills a memory with


def seconds(year: int, month: int, day: int) -> float:
    return datetime(year, month, day, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("times", "interval"),
    [
        (RecordTime(t_ref="2024-03-04"), (seconds(2024, 3, 4), seconds(2024, 3, 5))),
        (RecordTime(t_ref="2024-02"), (seconds(2024, 2, 1), seconds(2024, 3, 1))),
        (RecordTime(t_ref="2023"), (seconds(2023, 1, 1), seconds(2024, 1, 1))),
        (
            RecordTime(t_valid_from="2023-05", t_valid_to="2023-06-02"),
            (seconds(2023, 5, 1), seconds(2023, 6, 3)),
        ),
        (RecordTime(t_valid_from="2023-05-01"), (seconds(2023, 5, 1), np.inf)),
        (RecordTime(t_valid_to="2023-05-01"), (-np.inf, seconds(2023, 5, 2))),
        (RecordTime(t_ref="9999-12-31"), (seconds(9999, 12, 31), seconds(9999, 12, 31) + 86_400)),
        (RecordTime(), (np.nan, np.nan)),
    ],
)
def test_intervals(times: RecordTime, interval: tuple[float, float]) -> None:
    """A record's time is all of the day, month or year it names; what holds from a day on has no end."""
    np.testing.assert_equal(interval_of(times), interval)


def test_content_keys_follow_the_words() -> None:
    """Equal words have equal keys wherever they stand; a record without words has one too."""
    one, other = hash_terms(["apple", "attic"]), hash_terms(["pear"])
    keys = content_keys(
        np.concatenate((one, other, one)), np.array([len(one), len(other), 0, len(one)], np.int32)
    )
    assert keys[0] == keys[3]
    assert len(set(keys.tolist())) == 3
