"""Reranking: the order it gives, the time it may take, and what servers answer."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import Answer, serve
from small_memories import PATIENCE

from scrubjay.errors import MissingExtraError, RerankerError, SettingsError
from scrubjay.http_reranker import open_reranker
from scrubjay.rerank import CrossEncoderReranker, OverlapReranker, Pace, Reranking, load_reranker, rerank
from scrubjay.settings import RerankSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrubjay.rerank import Reranker

SETTINGS = RerankSettings()
TEXTS = ["Ana likes tea.", "Ben sold his old boat in Porto.", "The boat was blue."]


def reranked(
    texts: Sequence[str], *, query: str = "Who sold the old boat?", limit: int = 2, **fields: Any
) -> Reranking:
    return rerank(query, texts, limit=limit, reranker=OverlapReranker(), settings=RerankSettings(**fields))


def http(url: str, **fields: Any) -> Reranker:
    found = load_reranker(RerankSettings(reranker=url, **fields))
    assert found is not None
    return found


def results(*scores: float, key: str = "relevance_score") -> list[dict[str, Any]]:
    """Give results the way servers do, best first."""
    found = [{"index": place, key: score} for place, score in enumerate(scores)]
    return sorted(found, key=lambda one: -one[key])


def answers(*scores: float, **fields: Any) -> Answer:
    return Answer(body=json.dumps({"results": results(*scores), **fields}).encode())


# --- the stage ---


def test_order_is_the_rerankers() -> None:
    """Best first, and the scores are those of the candidates as they were given."""
    found = reranked(TEXTS)
    assert found.order == (1, 2, 0)
    assert len(found.scores) == 3
    assert found.scores[0] == 0.0


def test_the_pool_is_larger_than_what_is_asked_for() -> None:
    """What stood behind the cut can come before it; what stands behind the pool keeps its place."""
    texts = ["nothing"] * 9 + ["Ben sold the old boat"] + ["the old boat was sold"]
    assert reranked(texts, limit=2, pool=1, pool_share=5).order[:2] == (9, 0)
    assert reranked(texts, limit=2, pool=1, pool_share=5).order[-1] == 10


@given(st.lists(st.text(max_size=20), max_size=12), st.integers(1, 5))
def test_no_candidate_is_lost(texts: list[str], limit: int) -> None:
    """The new order has every candidate once, whatever they say."""
    assert sorted(reranked(texts, limit=limit, pool=2, pool_share=1).order) == list(range(len(texts)))


def test_equals_keep_their_order() -> None:
    """Where the reranker sees no difference, the order so far stands."""
    assert reranked(["a", "b", "c"]).order == (0, 1, 2)


def test_long_candidates_are_cut() -> None:
    """A reranker reads so many characters of a candidate and no more."""
    assert reranked(["x" * 50 + " boat"], longest_text=50).scores == (0.0,)


def test_scores_that_are_none_are_refused() -> None:
    """Not a number is not a score."""

    broken = CrossEncoderReranker("m", lambda pairs: [float("nan")] * len(pairs), batch=4)
    with pytest.raises(RerankerError, match="finite scores"):
        rerank("q", TEXTS, limit=1, reranker=broken, settings=SETTINGS)


# --- the deadline ---


def slow_model(seconds: float, asked: list[int]) -> CrossEncoderReranker:
    def predict(pairs: list[tuple[str, str]]) -> list[float]:
        asked.append(len(pairs))
        time.sleep(seconds * len(pairs))
        return [float(len(text)) for _query, text in pairs]

    return CrossEncoderReranker("slow", predict, batch=4)


def test_a_slow_model_scores_what_there_is_time_for() -> None:
    """What it has no time for keeps its order behind what was scored, and the deadline holds."""
    asked: list[int] = []
    texts = ["x" * length for length in range(1, 101)]
    found = rerank("q", texts, limit=9, reranker=slow_model(0.01, asked), settings=SETTINGS, deadline=0.3)
    scored = sum(asked)
    assert 4 <= scored < 40
    assert found.order == (*range(scored - 1, -1, -1), *range(scored, 100))
    assert len(found.scores) == scored


def test_a_late_read_still_measures_one_pair() -> None:
    """However little time is left, the pace is measured anew; with none at all nothing is asked."""
    asked: list[int] = []
    model = slow_model(0.02, asked)
    rerank("q", TEXTS, limit=1, reranker=model, settings=SETTINGS, deadline=10)
    rerank("q", TEXTS, limit=1, reranker=model, settings=SETTINGS, deadline=0.001)
    assert asked == [3, 1]
    assert rerank("q", TEXTS, limit=1, reranker=model, settings=SETTINGS, deadline=-1).order == (0, 1, 2)
    assert asked == [3, 1]


def test_pace_follows_what_it_measures() -> None:
    """Half of what is expected comes from the last measurement."""
    pace = Pace()
    assert pace.pairs_within(1, unmeasured=7) == 7
    pace.measure(10, 1.0)
    assert pace.pairs_within(1, unmeasured=7) == 10
    pace.measure(10, 3.0)
    assert pace.pairs_within(1, unmeasured=7) == 5
    assert pace.pairs_within(-1, unmeasured=7) == 0


def test_a_model_that_fails_is_our_error() -> None:
    """What torch raises comes as RerankerError, with its words."""

    def predict(_pairs: list[tuple[str, str]]) -> list[float]:
        raise RuntimeError("out of memory")

    with pytest.raises(RerankerError, match="out of memory"):
        CrossEncoderReranker("m", predict, batch=4).score("q", TEXTS, deadline=1)


# --- names ---


def test_none_by_default() -> None:
    """Nothing is reranked unless it is asked for."""
    assert load_reranker(SETTINGS) is None
    assert isinstance(load_reranker(RerankSettings(reranker="overlap")), OverlapReranker)


@pytest.mark.parametrize(
    "name", ["bge", "sentence-transformers:", "http:", "http:ftp://x#m", "http://x:port", "https:"]
)
def test_a_name_that_means_nothing(name: str) -> None:
    """It says how a name is written."""
    with pytest.raises(SettingsError):
        load_reranker(RerankSettings(reranker=name))


def test_a_key_that_no_header_takes() -> None:
    """A key with a line break can't add a header."""
    with pytest.raises(SettingsError, match="key"):
        http("http://localhost#m", api_key="a\nX: b")


def test_cross_encoder_needs_its_package_or_a_model(tmp_path: Path) -> None:
    """Without the extra it is named; with it, a folder that holds no model is an error that names the folder."""
    expected = RerankerError if find_spec("sentence_transformers") else MissingExtraError
    with pytest.raises(expected, match=r"scrubjay\[rerank\]|can't be loaded"):
        load_reranker(RerankSettings(reranker=f"sentence-transformers:{tmp_path}"))


def test_a_real_cross_encoder(tmp_path: Path) -> None:
    """A tiny cross-encoder with random weights loads from its folder and scores every pair."""
    if find_spec("sentence_transformers") is None:
        pytest.skip('needs sentence-transformers: pip install "scrubjay[rerank]"')
    transformers = import_module("transformers")

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "boat", "old", "tea"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    config = transformers.BertConfig(
        vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    config.num_labels = 1
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    transformers.BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    found = rerank(
        "old boat", TEXTS, limit=1, reranker=http(f"sentence-transformers:{tmp_path}"), settings=SETTINGS
    )
    assert sorted(found.order) == [0, 1, 2]
    assert len(found.scores) == 3


# --- servers ---


def test_jina_cohere_vllm_and_llama_cpp() -> None:
    """One request has the query, the documents and the model; the scores come back in the order of the documents."""
    with serve(answers(0.1, 0.9, 0.5, id="x", model="m", usage={"total_tokens": 9})) as server:
        model = http(f"http:{server.url}/rerank#bge", api_key="secret")
        found = rerank("boat", TEXTS, limit=1, reranker=model, settings=SETTINGS)
    assert found == Reranking(order=(1, 2, 0), scores=(0.1, 0.9, 0.5))
    assert server.asked == [
        {"query": "boat", "documents": TEXTS, "top_n": 3, "model": "bge", "authorization": "Bearer secret"}
    ]


def test_text_embeddings_inference() -> None:
    """A server that wants `texts` refuses `documents`, is asked anew, and from then on asked its own way."""
    refused = Answer(status=422, body=b"Failed to deserialize the JSON body: missing field `texts`")
    scored = Answer(body=json.dumps(results(-3.5, 2.0, 0.5, key="score")).encode())
    with serve(refused, scored, scored) as server:
        model = http(f"http:{server.url}/rerank")
        for _ in range(2):
            assert model.score("boat", TEXTS, deadline=PATIENCE) == [-3.5, 2.0, 0.5]
    assert [sorted(asked.keys() - {"authorization"}) for asked in server.asked] == [
        ["documents", "query", "top_n"],
        ["query", "texts", "truncate"],
        ["query", "texts", "truncate"],
    ]


def test_a_url_without_a_path() -> None:
    """The host alone means /v1/rerank there."""
    model = http("http://localhost:8080#bge")
    assert model.name == "http://localhost:8080/v1/rerank#bge"
    assert http("https://api.example.com/v2/rerank#m").name == "https://api.example.com/v2/rerank#m"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=500), "answered 500"),
        (Answer(status=401, body=b'{"detail": "bad key"}'), "answered 401.*bad key"),
        (Answer(status=307, headers={"Location": "http://localhost:1/"}, body=b""), "answered 307"),
        (Answer(body=b"<html>busy</html>"), "no list of scores"),
        (Answer(body=b'{"results": "none"}'), "no list of scores"),
        (Answer(body=b'{"results": [{"index": 0}]}'), "no list of scores"),
        (answers(0.1, 0.2), r"each of 3 documents, found indices \[1, 0\]"),
        (answers(0.1, 0.2, 0.3, 0.4), "each of 3 documents"),
        (
            Answer(body=json.dumps({"results": [{"index": 1, "score": 0.5}] * 3}).encode()),
            "each of 3 documents",
        ),
        (Answer(body=b'{"results": []}'), "each of 3 documents"),
        (Answer(body=b'{"results": [' + b" " * 5_000), "longer than 4,000 bytes"),
    ],
)
def test_a_reply_that_cannot_be_used(answer: Answer, words: str) -> None:
    """It is an error that says what was found, never a half order."""
    with serve(answer) as server:
        model = http(f"http:{server.url}/rerank#m", longest_reply=4_000)
        with pytest.raises(RerankerError, match=words):
            rerank("boat", TEXTS, limit=1, reranker=model, settings=SETTINGS)


def test_a_refusal_in_both_shapes_is_told_as_it_was_first() -> None:
    """A bad request stays one, and the next is tried the usual way again."""
    with serve(
        Answer(status=400, body=b"no such model"), Answer(status=404, body=b"no"), answers(1.0)
    ) as server:
        model = http(f"http:{server.url}/rerank#m")
        with pytest.raises(RerankerError, match="answered 400: no such model"):
            model.score("boat", ["x"], deadline=PATIENCE)
        assert model.score("boat", ["x"], deadline=PATIENCE) == [1.0]


def test_nobody_listens() -> None:
    """A refused connection is an error that names the server."""
    with serve() as server:
        url = server.url
    with pytest.raises(RerankerError, match="http://127"):
        http(f"http:{url}/rerank#m").score("boat", TEXTS, deadline=PATIENCE)


def test_a_slow_server_is_given_up_at_the_deadline() -> None:
    """It is an error when time is up, and the pace is taken to be no better than that."""
    pace = Pace()
    with serve(Answer(seconds=PATIENCE)) as server:
        model = open_reranker(f"http:{server.url}/rerank#m", SETTINGS, pace=pace)
        with pytest.raises(RerankerError, match=r"timed out|deadline"):
            model.score("boat", ["x"] * 10, deadline=0.3)
    assert pace.pairs_within(0.29, unmeasured=99) < 10


def test_a_slow_server_is_asked_for_less() -> None:
    """A request is only as long as the measured pace allows, and of one document at least."""
    pace = Pace()
    pace.measure(1, PATIENCE / 4)
    with serve(answers(0.1, 0.2, 0.3, 0.4), answers(0.5)) as server:
        model = open_reranker(f"http:{server.url}/rerank#m", SETTINGS, pace=pace)
        assert model.score("boat", ["x"] * 10, deadline=PATIENCE) == [0.1, 0.2, 0.3, 0.4]
        pace.measure(1, 4 * PATIENCE)
        assert model.score("boat", ["x"] * 10, deadline=PATIENCE) == [0.5]
    assert [len(asked["documents"]) for asked in server.asked] == [4, 1]


@contextmanager
def dripping_server(seconds: float) -> Iterator[str]:
    """Serve one reply that never ends, a blank at a time."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
                try:
                    while True:
                        connection.sendall(b" ")
                        time.sleep(seconds)
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            socket.create_connection(listening.getsockname()).close()  # in case nobody came
            thread.join()


def test_a_reply_that_drips_is_given_up_too() -> None:
    """The deadline is of the whole reply, not of each byte."""
    began = time.perf_counter()
    with dripping_server(0.02) as url, pytest.raises(RerankerError, match=r"deadline|timed out"):
        http(f"{url}#m").score("boat", TEXTS, deadline=0.2)
    assert time.perf_counter() - began < PATIENCE  # the reply never ends
