"""PORT: embedders by name, and the bundled one: vectors of word pieces, summed, with no model to run or download."""

from __future__ import annotations

import re
import threading
import weakref
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scrubjay.datatypes import EmbedderIdentity
from scrubjay.errors import EmbedderError, MissingExtraError, SettingsError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray
    from pydantic_ai import Embedder as Client

STATIC_MODEL = Path(__file__).parent / "static_model"
STATIC_VERSION = "1"  # of the vectors in STATIC_MODEL: those of two versions don't compare
CACHED_WORDS = 1 << 16  # words whose pieces are kept per process, about 16 MB when full
LONGEST_WORD = 48  # characters; longer runs without a space are cut
UNKNOWN = 0  # the id of what the vocabulary lacks
UNKNOWN_CHARACTERS = 2  # of it make a token
MOST_GATHERED = (
    1 << 15
)  # vectors copied at a time, 8 MB, so that a text of a megabyte needs no more than that
MOST_SENT = 128  # texts in one request to a provider
SHOWN = 500  # characters of a provider's own words

_PUNCTUATION = r"!-/:-@\[-`{-~"
_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_SYMBOL = "\u2190-\u2bff\U0001f000-\U0001faff"  # arrows to emoji
_WORD = re.compile(
    f"[^ \t\n\r{_PUNCTUATION}{_HAN}{_SYMBOL}]{{1,{LONGEST_WORD}}}|[{_PUNCTUATION}{_HAN}{_SYMBOL}]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Embedder(Protocol):
    """What makes vectors of texts; the name in its identity loads it again with `load_embedder`."""

    @property
    def identity(self) -> EmbedderIdentity: ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give (len(texts), dimension) rows of length one; a text with nothing to go by gets the zero row.

        A text's row does not depend on the texts it is given with.
        """
        ...


def load_embedder(name: str = "static") -> Embedder:
    """Load an embedder by its name: `static`, `openai:…` or another provider's, `sentence-transformers:…`, `hash:…`.

    Raise SettingsError for a name that means nothing, MissingExtraError where a package is missing, EmbedderError
    where the embedder does not answer.
    """
    require_embedder(name)
    kind, _, model = name.partition(":")
    return _LOADERS[kind](name, model)


def require_embedder(name: str) -> None:
    """Raise SettingsError for a name that means nothing; no provider is asked, and nothing is loaded."""
    kind, _, model = name.partition(":")
    if kind not in _LOADERS:
        raise SettingsError(f"no embedder is named {name!r}: it begins with one of {', '.join(_LOADERS)}")
    if kind == "static" and model not in {"", STATIC_VERSION}:
        raise SettingsError(
            f"{name!r} is not in this ScrubJay, static:{STATIC_VERSION} is: `scrubjay reembed` changes a memory to it"
        )
    if kind == "hash" and model and not (model.isascii() and model.isdecimal() and int(model) > 0):
        raise SettingsError(f"{name!r}: after hash: comes a number of dimensions")
    if kind not in {"static", "hash"} and not model:
        raise SettingsError(f"{name!r} names no model: it is written {kind}:<model>")


def count_tokens(texts: Sequence[str]) -> list[int]:
    """Count tokens by the bundled tokenizer: of joined lines, the sum of each line's."""
    token_ids = load_tokenizer().token_ids
    return [len(token_ids(text)) for text in texts]


def token_starts(text: str) -> list[int]:
    """Give the character at which each token of a text begins, as many as `count_tokens` counts."""
    return load_tokenizer().token_starts(text)


@cache
def load_tokenizer() -> BundledTokenizer:
    """Load the bundled tokenizer, once per process."""
    return BundledTokenizer(STATIC_MODEL / "tokenizer.json")


class BundledTokenizer:
    """BERT's word pieces, by `tokenizers`, which is asked once for each word and remembered.

    Pieces depend on one word alone, and ASCII blanks, ASCII punctuation and Han characters always divide words, so the
    pieces of the words, joined, are those of the text, at several times the speed. Beyond BERT, symbols divide words as
    well ("thanks😊" is not unknown), long runs are cut, and of what is unknown every two characters are a token, so
    that a count is near what a model would be charged for.
    """

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(path))
        self._word_ids = lru_cache(CACHED_WORDS)(self._read_ids)
        self._word_starts = lru_cache(CACHED_WORDS)(self._read_starts)

    def token_ids(self, text: str) -> list[int]:
        """Give the ids of a text's tokens, without special ones and uncut; 0 stands for what is unknown."""
        if text.isascii():  # the same pieces in fewer entries; other letters are not lowered as BERT does it
            text = text.lower()
        return list(chain.from_iterable(map(self._word_ids, _WORD.findall(text))))

    def token_starts(self, text: str) -> list[int]:
        """Give the character at which each token begins, in order."""
        return [word.start() + start for word in _WORD.finditer(text) for start in self._word_starts(word[0])]

    def _read_ids(self, word: str) -> tuple[int, ...]:
        return tuple(piece for piece, _ in self._read_word(word))

    def _read_starts(self, word: str) -> tuple[int, ...]:
        return tuple(start for _, start in self._read_word(word))

    def _read_word(self, word: str) -> Iterator[tuple[int, int]]:
        # a lone surrogate is no character that can be written as UTF-8; U+FFFD is dropped by the normaliser
        encoding = self._tokenizer.encode(_SURROGATE.sub("\ufffd", word), add_special_tokens=False)
        for piece, (start, stop) in zip(encoding.ids, encoding.offsets, strict=True):
            step = UNKNOWN_CHARACTERS if piece == UNKNOWN else LONGEST_WORD
            yield from ((piece, place) for place in range(start, stop, step))


class StaticEmbedder:
    """The bundled embedder: the vectors of a text's tokens, summed, and brought to length one.

    Each token's weight is in its vector, and vectors are whole numbers, so that sums are exact in any order.
    """

    def __init__(self, tokenizer: BundledTokenizer, vectors: NDArray[np.int8]) -> None:
        self._tokenizer = tokenizer
        self._vectors = vectors  # (tokens, dimension); the row of UNKNOWN is zero
        self._identity = EmbedderIdentity(
            name=f"static:{STATIC_VERSION}", dimension=vectors.shape[1], normalized=True
        )

    @property
    def identity(self) -> EmbedderIdentity:
        return self._identity

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        sums = np.zeros((len(texts), self._identity.dimension), np.float64)
        for place, text in enumerate(texts):
            token_ids = np.array(self._tokenizer.token_ids(text), np.intp)
            for first in range(0, len(token_ids), MOST_GATHERED):
                gathered = self._vectors[token_ids[first : first + MOST_GATHERED]]
                sums[place] += gathered.sum(axis=0, dtype=np.int32)
        return normalize_rows(sums)


class HashEmbedder:
    """A small stand-in for tests: a word's vector is drawn from its hash, so texts are near by their shared words."""

    def __init__(self, dimension: int = 64) -> None:
        self._identity = EmbedderIdentity(name=f"hash:{dimension}", dimension=dimension, normalized=True)

    @property
    def identity(self) -> EmbedderIdentity:
        return self._identity

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        sums = np.zeros((len(texts), self._identity.dimension), np.float64)
        for place, text in enumerate(texts):
            for word in re.findall(r"\w+", text.casefold()):
                sums[place] += self._draw_vector(word)
        return normalize_rows(sums)

    def _draw_vector(self, word: str) -> NDArray[np.int64]:
        digest = blake2b(word.encode(), digest_size=8).digest()
        return np.random.default_rng(int.from_bytes(digest, "big")).integers(
            -99, 100, self._identity.dimension
        )


class ModelEmbedder:
    """An embedder of a provider, or of sentence-transformers, reached through pydantic-ai.

    Its dimension is that of the answer to a first text. Requests run one at a time on a thread of its own, with the
    event loop that the provider's client is bound to, so it can be used from any thread, within a running loop as well.
    """

    def __init__(self, name: str, client: Client) -> None:
        self._name = name
        self._client = client
        self._asked: SimpleQueue[Request | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=_serve_requests, args=(self._asked, client), name="scrubjay-embed", daemon=True
        )
        self._thread.start()
        # A collection may end an embedder at any point of any code, so that takes no lock: a simple queue needs none.
        self._end = weakref.finalize(self, self._asked.put, None)
        self._end.atexit = False  # the thread is a daemon
        self._identity = EmbedderIdentity(
            name=name, dimension=self._request(["dimension"]).shape[1], normalized=True
        )

    @property
    def identity(self) -> EmbedderIdentity:
        return self._identity

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give rows of length one; blank texts, which providers refuse, get the zero row unsent."""
        rows = np.zeros((len(texts), self._identity.dimension), np.float32)
        places = [place for place, text in enumerate(texts) if text.strip()]
        for first in range(0, len(places), MOST_SENT):
            sent = places[first : first + MOST_SENT]
            answer = self._request([_SURROGATE.sub("\ufffd", texts[place]) for place in sent])
            if answer.shape[1] != self._identity.dimension:
                raise EmbedderError(
                    f"{self._name} answered with {answer.shape[1]} dimensions, before it was "
                    f"{self._identity.dimension}: name the model's version exactly"
                )
            rows[sent] = normalize_rows(answer)
        return rows

    def close(self) -> None:
        """End the thread and its loop; nothing can be embedded after it."""
        self._end()
        self._thread.join()

    def _request(self, texts: list[str]) -> NDArray[np.float64]:
        """Give the provider's vectors, (len(texts), dimension); raise EmbedderError where it gives none or others."""
        try:
            if not self._end.alive:
                raise EmbedderError(f"{self._name} was closed")
            request = Request(texts=texts, answer=new_future())
            self._asked.put(request)
            answer = np.array(request.answer.result(), np.float64)
        except ImportError:
            raise
        except (RuntimeError, OSError, ValueError) as error:  # pydantic-ai's own derive from RuntimeError
            raise EmbedderError(f"{self._name}: {str(error)[:SHOWN]}") from error
        if answer.ndim != 2 or len(answer) != len(texts) or not np.isfinite(answer).all():
            raise EmbedderError(
                f"{self._name} answered {len(texts)} texts with an array of shape {answer.shape}, or with numbers "
                "that aren't finite: one vector for each text was expected"
            )
        return answer


def normalize_rows(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    """Bring rows to length one; a zero row stays zero."""
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    lengths[lengths == 0] = 1
    unit: NDArray[np.float32] = (rows / lengths).astype(np.float32)
    return unit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """Texts for a provider, and where its answer goes."""

    texts: list[str]
    answer: Future[Sequence[Sequence[float]]]


def new_future() -> Future[Sequence[Sequence[float]]]:
    from concurrent.futures import Future

    return Future()


def _serve_requests(asked: SimpleQueue[Request | None], client: Client) -> None:
    """Answer requests one at a time, in the one event loop that the client is bound to, until told to end."""
    import asyncio

    with asyncio.Runner() as runner:
        while (request := asked.get()) is not None:
            _answer(request, runner, client)


def _answer(request: Request, runner: asyncio.Runner, client: Client) -> None:
    try:
        request.answer.set_result(runner.run(_ask(client, request.texts)))
    except BaseException as error:
        request.answer.set_exception(error)  # raised again where the answer is waited for
        if not isinstance(error, Exception):
            raise


async def _ask(client: Client, texts: list[str]) -> Sequence[Sequence[float]]:
    return (await client.embed_documents(texts)).embeddings


def _load_static(*_: str) -> StaticEmbedder:
    return _static_embedder()


@cache
def _static_embedder() -> StaticEmbedder:
    return StaticEmbedder(load_tokenizer(), np.load(STATIC_MODEL / "vectors.npy"))


def _load_hash(_: str, dimension: str) -> HashEmbedder:
    return HashEmbedder(int(dimension)) if dimension else HashEmbedder()


def _load_local(name: str, _: str) -> ModelEmbedder:
    return _load_model(name, extra="sentence-transformers")


def _load_remote(name: str, _: str) -> ModelEmbedder:
    return _load_model(name, extra="llm")


def _load_model(name: str, *, extra: str) -> ModelEmbedder:
    try:
        from pydantic_ai import Embedder as Client
    except ImportError as error:
        raise MissingExtraError("pydantic-ai-slim", extra=extra) from error
    try:
        return ModelEmbedder(name, Client(name))
    except ImportError as error:
        if extra == "sentence-transformers":
            raise MissingExtraError("sentence-transformers", extra=extra) from error
        raise EmbedderError(f"{name}: {error}") from error  # it names the provider's package itself


_LOADERS: dict[str, Callable[[str, str], Embedder]] = {
    "static": _load_static,
    "hash": _load_hash,
    "sentence-transformers": _load_local,
    **dict.fromkeys(
        ("openai", "azure", "ollama", "google", "cohere", "voyageai", "bedrock", "openrouter", "litellm"),
        _load_remote,
    ),
}


def choose_embedder(given: str | Embedder | None, *, stored: EmbedderIdentity | None) -> Embedder:
    """Give the embedder asked for, or else the memory's own, or for a new memory the bundled one."""
    if given is None:
        return load_embedder("static" if stored is None else stored.name)
    return load_embedder(given) if isinstance(given, str) else given
