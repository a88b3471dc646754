"""What a server is told beside its home."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from scrubjay.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Limits, threads and patience of the HTTP server."""

    most_body_bytes: int = 4_194_304  # of a request
    most_line_bytes: int = 1_048_576  # of a line of a bulk upload, whose whole length is free
    body_seconds: float = 30.0  # for a request's body to arrive; of a bulk upload, for its next piece
    request_seconds: float = 60.0  # until an answer begins
    model_seconds: float = 600.0  # the same, where a model is asked
    stop_seconds: float = 10.0  # for what is under way when the server stops
    rate: str = (
        "6000/minute"  # requests of one key, or of one address where there are no keys; "": any number
    )
    most_tokens: int = 100_000  # that a recall may ask for
    most_listed: int = 1_000  # items of one page
    call_threads: int = 8  # for short calls, of which one computes and others wait for disks and databases
    long_threads: int = 8  # for calls that a model takes part in: answers and consolidations at a time
    waiting_calls: int = 128  # short calls that may wait, in each process; a request more is answered 503
    waiting_long: int = 128  # the same of calls that a model takes part in
    kept_operations: int = 1_000  # of which finished ones can still be asked about
    log_content: bool = False  # write users' ids, queries and errors' words into the log
    upstream_url: str | None = None  # of the OpenAI-compatible server behind /v1/chat/completions
    upstream_key: str | None = field(default=None, repr=False)
    upstream_seconds: float = 300.0  # of its silence
    proxy_tokens: int = 1_500  # of the evidence added to a conversation

    def __post_init__(self) -> None:
        """Raise SettingsError for an address that nothing can be sent to."""
        url = urlsplit(self.upstream_url or "http://-")
        if url.scheme not in {"http", "https"} or not url.netloc:
            raise SettingsError(
                "the server behind the proxy (--upstream, or SCRUBJAY_UPSTREAM_URL, or SCRUBJAY_BASE_URL): expected "
                f"an address such as http://localhost:11434/v1, found {self.upstream_url!r}"
            )

    @classmethod
    def from_env(cls) -> Self:
        """Return the settings with what the environment says of the server behind the proxy."""
        return cls(
            upstream_url=os.environ.get("SCRUBJAY_UPSTREAM_URL")
            or os.environ.get("SCRUBJAY_BASE_URL")
            or None,
            upstream_key=os.environ.get("SCRUBJAY_UPSTREAM_KEY")
            or os.environ.get("SCRUBJAY_API_KEY")
            or None,
        )
