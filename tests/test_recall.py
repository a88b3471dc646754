"""The four channels of a route, and what they say of turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planned_memories import recollect, remember

from scrubjay.corpus import CorpusCache
from scrubjay.datatypes import RecordType, Role
from scrubjay.presets import QUESTION_PRESETS, QuestionPreset
from scrubjay.reading_settings import RecallChannel, RecallSettings
from scrubjay.recall import Need, Said, limits_for, link_sources, recall_route, top_rows
from scrubjay.record_corpus import TYPES, RecordCache
from scrubjay.routes import QuestionType
from scrubjay.scores import Channels, TurnScores
from scrubjay.settings import LexicalSettings
from scrubjay.terms import extract_terms, hash_terms

if TYPE_CHECKING:
    from pathlib import Path

    from scrubjay.datatypes import TurnTable
    from scrubjay.recall import RouteRecall, Sources
    from scrubjay.record_corpus import RecordCorpus

SETTINGS = RecallSettings()


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> tuple[RecordCorpus, TurnTable]:
    path: Path = tmp_path_factory.mktemp("recall") / "m.jay"
    remember(path)
    with recollect(path) as memory:
        records = RecordCache(LexicalSettings()).current(memory.records)
        return records, CorpusCache(LexicalSettings()).current(memory._store).turns


def need(text: str, *, types: tuple[RecordType, ...] = (), roles: tuple[Role, ...] = ()) -> Need:
    hashes = hash_terms(dict.fromkeys(extract_terms(text)))
    return Need(
        hashes=hashes,
        weights=np.ones(len(hashes), np.float32),
        vectors=np.full((1, 64), 0.125, np.float32),
        time_range=None,
        types=types,
        roles=roles,
    )


def even_scores(count: int) -> TurnScores:
    """Give turns of which none looks better than another."""
    even = np.full(count, 0.1, np.float32)
    channels = Channels(
        lexical=even, dense=even, covered=np.zeros(count, np.uint64), idf=np.empty(0, np.float32)
    )
    return TurnScores(relevance=even, order=np.arange(count), promise=0.5, channels=channels)


def look_for(
    wanted: Need, ground: tuple[RecordCorpus, TurnTable], settings: RecallSettings = SETTINGS
) -> tuple[RouteRecall, Sources]:
    records, table = ground
    sources = link_sources(records, table)
    said = Said(table=table, scores=even_scores(len(table)), sources=sources)
    limits = limits_for(300, settings, QuestionPreset())
    return recall_route(wanted, records, said, limits=limits, settings=settings), sources


def test_budgets_of_table_14() -> None:
    """max(3k, 30) records and nodes, max(k, 20) turns, max(10k, 100) by time, times the question type's factors."""
    few = limits_for(0, SETTINGS, QuestionPreset())
    assert (few.records, few.nodes, few.turns, few.time) == (45, 45, 20, 150)
    many = limits_for(2_000, SETTINGS, QUESTION_PRESETS[QuestionType.AGGREGATE])
    assert (many.records, many.nodes, many.turns, many.time) == (600, 600, 100, 1_000)
    assert set(QUESTION_PRESETS) == set(QuestionType)


def test_a_record_vouches_for_its_turns(ground: tuple[RecordCorpus, TurnTable]) -> None:
    """The turns of the record that has the words become likelier than all others."""
    found, sources = look_for(need("bassoon"), ground)
    best = int(np.argmax(found.score))
    assert found.turns[0] in sources.of(best)


def test_types_are_preferred(ground: tuple[RecordCorpus, TurnTable]) -> None:
    """Records of a type that the route doesn't name count less."""
    records, _ = ground
    plain, _ = look_for(need("coriander walnuts"), ground)
    typed, _ = look_for(need("coriander walnuts", types=(RecordType.PREFERENCE,)), ground)
    kept = records.records.type == TYPES.index(RecordType.PREFERENCE)
    before, after = (found.channels[RecallChannel.RECORDS] for found in (plain, typed))
    np.testing.assert_allclose(after[kept], before[kept])
    np.testing.assert_allclose(after[~kept], before[~kept] * SETTINGS.other_type)


def test_roles_are_preferred(ground: tuple[RecordCorpus, TurnTable]) -> None:
    """Turns said in the role asked for become likelier."""
    plain, _ = look_for(need("bassoon"), ground)
    asked, _ = look_for(need("bassoon", roles=(Role.USER,)), ground)
    np.testing.assert_allclose(asked.log_odds, plain.log_odds + SETTINGS.weights.role)


def test_links_to_unknown_turns_are_left_out(ground: tuple[RecordCorpus, TurnTable]) -> None:
    """As those to turns that were forgotten meanwhile, or that a filter leaves out."""
    records, table = ground
    allowed = np.zeros(len(table), np.bool_)
    allowed[0] = True
    sources = link_sources(records, table, allowed=allowed)
    assert set(sources.turn.tolist()) == {0}
    assert int(sources.count.sum()) == len(sources.turn)


@given(st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.6]), max_size=12), st.integers(1, 12))
def test_equals_of_the_last_are_all_in(scores: list[float], most: int) -> None:
    """So that a cut never depends on the order of writing; what scores nothing is out."""
    rows = top_rows(np.array(scores), most).tolist()
    found = sorted((score for score in scores if score > 0), reverse=True)
    least = found[min(most, len(found)) - 1] if found else 1.0
    assert rows == [row for row, score in enumerate(scores) if score >= least]
