"""LangGraph's store over a memory, beside LangGraph's own; a retriever in a chain of LangChain's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime  # noqa: TC002 -- LangGraph reads the node's annotations when it runs
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from small_memories import open_memory, texts

from scrubjay.errors import InputError, TurnError
from scrubjay.integrations.langchain import ScrubJayRetriever
from scrubjay.integrations.langgraph import ScrubJayStore
from scrubjay.integrations.store_values import namespace_of, session_of

if TYPE_CHECKING:
    from pathlib import Path

    from scrubjay.memory import Memory

MIRA = ("users", "mira")
OLEG = ("users", "oleg")
FILTERS: tuple[dict[str, Any], ...] = (
    {"kind": "dog"},
    {"age": {"$gt": 3}},
    {"age": {"$gte": 3, "$lt": 12}},
    {"age": {"$lte": 3}},
    {"kind": {"$ne": "dog"}},
    {"kind": {"$eq": "cat"}},
    {"home": {"city": "Lübeck"}},
    {"home": {"city": {"$ne": "Lübeck"}}},
    {"kind": "dog", "age": 3},
    {"no such": 1},
)


@pytest.fixture
def store(memory: Memory) -> ScrubJayStore:
    return ScrubJayStore(memory)


def fill(store: BaseStore) -> None:
    store.put(MIRA, "pepper", {"kind": "dog", "age": 3, "home": {"city": "Lübeck"}})
    store.put(MIRA, "rex", {"kind": "dog", "age": 12, "home": {"city": "Visby"}})
    store.put(OLEG, "tom", {"kind": "cat", "age": 4, "home": {"city": "Lübeck"}, "tags": ["grey", None]})
    store.put(("users", "mira", "rooms"), "kitchen", {"kind": "room", "colour": "pistachio", "age": 1})
    store.put(("teams",), "b.1", {"text": "Ein Schlüssel mit Punkt.", "kind": "key", "age": 0})


def shown(store: BaseStore, **search: Any) -> list[tuple[tuple[str, ...], str, dict[str, Any]]]:
    return sorted((item.namespace, item.key, item.value) for item in store.search((), **search))


# --- like LangGraph's own store ---


def test_a_value_is_kept_and_changed(store: ScrubJayStore) -> None:
    """What is put is got, an update replaces it, and the time of its making stays."""
    store.put(MIRA, "pepper", {"kind": "dog", "age": 3, "nested": {"a": [1, None, "ü"]}})
    first = store.get(MIRA, "pepper")
    store.put(MIRA, "pepper", {"kind": "dog", "age": 4})
    second = store.get(MIRA, "pepper")
    assert first is not None
    assert second is not None
    assert (first.value, first.key, first.namespace) == (
        {"kind": "dog", "age": 3, "nested": {"a": [1, None, "ü"]}},
        "pepper",
        MIRA,
    )
    assert second.value == {"kind": "dog", "age": 4}
    assert (second.created_at, second.updated_at > first.updated_at) == (first.created_at, True)
    assert store.get(MIRA, "rex") is None
    assert store.get(("nowhere",), "pepper") is None


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_filters_choose_what_langgraphs_own_store_chooses(
    store: ScrubJayStore, wanted: dict[str, Any]
) -> None:
    """A filter accepts just the items that LangGraph's store in memory accepts."""
    own = InMemoryStore()
    fill(store)
    fill(own)
    assert shown(store, filter=wanted) == shown(own, filter=wanted)


@pytest.mark.parametrize(
    "listing",
    [
        {},
        {"max_depth": 1},
        {"max_depth": 2},
        {"prefix": ("users",)},
        {"prefix": ("*", "mira")},
        {"suffix": ("mira",)},
        {"suffix": ("mira", "*")},
        {"prefix": ("users",), "suffix": ("rooms",)},
        {"prefix": ("users", "mira", "rooms", "shelf")},
        {"limit": 2, "offset": 1},
    ],
    ids=str,
)
def test_namespaces_are_those_langgraphs_own_store_lists(
    store: ScrubJayStore, listing: dict[str, Any]
) -> None:
    """Namespaces are listed as LangGraph's store in memory lists them."""
    own = InMemoryStore()
    fill(store)
    fill(own)
    assert store.list_namespaces(**listing) == own.list_namespaces(**listing)


def test_a_batch_reads_what_was_there_before_it(store: ScrubJayStore) -> None:
    """Operations given together give what LangGraph's store in memory gives, in the same order."""
    own = InMemoryStore()
    ops: list[Op] = [
        PutOp(MIRA, "pepper", {"age": 4}),
        GetOp(MIRA, "pepper"),
        PutOp(MIRA, "pepper", {"age": 5}),
        PutOp(MIRA, "rex", None),
        SearchOp(MIRA, filter={"kind": "dog"}),
        ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("teams",)),)),
    ]
    for each in (store, own):
        fill(each)
        given = each.batch(ops)
        assert [type(result) for result in given[:4]] == [type(None), type(given[1]), type(None), type(None)]
        assert given[1].value["age"] == 3  # type: ignore[union-attr]  # an item, as the next line shows
        assert sorted(item.key for item in given[4]) == ["pepper", "rex"]  # type: ignore[union-attr]
        assert given[5] == [("teams",)]
    assert shown(store) == shown(own)


def test_pages_leave_nothing_out(store: ScrubJayStore) -> None:
    """Pages of a listing and of a search hold every item once, the last updated first in a listing."""
    for number in range(7):
        store.put(MIRA, str(number), {"text": f"Pepper snored in the car, night {number}"})
    store.put(MIRA, "0", {"text": "Pepper snored in the car, night 7"})
    pages = [store.search(MIRA, limit=3, offset=offset) for offset in (0, 3, 6)]
    assert [item.key for page in pages for item in page] == ["0", "6", "5", "4", "3", "2", "1"]
    ranked = [store.search(MIRA, query="Who snored?", limit=3, offset=offset) for offset in (0, 3, 6)]
    assert sorted(item.key for page in ranked for item in page) == [str(number) for number in range(7)]


def test_bad_namespaces_are_refused(store: ScrubJayStore) -> None:
    """A namespace that LangGraph forbids is refused, and one it allows can't be taken for another."""
    for namespace in ((), ("",), ("a.b",), ("langgraph", "x")):
        with pytest.raises(InvalidNamespaceError):
            store.put(namespace, "k", {"a": 1})
    store.put(('a", "b',), "k", {"a": 1})
    assert store.get(("a", "b"), "k") is None
    assert store.list_namespaces() == [('a", "b',)]


# --- what is ours ---


def test_search_finds_by_words_and_says_how_relevant(store: ScrubJayStore, memory: Memory) -> None:
    """A query ranks the wanted items, with scores in [0, 1]; turns of conversations and old versions are no items."""
    memory.add({"role": "user", "content": "Pepper snored all night."}, session_id="ferry")
    store.put(MIRA, "a", {"text": "Pepper snored until the boat to Visby."})
    store.put(MIRA, "b", {"text": "The kitchen is pistachio."})
    store.put(OLEG, "c", {"text": "Pepper snored, says Oleg."})
    store.put(MIRA, "b", {"text": "The kitchen is pistachio now, and Pepper snored in it."})
    found = store.search(MIRA, query="Where did Pepper snore?")
    assert {item.key for item in found} == {"a", "b"}
    assert all(isinstance(item, SearchItem) and 0 < (item.score or 0) <= 1 for item in found)
    assert [item.score for item in found] == sorted((item.score or 0 for item in found), reverse=True)
    old = store.search(MIRA, query="kitchen pistachio")
    assert [item.value["text"] for item in old if item.key == "b"] == [
        "The kitchen is pistachio now, and Pepper snored in it."
    ]
    assert [item.key for item in store.search(MIRA, query="snore", filter={"text": {"$gt": "T"}})] == ["b"]


def test_only_the_fields_asked_for_are_searched(memory: Memory) -> None:
    """`fields` and `index` say what of a value is searched, and nothing is with `index=False`."""
    store = ScrubJayStore(memory, fields=["text"])
    store.put(MIRA, "a", {"text": "a bassoon", "secret": "marzipan"})
    store.put(MIRA, "b", {"text": "a violin", "parts": [{"name": "bow"}]}, index=["parts[*].name"])
    store.put(MIRA, "c", {"text": "a ladder"}, index=False)
    assert store.search(MIRA, query="bassoon")[0].key == "a"
    assert store.search(MIRA, query="bow")[0].key == "b"
    assert "c" not in {item.key for item in store.search(MIRA, query="ladder c")}
    assert len(store.search(MIRA)) == 3
    assert texts(memory) == ["a bassoon", "bow", "c"]


def test_updates_keep_the_log_and_deletion_clears_it(
    store: ScrubJayStore, memory: Memory, tmp_path: Path
) -> None:
    """Old values stay in the log until the key is deleted; then no byte of any version is left."""
    store.put(MIRA, "city", {"text": "Lives in Lübeck"})
    store.put(MIRA, "city", {"text": "Lives in Lübeck"})
    store.put(MIRA, "city", {"text": "Lives in Visby"})
    store.put(MIRA, "pet", {"text": "Has a dog"})
    assert texts(memory) == ["Lives in Lübeck", "Lives in Visby", "Has a dog"]
    store.delete(MIRA, "city")
    store.delete(MIRA, "city")
    assert store.get(MIRA, "city") is None
    assert texts(memory) == ["Has a dog"]
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert "Lübeck".encode() not in held
    store.delete(MIRA, "pet")
    assert store.list_namespaces() == []


def test_it_lasts_and_other_processes_see_it(store: ScrubJayStore, tmp_path: Path) -> None:
    """What one opening of the file puts, another gets at once."""
    fill(store)
    with open_memory(tmp_path / "memory.jay") as other:
        again = ScrubJayStore(other)
        assert shown(again) == shown(store)
        again.delete(MIRA, "pepper")
    assert store.get(MIRA, "pepper") is None


def test_what_cannot_be_kept_is_an_error(store: ScrubJayStore) -> None:
    """A value that is no JSON, an unknown comparison and a time to live are refused, not ignored."""
    with pytest.raises(TurnError, match="JSON"):
        store.put(MIRA, "k", {"a": object()})
    store.put(MIRA, "k", {"a": 1})
    with pytest.raises(InputError, match="can't compare by"):
        store.search(MIRA, filter={"a": {"$like": "x"}})
    with pytest.raises(NotImplementedError):
        store.put(MIRA, "k", {"a": 1}, ttl=5)


def test_kinds_that_have_no_order(store: ScrubJayStore) -> None:
    """An order is asked of a value that is missing or of another kind: it isn't accepted, and nothing fails."""
    store.put(MIRA, "k", {"a": "text"})
    assert store.search(MIRA, filter={"a": {"$gt": 1}}) == []
    assert store.search(MIRA, filter={"b": {"$lt": 1}}) == []


def test_sessions_of_others_are_no_namespaces(store: ScrubJayStore, memory: Memory) -> None:
    """A session's id is read back to its namespace, and what isn't one is left alone."""
    assert namespace_of(session_of(("a", 'b", "c'))) == ("a", 'b", "c')
    for other in ("monday", "langgraph:", "langgraph:[", "langgraph:3"):
        assert namespace_of(other) is None
        memory.add({"role": "user", "content": "hello"}, session_id=other)
    assert store.list_namespaces() == []
    assert store.search(()) == []


def test_async_callers(store: ScrubJayStore) -> None:
    """The asynchronous methods do the same."""

    async def use() -> list[str]:
        await store.aput(MIRA, "pepper", {"text": "Pepper snores"})
        await asyncio.gather(*(store.aput(OLEG, str(number), {"n": number}) for number in range(8)))
        assert len(await store.asearch(OLEG)) == 8
        await store.adelete(OLEG, "3")
        assert await store.aget(OLEG, "3") is None
        return [item.key for item in await store.asearch(("users",), query="Who snores?")]

    assert asyncio.run(use())[0] == "pepper"


# --- in a graph ---


class State(TypedDict):
    said: str
    reply: str


def remember(state: State, runtime: Runtime[None]) -> dict[str, str]:
    assert runtime.store is not None
    found = runtime.store.search(MIRA, query=state["said"])
    key = str(len(runtime.store.search(MIRA)))
    runtime.store.put(MIRA, key, {"text": state["said"]})
    return {"reply": found[0].value["text"] if found else "nothing yet"}


def test_a_graph_remembers_from_run_to_run(store: ScrubJayStore) -> None:
    """A compiled graph's node finds in one run what another run stored."""
    builder = StateGraph(State)
    builder.add_node("remember", remember)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", END)
    graph = builder.compile(store=store)
    first = graph.invoke({"said": "Oleg plays the bassoon.", "reply": ""})
    second = asyncio.run(graph.ainvoke({"said": "Who plays the bassoon?", "reply": ""}))
    assert (first["reply"], second["reply"]) == ("nothing yet", "Oleg plays the bassoon.")


# --- the retriever ---


def test_documents_say_whose_they_are(full_memory: Memory) -> None:
    """The retriever gives the evidence's turns in its order, each with its id, probability and reason."""
    evidence = full_memory.recall("Who held the ladder?", max_tokens=150)
    documents = ScrubJayRetriever(memory=full_memory, max_tokens=150).invoke("Who held the ladder?")
    assert tuple(document.id for document in documents) == evidence.turn_ids
    by_id = {document.id: document for document in documents}
    assert by_id["kitchen:2"].page_content == "My neighbour Oleg did. He plays the bassoon, you know."
    for document, link in zip(documents, evidence.links, strict=True):
        assert (document.metadata["probability"], document.metadata["reason"]) == (
            link.probability,
            link.reason,
        )
    assert by_id["kitchen:2"].metadata["said_at"] == "2024-03-04T18:32:00+01:00"
    assert by_id["kitchen:2"].metadata["speaker"] == "Mira"


def test_a_chain_answers_from_documents(full_memory: Memory) -> None:
    """In a chain of LangChain's, synchronous or not, the retriever feeds a prompt."""
    retriever = ScrubJayRetriever(memory=full_memory)
    prompt = ChatPromptTemplate.from_template("{context}\n\n{question}")
    model = FakeListChatModel(responses=["Oleg.", "Oleg again."])
    chain = {"context": retriever, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
    assert chain.invoke("Who held the ladder?") == "Oleg."
    assert asyncio.run(chain.ainvoke("Who held the ladder?")) == "Oleg again."


def test_errors_come_through(memory: Memory) -> None:
    """A question that can't be asked raises; nothing relevant is an empty list."""
    retriever = ScrubJayRetriever(memory=memory)
    with pytest.raises(InputError, match="isn't blank"):
        retriever.invoke(" ")
    assert retriever.invoke("Who held the ladder?") == []
