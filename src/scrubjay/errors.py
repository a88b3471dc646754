"""Every error ScrubJay raises on purpose.

ScrubJayError
├── InputError (also ValueError)      what the caller gave can't be used; nothing was changed
│   ├── TurnError                     a turn is empty, has an unknown role, a naive datetime, …
│   ├── TurnConflictError             the id is taken by a turn with other content
│   ├── QuestionError                 a question, budget, deadline or filter can't be used
│   ├── FormatError                   an imported file isn't what it was said to be
│   └── SettingsError                 a setting has an unknown name or an impossible value
├── NotFoundError (also LookupError)  a memory, session, turn or user that isn't there
├── StoreError                        the store can't do what was asked; nothing was lost
│   ├── StoreCorruptError             the file is damaged or not a memory
│   ├── StoreNewerError               the file was written by a newer ScrubJay
│   ├── StoreReadOnlyError            the file or disk can't be written
│   ├── StoreFullError                the disk is full
│   ├── StoreBusyError                another process held the write lock for too long
│   ├── StoreUnavailableError         the database can't be reached, or went away while it was asked
│   ├── StoreAccessError              the database refuses the user, the password or the right
│   ├── StoreSetupError               the database lacks what a memory needs: a newer server, pgvector, our tables
│   ├── StoreClosedError              the memory was closed
│   ├── MigrationConflictError        another memory is where this one was to be copied
│   ├── MigrationMismatchError        what was copied isn't what was to be copied; nothing of it was kept
│   ├── LeaseLostError                a segment went to another worker, or changed, before its result came
│   ├── SegmentsChangedError          another process segmented the session, or forgot turns of it, first
│   └── EncodingUnfinishedError       an encoding still has segments to do
├── EmbedderError                     an embedder failed
│   └── EmbedderMismatchError         the memory's vectors come from another embedder
├── ModelError                        a model call failed
│   ├── ModelRateLimitError           the provider asks to wait longer than we do
│   ├── ModelUnavailableError         refused, timed out or failing, after every attempt
│   │   └── ModelClosedError          closed by us while, or before, it was asked
│   ├── ModelRejectedError            the provider won't take the request: key, name, quota
│   └── ModelReplyError               the reply can't be used, asked twice
├── RunStoppedError                   a benchmark run ended before all was done; what was done is kept
│   └── CallPutOffError               the provider is away or busy: this call is for a later start
├── RerankerError                     a reranker failed; the order it was given stands
├── DownloadError                     a data set can't be downloaded, or isn't what it should be
└── MissingExtraError (also ImportError)  an optional package isn't installed
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from scrubjay.counting import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrubjay.datatypes import Usage


class ScrubJayError(Exception):
    """Base of every error ScrubJay raises on purpose."""

    before: tuple[Usage, ...] = ()  # what calls for the same question cost before it failed

    @property
    def spent(self) -> tuple[Usage, ...]:
        """What was spent all the same, by stage."""
        return self.before


@contextmanager
def after_spending(usage: Sequence[Usage]) -> Iterator[None]:
    """Have an error raised inside tell what was spent before it."""
    try:
        yield
    except ScrubJayError as error:
        error.before = (*usage, *error.before)
        raise


class InputError(ScrubJayError, ValueError):
    """What the caller gave can't be used; nothing was changed."""


class TurnError(InputError):
    """A turn can't be stored: empty text, unknown role, naive datetime, a wrong field."""


class TurnConflictError(InputError):
    """A turn's id or place is taken by a turn with other content."""

    def __init__(self, turn_id: str, *, field: str) -> None:
        self.turn_id = turn_id
        self.field = field
        super().__init__(
            f"turn {turn_id!r} is already stored with another {field}; turns never change: "
            "give the new turn another id, or forget the old one first"
        )


class QuestionError(InputError):
    """A question, budget, deadline or filter can't be used."""


class FormatError(InputError):
    """An imported file isn't what it was said to be."""

    def __init__(self, path: str, *, entry: str, field: str, expected: str, found: str) -> None:
        self.path = path
        self.entry = entry
        self.field = field
        self.expected = expected
        self.found = found
        super().__init__(f"{path}: {entry}: {field}: expected {expected}, found {found}")


class SettingsError(InputError):
    """A setting has an unknown name or an impossible value."""


class NotFoundError(ScrubJayError, LookupError):
    """A memory, session, turn or user that isn't there."""


class StoreError(ScrubJayError):
    """The store can't do what was asked; what was acknowledged before is still there."""


class StoreCorruptError(StoreError):
    """The file is damaged or isn't a ScrubJay memory."""


class StoreNewerError(StoreError):
    """The file was written by a newer ScrubJay."""


class StoreReadOnlyError(StoreError):
    """The file or its disk can't be written."""


class StoreFullError(StoreError):
    """The disk is full; the write was rolled back."""


class StoreBusyError(StoreError):
    """Another process held the write lock for longer than the timeout."""


class StoreUnavailableError(StoreError):
    """The database can't be reached, or went away; what was being written is there whole or not at all."""


class StoreAccessError(StoreError):
    """The database refuses the user, the password, the database's name or a right; nothing was done."""


class StoreSetupError(StoreError):
    """The database lacks what a memory needs: a newer server, pgvector, UTF-8, our tables."""


class StoreClosedError(StoreError):
    """The memory was closed."""


class MigrationConflictError(StoreError):
    """Another memory is where this one was to be copied, or an older copy of it; nothing was changed."""


class MigrationMismatchError(StoreError):
    """What was written isn't what was read, row for row; the copy was rolled back."""

    def __init__(self, location: str, *, tables: tuple[str, ...]) -> None:
        self.tables = tables
        super().__init__(
            f"{location}: the copy differs from its source in {', '.join(tables)}, so nothing of it was kept: check "
            "the source with `scrubjay doctor`, then run it again"
        )


class LeaseLostError(StoreError):
    """A segment was leased to another worker, or turns of its session were forgotten, before its result came."""

    def __init__(self, segment_row: int) -> None:
        self.segment_row = segment_row
        super().__init__(
            f"segment {segment_row} went to another worker, or turns of its session were forgotten, meanwhile: "
            "this result was not stored"
        )


class SegmentsChangedError(StoreError):
    """Another process segmented the session, or forgot turns of it, first; nothing was written."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"session {session_id!r} was segmented by another process, or turns of it were forgotten, meanwhile: "
            "read its open turns again"
        )


class EncodingUnfinishedError(StoreError):
    """The encoding being built has segments to do, or there is none; the current one stays."""

    def __init__(self, *, pending: int | None) -> None:
        self.pending = pending  # None where there is no new encoding
        found = "was not begun" if pending is None else f"has {number_of(pending, 'segment')} to do"
        super().__init__(f"the new encoding {found}: run `scrubjay reconsolidate`")


class EmbedderError(ScrubJayError):
    """An embedder failed; nothing was stored."""


class EmbedderMismatchError(EmbedderError):
    """The memory's vectors come from another embedder than the one given."""

    def __init__(self, *, stored: str, given: str) -> None:
        self.stored = stored
        self.given = given
        super().__init__(
            f"this memory was embedded with {stored}, but {given} was given: open it with the stored one, "
            "or run `scrubjay reembed` to change it"
        )


class ModelError(ScrubJayError):
    """A call to a language model failed; what it cost all the same is in `usage`."""

    def __init__(self, message: str, *, usage: Usage | None = None) -> None:
        self.usage = usage
        super().__init__(message)

    @property
    def spent(self) -> tuple[Usage, ...]:
        """What was spent all the same, by stage: before, and by the call that failed."""
        return (*self.before, *(() if self.usage is None else (self.usage,)))


class ModelRateLimitError(ModelError):
    """The provider asks to wait, and waiting or the attempts ran out."""

    def __init__(self, message: str, *, retry_after: float | None, usage: Usage | None = None) -> None:
        self.retry_after = retry_after  # seconds, where the provider said
        super().__init__(message, usage=usage)


class ModelUnavailableError(ModelError):
    """The provider refused the connection, timed out or failed, in every attempt."""

    def __init__(self, message: str, *, reached: bool = True, usage: Usage | None = None) -> None:
        self.reached = reached  # False: there was no connection, so what was asked isn't to blame
        super().__init__(message, usage=usage)


class ModelClosedError(ModelUnavailableError):
    """The model was closed while it was asked, or before; nothing failed."""

    def __init__(self, message: str = "the model was closed: open the memory again to ask it") -> None:
        super().__init__(message, reached=False)


class ModelRejectedError(ModelError):
    """The provider won't take the request: a wrong key, name or field, or an empty account."""

    def __init__(self, message: str, *, status: int | None = None, usage: Usage | None = None) -> None:
        self.status = status  # of HTTP, where there was one
        super().__init__(message, usage=usage)


class ModelReplyError(ModelError):
    """The model's reply can't be used, though it was told what is wrong with it."""


class RunStoppedError(ScrubJayError):
    """A benchmark run ended before all was done; what was done is kept, and it can be started again."""


class CallPutOffError(RunStoppedError):
    """The provider is away or busy, in every attempt: what this call was for is left for a later start."""


class RerankerError(ScrubJayError):
    """A reranker failed, or its reply can't be used; the order it was given stands."""


class DownloadError(ScrubJayError):
    """A data set can't be downloaded, or isn't what it should be; nothing took its place."""


class MissingExtraError(ScrubJayError, ImportError):
    """An optional package isn't installed."""

    def __init__(self, package: str, *, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f'{package} is not installed: pip install "scrubjay[{extra}]"')
