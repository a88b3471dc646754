"""The port behind which turns are kept: what any store does for one memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from scrubjay.datatypes import (
        AddReport,
        CompletedSegment,
        EmbedderIdentity,
        Encoding,
        EncodingProgress,
        EncodingRun,
        Fault,
        ForgetReport,
        IndexedText,
        IndexRows,
        LeasedSegment,
        NewNode,
        NewSegment,
        NewTurn,
        Node,
        NodeKey,
        NodeKind,
        OpenTurns,
        PreparedTurn,
        Record,
        RecordRows,
        RecordState,
        RecordType,
        ReferenceContext,
        Segment,
        SegmentState,
        Session,
        StoredPassage,
        StoredText,
        StoreState,
        StoreTotals,
        Turn,
        Usage,
    )


class Store(Protocol):
    """One memory's turns, full-text entries and vectors; every method is one transaction."""

    @property
    def memory_id(self) -> str: ...

    @property
    def embedder(self) -> EmbedderIdentity | None:
        """The embedder of the stored vectors, None before the first was named."""
        ...

    def name_embedder(self, embedder: EmbedderIdentity) -> None:
        """Give a new memory its id and its embedder; raise EmbedderMismatchError where it has another."""
        ...

    def read_meta(self, key: str) -> str | None: ...

    def write_meta(self, key: str, value: str) -> None: ...

    def known(self, turns: Sequence[tuple[str, NewTurn]]) -> list[bool]:
        """Say of each turn of a session whether its id or place is stored, so that it need not be embedded."""
        ...

    def append(self, prepared: Sequence[PreparedTurn]) -> AddReport:
        """Write turns with all their index entries, or nothing; durable on return.

        A turn known to be stored needs no passages. Raise TurnConflictError where an id or place is taken by
        other content, EmbedderMismatchError where the memory has another embedder by now.
        """
        ...

    def turns(
        self,
        *,
        session_id: str | None = None,
        after: str | None = None,
        rows: Sequence[int] | None = None,
    ) -> Iterator[Turn]:
        """Give turns in the order of sessions and positions, or exactly those of the rows, in their order.

        Those past the turn of the id `after`, which are none where it isn't there.
        """
        ...

    def turn(self, turn_id: str) -> Turn | None: ...

    def sessions(self) -> tuple[Session, ...]: ...

    def totals(self) -> StoreTotals: ...

    def state(self) -> StoreState: ...

    def load(self, *, after: int, vectors_after: int = 0) -> IndexRows:
        """Read the index columns of all passages past the row `after`, with their turns; vectors past `vectors_after` only.

        Raise EmbedderMismatchError where another process has changed the embedder since it was named or adopted here.
        """
        ...

    def forget(
        self,
        *,
        turn_id: str | None = None,
        session_id: str | None = None,
        before: datetime | None = None,
        everything: bool = False,
        dry_run: bool = False,
    ) -> ForgetReport:
        """Delete turns and all that was made of them; with `dry_run` only say what would go."""
        ...

    def unstaged(self, identity: EmbedderIdentity, *, limit: int) -> tuple[StoredPassage, ...]:
        """Give passages that have no staged vector of this embedder yet; staging for another is dropped."""
        ...

    def stage_vectors(self, rows: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Keep the vectors of these passages beside the current ones until all are there."""
        ...

    def adopt_vectors(self, identity: EmbedderIdentity) -> None:
        """Put the staged vectors in place of the current ones, in one transaction.

        Raise EmbedderMismatchError, with nothing changed, where some are missing or another's are staged.
        """
        ...

    def check(self) -> tuple[Fault, ...]: ...


class SegmentStore(Protocol):
    """One memory's segments: closed, leased to be encoded, and encoded; every method is one transaction."""

    def sessions_with_open_turns(self) -> tuple[str, ...]:
        """Name the sessions that have turns in no segment, in the order they began."""
        ...

    def open_turns(self, session_id: str) -> OpenTurns:
        """Give the session's turns that are in no segment; none for a session that isn't there."""
        ...

    def close_segments(
        self, session_id: str, segments: Sequence[NewSegment], *, seen: str, segmenter: str
    ) -> None:
        """Put open turns into segments, to be encoded, and keep where the segmenter stopped.

        `seen` is the segmenter's state that `open_turns` gave. Raise SegmentsChangedError, with nothing written, where
        it is another by now, or a turn is gone or in a segment.
        """
        ...

    def lease_segment(
        self, encoding_row: int, *, owner: str, now: datetime, lease_seconds: float
    ) -> LeasedSegment | None:
        """Give the oldest segment to encode that nobody has and that may be tried at `now`, or None.

        A session's segments are given in order: none before those earlier are encoded or failed. A lease that has run
        out by `now` is given again.
        """
        ...

    def renew_lease(self, lease: LeasedSegment, *, now: datetime, lease_seconds: float) -> None:
        """Let a lease run from `now` on, of a call that takes long; raise LeaseLostError as `complete_segment` does."""
        ...

    def next_lease_at(self, encoding_row: int) -> datetime | None:
        """Say when a segment may be leased: past if now, None if there is nothing to do."""
        ...

    def reference_context(self, lease: LeasedSegment, *, limit: int = 12) -> ReferenceContext:
        """Give the note and the last records made from segments of its session before it, in its encoding."""
        ...

    def complete_segment(
        self,
        lease: LeasedSegment,
        encoding: Encoding,
        nodes: Sequence[NewNode],
        *,
        record_index: Sequence[IndexedText],
        node_index: Sequence[IndexedText],
        embedder: EmbedderIdentity,
    ) -> CompletedSegment:
        """Write all that encoding the segment gave, its usage too, or nothing; the indexes one for each record and node.

        A record id that is there gets more provenance and links, and is left as it was; so is a node's key. A record
        that cites none of the segment's turns is left out. Only an event frame's text may hold words of more than its
        own key: it is blanked when turns of its segment are forgotten. Raise LeaseLostError where the segment was
        leased again, or turns of its session were forgotten, since; EmbedderMismatchError where the memory has another
        embedder by now than the one of these vectors.
        """
        ...

    def fail_segment(
        self,
        lease: LeasedSegment,
        error: str,
        *,
        retry_at: datetime | None,
        max_attempts: int | None,
        usage: Usage | None = None,
    ) -> SegmentState:
        """Count a failed attempt: the segment waits until `retry_at`, or has failed after the last; give its state.

        Without `max_attempts` it only waits: the fault isn't its own, and no attempt is counted.
        Raise LeaseLostError as `complete_segment` does.
        """
        ...

    def release_segment(self, lease: LeasedSegment) -> None:
        """Give a segment back as it was, no attempt counted; a lease that is lost is let go."""
        ...

    def retry_failed(self) -> int:
        """Make failed segments pending again, attempts counted anew; give how many."""
        ...

    def progress(self, encoding_row: int | None = None) -> EncodingProgress:
        """Count turns and segments by state in an encoding, the current one if not given."""
        ...

    def segments(
        self,
        *,
        session_id: str | None = None,
        state: SegmentState | None = None,
        encoding_row: int | None = None,
    ) -> tuple[Segment, ...]:
        """Give segments in the order of sessions and numbers, with their states in an encoding."""
        ...

    def usage(self) -> tuple[Usage, ...]:
        """Give the totals by stage and model."""
        ...

    def add_usage(self, usage: Usage) -> None:
        """Add the cost of a call whose result was not stored."""
        ...


class RecordStore(Protocol):
    """One memory's records and evidence nodes, read in the current encoding; every method is one transaction."""

    def encodings(self) -> tuple[EncodingRun, ...]:
        """Give the current encoding, then the one being built if there is one."""
        ...

    def name_encoding(self, *, model: str, prompt_version: str) -> EncodingRun:
        """Give the current encoding, naming it where no model was used before; another's name is left."""
        ...

    def begin_encoding(self, *, model: str, prompt_version: str) -> EncodingRun:
        """Give the encoding being built with this model and prompt, begun now if need be, with all segments to do.

        What was built with another is dropped.
        """
        ...

    def switch_encoding(self) -> EncodingRun:
        """Make the encoding being built the current one and delete the other; give it.

        Raise EncodingUnfinishedError, with nothing changed, where a segment is pending or none is being built.
        """
        ...

    def drop_encoding(self) -> None:
        """Delete the encoding being built, if there is one."""
        ...

    def records(
        self,
        *,
        type: RecordType | None = None,  # noqa: A002  # the field's name
        node: NodeKey | None = None,
        session_id: str | None = None,
    ) -> Iterator[Record]:
        """Give records in the order they were made; those of a node are those that it leads to.

        A session's records are those that cite a turn of it.
        """
        ...

    def nodes(self, kind: NodeKind | None = None) -> tuple[Node, ...]:
        """List evidence nodes with how many records each leads to, by kind and key."""
        ...

    def record(self, record_id: str) -> Record | None: ...

    def records_at(self, wanted: Sequence[int]) -> tuple[Record, ...]:
        """Give the records of these rows, in their order, without those that are gone."""
        ...

    def state(self) -> RecordState: ...

    def load(self, *, after: RecordState | None = None) -> RecordRows:
        """Read the index columns of records, provenance, nodes and links, all of one moment.

        Only what was written since `after`, unless something was forgotten or the encoding is another since: then
        all, and `whole` says so.
        """
        ...

    def unstaged_texts(self, *, limit: int) -> tuple[StoredText, ...]:
        """Give texts that have no staged vector yet; for the embedder that `Store.unstaged` was asked for last."""
        ...

    def stage_text_vectors(self, texts: Sequence[StoredText], vectors: NDArray[np.float32]) -> None:
        """Keep the vectors of these texts beside the current ones until `Store.adopt_vectors`."""
        ...
