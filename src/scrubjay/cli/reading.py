"""Commands that read a memory: ask, search, show, sessions, status, doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.cli import output
from scrubjay.cli.options import AsJson, Asker, MemoryAddress, MemoryUser, Now, read_moment

if TYPE_CHECKING:
    from scrubjay.memory import Memory
    from scrubjay.settings import Settings


def settings_for_reading() -> Settings:
    """Give the settings of the environment but for the model: nothing is asked of one."""
    from dataclasses import replace

    from scrubjay.settings import ChatSettings, Settings

    return replace(Settings.from_env(), chat=ChatSettings())


def open_for_reading(memory: str, user: str | None) -> Memory:
    from scrubjay.memory import Memory

    return Memory(memory, user_id=user, settings=settings_for_reading(), create=False, read_only=True)


def open_to_answer(memory: str, user: str | None) -> Memory:
    """Open a memory with the model that the environment names."""
    from scrubjay.memory import Memory
    from scrubjay.settings import Settings

    return Memory(memory, user_id=user, settings=Settings.from_env(), create=False, read_only=True)


def ask(  # noqa: PLR0913 -- each is an option of the command
    question: Annotated[str, typer.Argument(help="What you want to know, in any language.")],
    memory: MemoryAddress,
    *,
    user: MemoryUser = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Length of the evidence at most. [default: 2000]")
    ] = None,
    now: Now = None,
    asker: Asker = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="chain: turns alone; planned: and records. [default: planned where there are records]"
        ),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Add a table: why each turn is there.")] = False,
    answer: Annotated[
        bool, typer.Option("--answer", help="Have the model of SCRUBJAY_MODEL answer from the evidence.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the chain of evidence for a question, or a model's answer from it."""
    moment = read_moment(now, "--now")
    if answer:
        with open_to_answer(memory, user) as opened:
            given = opened.answer(question, strategy=strategy, max_tokens=max_tokens, now=moment, asker=asker)
        output.print_json(given.to_dict()) if as_json else output.print_answer(given, explain=explain)
        return
    with open_for_reading(memory, user) as opened:
        evidence = opened.recall(question, strategy=strategy, max_tokens=max_tokens, now=moment, asker=asker)
    if as_json:
        output.print_json(evidence.to_dict(trace=True))
    else:
        output.print_evidence(evidence, explain=explain)


def search(  # noqa: PLR0913 -- each is an option of the command
    query: Annotated[str, typer.Argument(help="Any text.")],
    memory: MemoryAddress,
    *,
    user: MemoryUser = None,
    limit: Annotated[int, typer.Option(min=1, help="How many turns at most.")] = 10,
    now: Now = None,
    asker: Asker = None,
    as_json: AsJson = False,
) -> None:
    """List the turns most relevant to a query, best first."""
    from scrubjay.documents import hit_document

    with open_for_reading(memory, user) as opened:
        hits = opened.search(query, limit=limit, now=read_moment(now, "--now"), asker=asker)
    if as_json:
        output.print_json([hit_document(hit) for hit in hits])
    else:
        output.print_hits(hits)


def show(
    memory: MemoryAddress,
    *,
    user: MemoryUser = None,
    turn: Annotated[str | None, typer.Option(help="One turn, by its id.")] = None,
    session: Annotated[str | None, typer.Option(help="One session's turns, by its id.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print turns as they were said: one, a session's, or all."""
    from scrubjay.documents import turn_document

    with open_for_reading(memory, user) as opened:
        turns = [opened.turn(turn)] if turn is not None else list(opened.turns(session_id=session))
    if as_json:
        output.print_json([turn_document(found) for found in turns])
        return
    for found in turns:
        words = found.text or f"[image: {found.caption}]"
        output.print_text(
            f"[{found.turn_id}] {output.when(found)} {found.speaker or found.role.value}: {words}"
        )


def sessions(memory: MemoryAddress, *, user: MemoryUser = None, as_json: AsJson = False) -> None:
    """List the sessions with their times and speakers."""
    from scrubjay.documents import session_document

    with open_for_reading(memory, user) as opened:
        found = opened.sessions()
    if as_json:
        output.print_json([session_document(session) for session in found])
    else:
        output.print_sessions(found)


def status(memory: MemoryAddress, *, user: MemoryUser = None, as_json: AsJson = False) -> None:
    """Say what a memory holds."""
    from scrubjay.documents import status_document

    with open_for_reading(memory, user) as opened:
        found = opened.status()
    if as_json:
        output.print_json(status_document(found))
    else:
        output.print_status(found)


def register(app: typer.Typer) -> None:
    for command in (ask, search, show, sessions, status):
        app.command()(command)
