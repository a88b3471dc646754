"""`scrubjay worker`: a process that makes records of many users' conversations, in a database."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.cli.consolidating import BaseUrl, ModelName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrubjay.worker import Worker, WorkerOptions

CallsPerMinute = Annotated[int | None, typer.Option(min=1, help="Of all workers of the database together.")]
TokensPerMinute = Annotated[int | None, typer.Option(min=1, help="Likewise, input and output together.")]
TokensPerDay = Annotated[int | None, typer.Option(min=1, help="Likewise, by the day of UTC.")]
LeaseSeconds = Annotated[
    float, typer.Option(min=1, help="After which another has the segment of a worker that died.")
]


def worker(  # noqa: PLR0913 -- a command's options are its parameters
    *,
    dsn: Annotated[
        str, typer.Option(envvar="SCRUBJAY_DSN", help="The database of memories.", show_default=False)
    ],
    model: ModelName = None,
    base_url: BaseUrl = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Segments encoded side by side.")] = 4,
    idle: Annotated[
        float,
        typer.Option(
            min=0, metavar="MINUTES", help="Without a turn, after which a session's open segment closes."
        ),
    ] = 30.0,
    calls_per_minute: CallsPerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    tokens_per_day: TokensPerDay = None,
    lease_seconds: LeaseSeconds = 120.0,
    drain: Annotated[
        bool, typer.Option("--drain", help="End when nothing is left to do, or the provider is away.")
    ] = False,
    grace: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="For calls under way, when told to stop.")
    ] = 30.0,
) -> None:
    """Make records of what was said in a database's memories, until Ctrl-C or SIGTERM; any number may do so at once.

    Told to stop, it finishes what is under way, or gives it back after the grace, or when told again.
    """
    from scrubjay.store.postgres import require_driver

    require_driver()
    from scrubjay.store.postgres.budgets import BudgetLimits
    from scrubjay.worker import WorkerOptions

    budgets = BudgetLimits(
        calls_per_minute=calls_per_minute,
        tokens_per_minute=tokens_per_minute,
        tokens_per_day=tokens_per_day,
    )
    options = WorkerOptions(
        concurrency=concurrency, idle=timedelta(minutes=idle), budgets=budgets, drain=drain
    )
    with (
        opened_worker(dsn, (model, base_url), options, lease_seconds=lease_seconds) as opened,
        stopped_by_signals(opened, grace=grace),
    ):
        opened.run()


@contextmanager
def opened_worker(
    dsn: str, model: tuple[str | None, str | None], options: WorkerOptions, *, lease_seconds: float
) -> Iterator[Worker]:
    """Open the model, given by its name and address, and the database; log to standard error."""
    from scrubjay.json_log import log_to_stderr
    from scrubjay.llm import load_model
    from scrubjay.postgres_home import PostgresHome
    from scrubjay.settings import Settings
    from scrubjay.worker import Worker, log_event

    settings = Settings.from_env()
    name, base_url = model
    chat = replace(
        settings.chat, model=name or settings.chat.model, base_url=base_url or settings.chat.base_url
    )
    settings = replace(
        settings,
        chat=chat,
        encoder=replace(settings.encoder, lease_seconds=lease_seconds),
        postgres=replace(
            settings.postgres, connections=max(settings.postgres.connections, 2 * options.concurrency + 1)
        ),
    )
    chosen = load_model(chat)
    try:
        with PostgresHome(dsn, settings=settings) as home:
            log_to_stderr()
            yield Worker(home, chosen, settings, options=options, tell=log_event)
    finally:
        chosen.close()


@contextmanager
def stopped_by_signals(opened: Worker, *, grace: float) -> Iterator[None]:
    """Stop the worker on SIGTERM or SIGINT: with patience, or at once on the second."""
    told: list[threading.Timer] = []

    def stop(*_: object) -> None:
        if told:
            opened.break_off()
            return
        told.append(threading.Timer(grace, opened.break_off))
        told[0].daemon = True
        opened.stop()
        told[0].start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for timer in told:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def register(app: typer.Typer) -> None:
    app.command()(worker)
