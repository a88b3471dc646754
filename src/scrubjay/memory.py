"""One user's memory: the two paths, WRITE (add) and READ (recall), each read from top to bottom.

This is the only module that puts stages together, and the only one that falls back when a stage fails;
each fallback is told in the evidence's trace.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self

from scrubjay import embed, formats
from scrubjay.background import list_failing, open_background
from scrubjay.chosen_model import ChosenModel
from scrubjay.context import render_context
from scrubjay.corpus import CorpusCache
from scrubjay.datatypes import (
    AddReport,
    ConsolidationLimits,
    Fault,
    MemoryStatus,
    RankBy,
    SessionEnds,
    WritePath,
)
from scrubjay.dates import find_time_range
from scrubjay.errors import EmbedderMismatchError, InputError, NotFoundError
from scrubjay.evidence import Evidence
from scrubjay.indexing import prepare_turns
from scrubjay.question import require_askable
from scrubjay.reading import find_turns, organise_chain
from scrubjay.reembedding import stage_all
from scrubjay.results import Found, chain_items, make_hits, make_links, order_rows
from scrubjay.settings import Settings
from scrubjay.store.connection import IN_MEMORY, Database
from scrubjay.store.records import SqliteRecordStore
from scrubjay.store.segments import SqliteSegmentStore
from scrubjay.store.sqlite import SqliteStore
from scrubjay.trace import Trace, ignore_progress
from scrubjay.turns import TurnLike, read_turns, require_id, require_one_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import TextIO

    from scrubjay.datatypes import (
        ConsolidationPlan,
        ConsolidationReport,
        ForgetReport,
        Hit,
        NewTurn,
        Session,
        TimeRange,
        Turn,
    )
    from scrubjay.llm import ChatModel
    from scrubjay.store import RecordStore, SegmentStore

OWNER = "owner"  # the key under which a memory keeps whose it is
NO_LIMITS = ConsolidationLimits()


class Memory:
    """A memory in one file; safe to share between threads, and to open from several processes."""

    def __init__(  # noqa: PLR0913 -- each is the choice of whoever opens it
        self,
        path: str | Path,
        *,
        settings: Settings | None = None,
        embedder: str | embed.Embedder | None = None,
        model: ChatModel | None = None,
        consolidate: str | None = None,
        read_only: bool = False,
        create: bool = True,
    ) -> None:
        """Open a memory, or create it; ":memory:" keeps one in memory only.

        `embedder` is one or its name; a memory that exists is opened with its own unless another is named,
        which raises EmbedderMismatchError. `model` is what consolidation asks, instead of the one that settings
        name; `consolidate="background"` has a thread do that whenever turns are added, until `close`. Raise
        NotFoundError where there is none and `create` is false, and a StoreError where the file can't be used.
        """
        self.path = str(path)
        self.settings = settings or Settings()
        self._database = Database(self.path, read_only=read_only, create=create and not read_only)
        self._model = ChosenModel(model, self.settings.chat)
        try:
            self._store = SqliteStore(self._database)
            self.segments: SegmentStore = SqliteSegmentStore(self._database)
            self.records: RecordStore = SqliteRecordStore(self._database)
            self._embedder = embed.choose_embedder(embedder, stored=self._store.embedder)
            self._store.name_embedder(self._embedder.identity)
            self._worker = open_background(
                consolidate, self._write_path, self._model, self.settings, read_only=read_only
            )
        except BaseException:
            self._database.close()
            raise
        self._corpus = CorpusCache(self.settings.lexical)

    # --- WRITE ---

    def add(
        self, turns: TurnLike | Iterable[TurnLike], *, session_id: str, said_at: datetime | None = None
    ) -> AddReport:
        """Store turns of a session; searchable, and safe from a crash or power cut, when this returns.

        A turn is a NewTurn or a mapping such as {"role": "user", "content": "…", "name": …, "created_at": …}.
        Adding a turn again, by its id or its index, changes nothing. `said_at` is the time of turns that have
        none. Raise TurnError or TurnConflictError, with nothing stored.
        """
        require_id(session_id, "session_id")
        return self._append([(session_id, turn) for turn in read_turns(turns, said_at=said_at)])

    def add_many(
        self, turns: Iterable[tuple[str, NewTurn]], *, advance: Callable[[int], None] = ignore_progress
    ) -> AddReport:
        """Store turns of many sessions, each given with its session's id, a transaction a batch.

        `advance` is told after each batch how many are stored.
        """
        reports: list[AddReport] = []
        batch: list[tuple[str, NewTurn]] = []
        for session_id, turn in turns:
            require_id(session_id, "session_id")
            batch += ((session_id, checked) for checked in read_turns(turn))
            if len(batch) == self.settings.import_batch:
                reports.append(self._append(batch))
                batch = []
                advance(sum(len(report.turn_ids) for report in reports))
        reports.append(self._append(batch))
        advance(sum(len(report.turn_ids) for report in reports))
        return AddReport(
            turn_ids=tuple(turn_id for report in reports for turn_id in report.turn_ids),
            added=sum(report.added for report in reports),
            unchanged=sum(report.unchanged for report in reports),
        )

    def _append(self, turns: list[tuple[str, NewTurn]]) -> AddReport:
        embedder = self._embedder
        known = self._store.known(turns)  # adding again is free: nothing is embedded twice
        prepared = prepare_turns(
            turns, known=known, embedder=embedder, passage_tokens=self.settings.passage_tokens
        )
        try:
            report = self._store.append(prepared)
        except EmbedderMismatchError:
            with self._corpus.lock:
                if self._embedder is embedder:
                    raise
            return self._append(turns)  # another thread has just finished `reembed`
        if self._worker and report.added:
            self._worker.wake()
        return report

    def consolidate(
        self,
        *,
        limits: ConsolidationLimits = NO_LIMITS,
        flush: bool = False,
        idle: timedelta | None = None,
        advance: Callable[[int, int], None] = ignore_progress,
    ) -> ConsolidationReport:
        """Segment open turns and have a model encode each segment into records (LycheeMemory V2, 3.2 to 3.4).

        `flush` closes the open segment of every session, `idle` of those that nothing was added to for so long.
        May be interrupted, run again, and run in several processes at once. Raise SettingsError where no model is
        configured, and ModelRejectedError where it refuses the request itself.
        """
        from scrubjay.consolidation import consolidate

        ends = SessionEnds(flush=flush, idle=idle)
        return consolidate(self._write_path(), self._model, ends, limits=limits, advance=advance)

    def reconsolidate(
        self,
        *,
        limits: ConsolidationLimits = NO_LIMITS,
        advance: Callable[[int, int], None] = ignore_progress,
    ) -> ConsolidationReport:
        """Encode all segments again, with the model and prompt of now; the old records serve until that is done.

        An interrupted run goes on where it stopped.
        """
        from scrubjay.consolidation import reconsolidate

        return reconsolidate(self._write_path(), self._model, limits=limits, advance=advance)

    def plan_consolidation(self, *, flush: bool = False, idle: timedelta | None = None) -> ConsolidationPlan:
        """Reckon the calls and tokens that `consolidate` would take; nothing is written or called."""
        from scrubjay.consolidation import plan_consolidation

        return plan_consolidation(self._write_path(), SessionEnds(flush=flush, idle=idle))

    def _write_path(self) -> WritePath:
        return WritePath(
            turns=self._store,
            segments=self.segments,
            records=self.records,
            embedder=self._embedder,
            settings=self.settings,
        )

    # --- READ ---

    def recall(
        self,
        question: str,
        *,
        max_tokens: int | None = None,
        deadline: float | None = None,
        now: datetime | None = None,
        time_range: TimeRange | None = None,
    ) -> Evidence:
        """Build the chain of evidence for a question (CoD); nothing is written.

        The context has at most `max_tokens` tokens. After `deadline` seconds the chain is not organised further:
        the most relevant turns are taken, and the trace says so. Words like "last week" count from `now`.
        `time_range` leaves out all that was not said in it. Raise QuestionError for what can't be asked.
        """
        budget = self.settings.context.max_tokens if max_tokens is None else max_tokens
        require_askable(question, most=budget, deadline=deadline)
        trace = Trace(deadline=deadline)
        with self._corpus.lock:
            found = self._find(question, now=now, time_range=time_range, trace=trace)
            chain = organise_chain(found, self.settings, budget=budget, trace=trace)
            turns = self._turns_of(found, [link.row for link in chain.links])
        if turns is None:
            return self.recall(
                question, max_tokens=max_tokens, deadline=deadline, now=now, time_range=time_range
            )
        with trace.stage("context"):
            items = chain_items(found, chain, turns, whole_tokens=self.settings.context.whole_turn_tokens)
            context = render_context(items, max_tokens=budget, count_tokens=embed.count_tokens)
        return Evidence(
            question=question,
            strategy="chain",
            links=make_links(found, chain, items, context),
            text=context.text,
            tokens=context.tokens,
            max_tokens=budget,
            time_range=found.time_range,
            trace=trace.stages,
        )

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        by: RankBy = RankBy.RELEVANCE,
        now: datetime | None = None,
        time_range: TimeRange | None = None,
    ) -> tuple[Hit, ...]:
        """Rank turns, best first, with their rank and score in each channel; what scores nothing is left out."""
        require_askable(query, most=limit, deadline=None)
        with self._corpus.lock:
            found = self._find(query, now=now, time_range=time_range, trace=Trace())
            rows = order_rows(found, by=by)[:limit].tolist()
            turns = self._turns_of(found, rows)
        if turns is None:
            return self.search(query, limit=limit, by=by, now=now, time_range=time_range)
        return make_hits(found, rows, turns)

    def _find(
        self, question: str, *, now: datetime | None, time_range: TimeRange | None, trace: Trace
    ) -> Found:
        """Score every turn for a question: what its words and its vector find, and what stands around."""
        with trace.stage("plan"):
            named = time_range or find_time_range(question, now or datetime.now(UTC))
            vector = self._embedder.embed([question])[0]
        with trace.stage("index"):
            corpus = self._corpus.current(self._store)
        return find_turns(
            question,
            corpus,
            self.settings,
            vector=vector,
            time_range=named,
            narrow=time_range is not None,
            trace=trace,
        )

    def _turns_of(self, found: Found, rows: list[int]) -> list[Turn] | None:
        """Give the turns of rows, or None where one was forgotten since they were found: then all is to be found anew."""
        turns = list(self._store.turns(rows=found.corpus.turns.row[rows].tolist()))
        return turns if len(turns) == len(rows) else None

    # --- the log ---

    def turns(self, *, session_id: str | None = None) -> Iterator[Turn]:
        """Give turns as they were said, in the order of sessions; raise NotFoundError for an unknown session."""
        if session_id is not None and session_id not in {found.session_id for found in self.sessions()}:
            raise NotFoundError(f"{self.path} has no session {session_id!r}")
        return self._store.turns(session_id=session_id)

    def turn(self, turn_id: str) -> Turn:
        """Give a turn by its id; raise NotFoundError where there is none."""
        turn = self._store.turn(turn_id)
        if turn is None:
            raise NotFoundError(f"{self.path} has no turn {turn_id!r}")
        return turn

    def sessions(self) -> tuple[Session, ...]:
        """Give the sessions in the order they began to be written."""
        return self._store.sessions()

    def forget(
        self,
        *,
        turn: str | None = None,
        session: str | None = None,
        before: datetime | None = None,
        everything: bool = False,
    ) -> ForgetReport:
        """Delete turns and all that was made of them, from the file's bytes too; give exactly one filter.

        `before` takes turns said before it; those with no known time stay. Raise NotFoundError where a turn or
        session isn't there.
        """
        require_one_filter(turn=turn, session=session, before=before, everything=everything)
        report = self._store.forget(turn_id=turn, session_id=session, before=before, everything=everything)
        if not report.turns and (turn is not None or session is not None):
            raise NotFoundError(f"{self.path} has no {'turn' if turn else 'session'} {turn or session!r}")
        return report

    def export(self, to: str | Path | TextIO) -> int:
        """Write every turn with all its fields as JSONL that `import_` reads without loss; give how many."""
        if isinstance(to, str | Path):
            require_elsewhere(Path(to), self.path)
            with Path(to).open("w", encoding="utf-8", newline="\n") as stream:
                return formats.write_export(self._store.turns(), stream)
        return formats.write_export(self._store.turns(), to)

    def import_(self, path: str | Path, *, format: str = "auto", skip_bad: bool = False) -> AddReport:  # noqa: A002 -- the command's word
        """Store a file of one conversation; importing it again adds only what is new. Raise FormatError."""
        reading = formats.read_conversations(Path(path), format=format, skip_bad=skip_bad)
        if len(reading.conversations) != 1:
            raise InputError(
                f"{path} holds {len(reading.conversations)} conversations: import each into its own memory"
            )
        sessions = reading.conversations[0].sessions
        return self.add_many((session.session_id, turn) for session in sessions for turn in session.turns)

    # --- care ---

    def status(self) -> MemoryStatus:
        """Say what the memory holds."""
        return MemoryStatus(
            memory_id=self._store.memory_id,
            path=self.path,
            owner=self.owner,
            totals=self._store.totals(),
            embedder=str(self._embedder.identity),
            file_bytes=0 if self.path == IN_MEMORY else Path(self.path).stat().st_size,
            progress=self.segments.progress(),
            usage=self.segments.usage(),
            failing=list_failing(self.segments),
            background=self._worker.state if self._worker else None,
        )

    def doctor(self, *, scrub: bool = False) -> tuple[Fault, ...]:
        """Check that the file is sound and every turn is in every index; `scrub` rewrites it without old bytes."""
        faults = self._store.check()
        pending = self._database.scrub() if scrub else ""
        return (
            (*faults, Fault(check="no forgotten bytes are left", found=pending, remedy="try again"))
            if pending
            else faults
        )

    def reembed(
        self,
        embedder: str | embed.Embedder,
        *,
        advance: Callable[[int, int], None] = ignore_progress,
    ) -> int:
        """Give every passage a vector of another embedder; give how many there are.

        The old vectors serve until all new ones are there; then they are exchanged at once. An interrupted run
        goes on where it stopped.
        """
        new = embed.load_embedder(embedder) if isinstance(embedder, str) else embedder
        stage_all(self._store, self.records, new, advance=advance)
        while not self._adopt(new):
            stage_all(self._store, self.records, new, advance=advance)
        return self._store.totals().passages

    def _adopt(self, new: embed.Embedder) -> bool:
        """Go over to an embedder; say False where turns were added just now that have no vector of it yet."""
        try:
            with self._corpus.lock:
                self._store.adopt_vectors(new.identity)
                self._embedder = new
        except EmbedderMismatchError:
            if not self._store.unstaged(new.identity, limit=1):
                raise
            return False
        return True

    @property
    def is_gone(self) -> bool:
        """Whether the file was deleted or replaced since it was opened; whatever is asked then raises."""
        return self._database.is_gone

    @property
    def owner(self) -> str | None:
        """The user id this memory was made for, where a MemoryHome made it."""
        return self._store.read_meta(OWNER)

    def set_owner(self, user_id: str) -> None:
        self._store.write_meta(OWNER, user_id)

    def close(self) -> None:
        if self._worker:
            self._worker.close()
        self._model.break_off()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def require_elsewhere(target: Path, memory: str) -> None:
    """Raise InputError where writing to `target` would destroy the memory."""
    own = [] if memory == IN_MEMORY else [Path(f"{memory}{part}") for part in ("", "-wal", "-shm")]
    if any(path.exists() and target.exists() and target.samefile(path) for path in own):
        raise InputError(f"{target} is the memory itself: give another file to write to")
