"""Organizing: which evidence nodes records hang on, and under which keys they meet."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrubjay.datatypes import NewNode, NodeKind, Record, RecordTime, RecordType, Stance, Support
from scrubjay.organize import FRAME_CHARACTERS, build_nodes, normalize_key


def make_record(
    number: int, entities: tuple[str, ...] = (), tags: tuple[str, ...] = (), **times: str
) -> Record:
    return Record(
        record_id=f"r{number}",
        type=RecordType.FACT,
        text=f"Statement {number}.",
        entities=entities,
        tags=tags,
        time=RecordTime(**times),
        stance=Stance.ASSERTED,
        speaker=None,
        support=Support(supported=True, reason=""),
        turn_ids=(f"s:{number}",),
    )


def nodes_by_key(*records: Record) -> dict[tuple[str, str], NewNode]:
    nodes = build_nodes(records, session_id="s", number=3)
    by_key = {(node.kind.value, node.key): node for node in nodes}
    assert len(by_key) == len(nodes)
    return by_key


def test_every_kind_of_node() -> None:
    """A record hangs on its entities, topics, pairs of both, days, months and the event frame of its segment."""
    record = make_record(1, ("Ana Silva", "Lisbon"), ("Moving",), t_ref="2024-03-11", t_valid_from="2024-02")
    nodes = nodes_by_key(record)
    assert {key: node.text for key, node in nodes.items()} == {
        ("entity", "ana silva"): "Ana Silva",
        ("entity", "lisbon"): "Lisbon",
        ("topic", "moving"): "Moving",
        ("entity_topic", "ana silva · moving"): "Ana Silva: Moving",
        ("entity_topic", "lisbon · moving"): "Lisbon: Moving",
        ("day", "2024-03-11"): "Monday 11 March 2024 (2024-03-11)",
        ("month", "2024-03"): "March 2024 (2024-03)",
        ("month", "2024-02"): "February 2024 (2024-02)",
        ("event_frame", "s#3"): "Moving\nStatement 1.",
    }
    assert all(node.record_ids == ("r1",) for node in nodes.values())


def test_records_share_nodes() -> None:
    """Records that name one thing hang on one node, whose text is the first way it was written."""
    nodes = nodes_by_key(make_record(1, ("e-Mail",)), make_record(2, ("E mail", "E MAIL")), make_record(3))
    assert nodes["entity", "e mail"].record_ids == ("r1", "r2")
    assert nodes["entity", "e mail"].text == "e-Mail"
    assert nodes["event_frame", "s#3"].record_ids == ("r1", "r2", "r3")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Ana Silva", "  ana   SILVA "),
        ("e-mail", "E_mail"),
        ("O'Brien", "O’Brien"),
        ("Straße", "STRASSE"),
        ("ＡＢＣ　Ltd", "abc ltd."),
        ("#Python", "python"),
        ("İstanbul", "i̇stanbul"),
        ("ｶﾞｰﾃﾞﾝ", "ガーデン"),
        ("work/life", "work – life"),
        ("Café", "Cafe\u0301"),
        ("zero\u200bwidth", "zerowidth"),
    ],
)
def test_keys_that_meet(first: str, second: str) -> None:
    """Case, width, separators, punctuation and spaces make no difference."""
    assert normalize_key(first) == normalize_key(second) != ""


@pytest.mark.parametrize(
    ("first", "second"), [("C++", "C#"), ("C++", "C"), ("R&D", "RD"), ("Ana", "Anna"), ("里斯本", "波尔图")]
)
def test_keys_that_differ(first: str, second: str) -> None:
    """Names that only a sign tells apart stay apart."""
    assert normalize_key(first) != normalize_key(second)


def test_nothing_to_call_a_node() -> None:
    """What is only punctuation gives no node, and a year alone no time node."""
    assert set(nodes_by_key(make_record(1, ("?!",), ("—",), t_ref="2024"))) == {("event_frame", "s#3")}


def test_no_records() -> None:
    """A segment without records has no event frame."""
    assert build_nodes([], session_id="s", number=0) == ()


def test_event_frame_has_an_end() -> None:
    """The text of an event frame keeps to its length."""
    frame = nodes_by_key(*[make_record(number, (), ("tag",)) for number in range(1000)])["event_frame", "s#3"]
    assert len(frame.text) == FRAME_CHARACTERS
    assert len(frame.record_ids) == 1000


@settings(deadline=None)
@given(st.text())
def test_normalizing_twice_changes_nothing(label: str) -> None:
    """A key is its own key."""
    assert normalize_key(normalize_key(label)) == normalize_key(label)


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=6))
def test_every_link_is_a_record(labels: list[tuple[str, str]]) -> None:
    """Whatever the labels are, each node is there once and links to records given, in their order."""
    records = [make_record(number, (entity,), (tag,)) for number, (entity, tag) in enumerate(labels)]
    ids = [record.record_id for record in records]
    for node in nodes_by_key(*records).values():
        assert list(node.record_ids) == [record_id for record_id in ids if record_id in node.record_ids]
        assert node.key
        assert node.text or node.kind is NodeKind.EVENT_FRAME
