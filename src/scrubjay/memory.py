"""One user's memory: the two paths, WRITE (add) and READ (recall), each read from top to bottom.

Stages are put together here, in consolidation.py, planning.py and reading.py; only these fall back where a stage
fails, and each fallback is told in the evidence's trace.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self, TextIO, Unpack

from scrubjay import embed
from scrubjay.background import list_failing, open_background
from scrubjay.chosen_model import ChosenModel
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
from scrubjay.errors import EmbedderMismatchError, NotFoundError, after_spending
from scrubjay.indexing import prepare_turns
from scrubjay.lance_vectors import open_vectors
from scrubjay.planning import Planner
from scrubjay.reading import ReadPath, ask, is_planned, read_evidence, search_turns
from scrubjay.record_corpus import RecordCache
from scrubjay.reembedding import adopt_staged, stage_all
from scrubjay.settings import Settings
from scrubjay.store.opening import Opening, open_stores
from scrubjay.trace import Trace, ignore_progress
from scrubjay.transfer import read_file, write_file
from scrubjay.turns import TurnLike, join_reports, read_batches, read_session, require_one_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scrubjay.answer import Answer, AnswerStream, AnswerTask, RecallOptions
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
    from scrubjay.evidence import Evidence
    from scrubjay.llm import ChatModel
    from scrubjay.store.opening import Stores

OWNER = "owner"  # the key under which a memory keeps whose it is
NO_LIMITS = ConsolidationLimits()


class Memory:
    """One user's memory, in a file or in a database; safe to share between threads, and to open from several processes."""

    def __init__(  # noqa: PLR0913 -- each is the choice of whoever opens it
        self,
        path: str | Path | Stores,
        *,
        settings: Settings | None = None,
        embedder: str | embed.Embedder | None = None,
        model: ChatModel | None = None,
        consolidate: str | None = None,
        read_only: bool = False,
        create: bool = True,
        user_id: str | None = None,
    ) -> None:
        """Open a memory, or create it; ":memory:" keeps one in memory only, "postgresql://…" that of `user_id`.

        `embedder` is one or its name; a memory that exists is opened with its own unless another is named,
        which raises EmbedderMismatchError. `model` is what consolidation asks, instead of the one that settings
        name; `consolidate="background"` has a thread do that whenever turns are added, until `close`. Raise
        NotFoundError where there is none and `create` is false, and a StoreError where the file can't be used.
        """
        self.settings = settings or Settings()
        places = self.settings.postgres
        opening = Opening(read_only=read_only, create=create, user_id=user_id, postgres=places)
        stores = open_stores(path, opening)
        self.path, self._place = stores.location, stores.place
        self._store, self.segments, self.records = stores.turns, stores.segments, stores.records
        self.model = ChosenModel(model, self.settings.chat)
        try:
            self._embedder = embed.choose_embedder(embedder, stored=self._store.embedder)
            self._store.name_embedder(self._embedder.identity)
            self._vectors = open_vectors(self.path, self.settings.vectors, self._store, read_only=read_only)
            self._worker = open_background(
                consolidate, lambda: self.write_path, self.model, self.settings, read_only=read_only
            )
        except BaseException:
            self._place.close()
            raise
        self._corpus = CorpusCache(self.settings.lexical, self._vectors.find)
        self._record_corpus = RecordCache(self.settings.lexical)
        self._planner = Planner(self.model, self.settings)

    # --- WRITE ---

    def add(
        self, turns: TurnLike | Iterable[TurnLike], *, session_id: str, said_at: datetime | None = None
    ) -> AddReport:
        """Store turns of a session; searchable, and safe from a crash or power cut, when this returns.

        A turn is a NewTurn or a mapping such as {"role": "user", "content": "…", "name": …, "created_at": …}.
        Adding a turn again, by its id or its index, changes nothing. `said_at` is the time of turns that have
        none. Raise TurnError or TurnConflictError, with nothing stored.
        """
        return self._append(read_session(session_id, turns, said_at=said_at))

    def add_many(
        self, turns: Iterable[tuple[str, TurnLike]], *, advance: Callable[[int], None] = ignore_progress
    ) -> AddReport:
        """Store turns, each with its session's id, a transaction a batch; tell `advance` how many are stored by then."""
        reports: list[AddReport] = []
        for batch in read_batches(turns, size=self.settings.import_batch):
            reports.append(self._append(batch))
            advance(sum(len(report.turn_ids) for report in reports))
        return join_reports(reports)

    def _append(self, turns: list[tuple[str, NewTurn]]) -> AddReport:
        embedder, most = self._embedder, self.settings.passage_tokens
        known = self._store.known(turns)  # adding again is free: nothing is embedded twice
        prepared = prepare_turns(turns, known=known, embedder=embedder, passage_tokens=most)
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
        May be interrupted, run again, and in several processes at once. Raise SettingsError, ModelRejectedError.
        """
        from scrubjay.consolidation import consolidate

        ends = SessionEnds(flush=flush, idle=idle)
        return consolidate(self.write_path, self.model, ends, limits=limits, advance=advance)

    def reconsolidate(
        self,
        *,
        limits: ConsolidationLimits = NO_LIMITS,
        advance: Callable[[int, int], None] = ignore_progress,
    ) -> ConsolidationReport:
        """Encode all segments anew, going on where a run was broken off; the old records serve until that is done."""
        from scrubjay.consolidation import reconsolidate

        return reconsolidate(self.write_path, self.model, limits=limits, advance=advance)

    def plan_consolidation(self, *, flush: bool = False, idle: timedelta | None = None) -> ConsolidationPlan:
        """Reckon the calls and tokens that `consolidate` would take; nothing is written or called."""
        from scrubjay.reckoning import plan_consolidation

        return plan_consolidation(self.write_path, SessionEnds(flush=flush, idle=idle))

    def plan_reconsolidation(self) -> ConsolidationPlan:
        """Reckon those that `reconsolidate` would take."""
        from scrubjay.reckoning import plan_reconsolidation

        return plan_reconsolidation(self.write_path, self.model)

    @property
    def write_path(self) -> WritePath:
        """What consolidation works on."""
        return WritePath(
            turns=self._store,
            segments=self.segments,
            records=self.records,
            embedder=self._embedder,
            settings=self.settings,
        )

    # --- READ ---

    def recall(  # noqa: PLR0913 -- each is the choice of whoever asks
        self,
        question: str,
        *,
        strategy: str | None = None,
        max_tokens: int | None = None,
        deadline: float | None = None,
        now: datetime | None = None,
        time_range: TimeRange | None = None,
        asker: str | None = None,
        recent: Sequence[str] = (),
    ) -> Evidence:
        """Organise the evidence for a question: a chain of turns (CoD), or records and turns by a plan (LycheeMemory V2).

        `strategy` is "chain", "planned", or "auto": planned where there are records. A plan takes one model call, where
        a model is configured; `recent` lines of the conversation are for it alone. The context has at most `max_tokens`.
        After `deadline` seconds a cheaper path is taken, and the trace says so. "Last week" counts from `now`, and "I" is
        `asker`, a speaker; `time_range` leaves out all that was not said in it. Nothing is written. Raise QuestionError.
        """
        most = self.settings.context.max_tokens if max_tokens is None else max_tokens
        asked = ask(question, most=most, deadline=deadline, now=now, time_range=time_range, asker=asker)
        trace, path = Trace(deadline=deadline), self._read_path()
        if is_planned(strategy or self.settings.strategy, path):
            plan, usage = self._planner.plan(question, now=asked.now, recent=recent, trace=trace)
            asked = replace(asked, plan=plan, usage=usage)
        with after_spending(asked.usage):
            return read_evidence(asked, path, trace)

    def answer(self, question: str, **options: Unpack[RecallOptions]) -> Answer:
        """Answer a question from what `recall` finds for it, by one more model call; options are those of `recall`.

        Where nothing is found nobody is asked. Raise SettingsError without a model, ModelError if the call fails.
        """
        from scrubjay.answer import answer_question

        return answer_question(self._answer_task(question, options))

    def answer_stream(self, question: str, **options: Unpack[RecallOptions]) -> AnswerStream:
        """Answer as `answer` does, piece by piece: iterate over what this gives, then read its `answer`."""
        from scrubjay.answer import AnswerStream

        return AnswerStream(self._answer_task(question, options))

    def _answer_task(self, question: str, options: RecallOptions) -> AnswerTask:
        from scrubjay.answer import AnswerTask

        now = options["now"] = options.get("now") or datetime.now(UTC)
        return AnswerTask(
            evidence=self.recall(question, **options),
            now=now,
            recent=options.get("recent", ()),
            model=self.model.get(),
            settings=self.settings.answer,
        )

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        by: RankBy = RankBy.RELEVANCE,
        now: datetime | None = None,
        time_range: TimeRange | None = None,
        asker: str | None = None,
    ) -> tuple[Hit, ...]:
        """Rank turns, best first, with their rank and score in each channel; what scores nothing is left out."""
        asked = ask(query, most=limit, deadline=None, now=now, time_range=time_range, asker=asker)
        return search_turns(asked, self._read_path(), by=by)

    def _read_path(self) -> ReadPath:
        return ReadPath(
            turns=self._store,
            records=self.records,
            corpus=self._corpus,
            record_corpus=self._record_corpus,
            embedder=lambda: self._embedder,
            settings=self.settings,
        )

    # --- the log ---

    def turns(self, *, session_id: str | None = None, after: str | None = None) -> Iterator[Turn]:
        """Give turns as they were said, in the order of sessions, past the turn `after`; raise NotFoundError for an unknown one."""
        known = after is not None and self.turn(after).session_id == session_id
        if not (session_id is None or known or session_id in {one.session_id for one in self.sessions()}):
            raise NotFoundError(f"{self.path} has no session {session_id!r}")
        return self._store.turns(session_id=session_id, after=after)

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
        dry_run: bool = False,
    ) -> ForgetReport:
        """Delete turns and all that was made of them, from the file's bytes too; give exactly one filter.

        `before` leaves turns of no known time; `dry_run` only says what would go. Raise NotFoundError where there is none.
        """
        require_one_filter(turn=turn, session=session, before=before, everything=everything)
        report = self._store.forget(
            turn_id=turn, session_id=session, before=before, everything=everything, dry_run=dry_run
        )
        self._vectors.drop_stale(self._store)
        if not report.turns and (turn is not None or session is not None):
            raise NotFoundError(f"{self.path} has no {'turn' if turn else 'session'} {turn or session!r}")
        return report

    def export(self, to: str | Path | TextIO) -> int:
        """Write every turn with all its fields as JSONL that `import_` reads without loss; give how many."""
        return write_file(self._store.turns(), to, memory=self.path)

    def import_(self, path: str | Path, *, format: str = "auto", skip_bad: bool = False) -> AddReport:  # noqa: A002 -- the command's word
        """Store a file of one conversation; importing it again adds only what is new. Raise FormatError."""
        return self.add_many(read_file(Path(path), format_name=format, skip_bad=skip_bad, memory=self))

    # --- care ---

    def status(self) -> MemoryStatus:
        """Say what the memory holds."""
        return MemoryStatus(
            memory_id=self._store.memory_id,
            path=self.path,
            owner=self.owner,
            totals=self._store.totals(),
            embedder=str(self._embedder.identity),
            file_bytes=self._place.size(),
            progress=self.segments.progress(),
            usage=self.segments.usage(),
            failing=list_failing(self.segments),
            background=self._worker.state if self._worker else None,
        )

    def doctor(self, *, scrub: bool = False, rebuild: bool = False) -> tuple[Fault, ...]:
        """Check that the file is sound and every turn is in every index; `scrub` rewrites it without old bytes.

        `rebuild` makes the index of vectors on disk anew, if settings want one (`VectorSettings`), else removes it.
        """
        if rebuild:
            self._vectors.rebuild(self._store)
        faults = (*self._store.check(), *self._vectors.check(self._store))
        pending = self._place.scrub() if scrub else ""
        left = Fault(check="no forgotten bytes are left", found=pending, remedy="try again")
        return (*faults, left) if pending else faults

    def reembed(
        self, embedder: str | embed.Embedder, *, advance: Callable[[int, int], None] = ignore_progress
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
        with self._corpus.lock:
            if is_adopted := adopt_staged(self._store, new):
                self._embedder = new
                self._vectors.drop_stale(self._store)
        return is_adopted

    @property
    def is_gone(self) -> bool:
        """Whether the file was deleted or replaced since it was opened; whatever is asked then raises."""
        return self._place.is_gone

    @property
    def owner(self) -> str | None:
        """The user id this memory was made for, where a MemoryHome made it."""
        return self._store.read_meta(OWNER)

    def set_owner(self, user_id: str) -> None:
        self._store.write_meta(OWNER, user_id)

    def close(self) -> None:
        if self._worker:
            self._worker.close()
        self.model.break_off()
        self._place.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
