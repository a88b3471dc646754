"""Ask a reranking server: Jina, Cohere, vLLM and llama.cpp take one request shape, Text Embeddings Inference another."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from pydantic import AliasChoices, BaseModel, Field, ValidationError, model_validator

from scrubjay.errors import RerankerError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.datatypes import JsonValue
    from scrubjay.rerank import Pace
    from scrubjay.settings import RerankSettings

OK = 200
OTHER_SHAPE = frozenset({400, 422})  # what a server answers to a body without the fields it wants
CHUNK = 65_536
SHOWN = 300  # characters of a server's own words
PREFIX = "http:"
DEFAULT_PATH = "/v1/rerank"


class Scored(BaseModel):
    """The score of one document."""

    index: int
    score: float = Field(validation_alias=AliasChoices("relevance_score", "score"))


class RerankReply(BaseModel):
    """A reranking server's reply: a list of scores, by itself or under "results" or "data"."""

    results: list[Scored] = Field(validation_alias=AliasChoices("results", "data"))

    @model_validator(mode="before")
    @classmethod
    def name_list(cls, given: object) -> object:
        return {"results": given} if isinstance(given, list) else given


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A moment by which a request must be done."""

    moment: float  # of time.perf_counter

    @property
    def left(self) -> float:
        """Give the seconds left; raise TimeoutError where there are none."""
        seconds = self.moment - time.perf_counter()
        if seconds <= 0:
            raise TimeoutError("the deadline has passed")
        return seconds


class HttpReranker:
    """Scores by asking a server, with one request of as many texts as it was measured to score in time."""

    def __init__(self, url: SplitResult, *, model: str, settings: RerankSettings, pace: Pace) -> None:
        self.name = f"{url.geturl()}#{model}" if model else url.geturl()
        self._url = url
        self._model = model
        self._settings = settings
        self._pace = pace
        self._wants_texts = False  # the shape of Text Embeddings Inference, once it was found to be wanted

    def score(self, query: str, texts: Sequence[str], *, deadline: float) -> list[float]:
        began = time.perf_counter()
        asked = texts[: max(1, self._pace.pairs_within(deadline, unmeasured=len(texts)))]
        try:
            reply = self._ask(query, asked, Deadline(moment=began + deadline))
        except (OSError, HTTPException) as error:
            if isinstance(error, TimeoutError):  # fewer the next time
                self._pace.measure(len(asked), time.perf_counter() - began)
            raise RerankerError(f"{self.name}: {str(error) or type(error).__name__}") from error
        self._pace.measure(len(asked), time.perf_counter() - began)
        return self._read(reply, len(asked))

    def _ask(self, query: str, texts: Sequence[str], deadline: Deadline) -> bytes:
        """Send a request, and again in the other shape where the first isn't taken."""
        status, reply = self._post(self._body(query, texts), deadline)
        if status in OTHER_SHAPE and not self._wants_texts:
            self._wants_texts = True
            again, other = self._post(self._body(query, texts), deadline)
            if again == OK:
                return other
            self._wants_texts = False
        if status != OK:
            words = reply[:SHOWN].decode("utf-8", "replace")
            raise RerankerError(f"{self.name} answered {status}: {words}")
        return reply

    def _body(self, query: str, texts: Sequence[str]) -> bytes:
        body: dict[str, JsonValue] = {"query": query, "texts": list(texts), "truncate": True}
        if not self._wants_texts:
            body = {"query": query, "documents": list(texts), "top_n": len(texts)}
            body |= {"model": self._model} if self._model else {}
        return json.dumps(body).encode()

    def _post(self, body: bytes, deadline: Deadline) -> tuple[int, bytes]:
        """Send a body and read the whole reply, redirected nowhere; raise OSError or HTTPException."""
        connect = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
        connection = connect(self._url.hostname or "", self._url.port, timeout=deadline.left)
        headers = {"Content-Type": "application/json", "User-Agent": "scrubjay"}
        if self._settings.api_key:
            headers["Authorization"] = f"Bearer {self._settings.api_key}"
        target = self._url.path + (f"?{self._url.query}" if self._url.query else "")
        try:
            connection.request("POST", target, body, headers)
            socket = connection.sock  # the connection lets go of it where the server will close it
            response = connection.getresponse()
            reply = b""
            while chunk := response.read1(CHUNK):
                reply += chunk
                if len(reply) > self._settings.longest_reply:
                    most = f"{self._settings.longest_reply:,} bytes"
                    raise RerankerError(f"{self.name}: the reply is longer than {most}")
                socket.settimeout(deadline.left)
            return response.status, reply
        finally:
            connection.close()

    def _read(self, reply: bytes, expected: int) -> list[float]:
        """Read the scores in the order the texts were sent; every text must have exactly one."""
        try:
            results = RerankReply.model_validate_json(reply).results
        except ValidationError as error:
            raise RerankerError(f"{self.name}: the reply has no list of scores: {reply[:SHOWN]!r}") from error
        scores = {one.index: one.score for one in results}
        if len(results) != expected or scores.keys() != set(range(expected)):
            raise RerankerError(
                f"{self.name}: expected a score for each of {expected} documents, found indices "
                f"{[one.index for one in results][:20]}"
            )
        return [scores[place] for place in range(expected)]


def open_reranker(whole: str, settings: RerankSettings, *, pace: Pace) -> HttpReranker:
    """Make the client of "http:<url>#<model>"; a url without a path gets `/v1/rerank`. Raise SettingsError."""
    url = urlsplit(whole.removeprefix(PREFIX) if whole.startswith(("http:http:", "http:https:")) else whole)
    try:
        usable = url.scheme in {"http", "https"} and url.hostname and (url.port is None or url.port > 0)
    except ValueError:  # the port is no number
        usable = False
    if not usable:
        raise SettingsError(f"{whole!r} names no server: it is written http:<url>#<model>")
    if settings.api_key and not (settings.api_key.isascii() and settings.api_key.isprintable()):
        raise SettingsError("the reranker's API key has characters that no header takes")
    path = url.path if url.path.strip("/") else DEFAULT_PATH
    return HttpReranker(
        url._replace(path=path, fragment=""), model=url.fragment, settings=settings, pace=pace
    )
