"""Put a run together from what was asked for, and run it: its folder, its models, its questions."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrubjay._version import __version__
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.qa.calls import Budget, CallLog
from scrubjay.bench.qa.corrections import correct_questions, hash_file
from scrubjay.bench.qa.estimate import Models, forecast_run
from scrubjay.bench.qa.folder import Identity, RunFolder, Selection, hash_prompts
from scrubjay.bench.qa.judging import prompt_name
from scrubjay.bench.qa.prices import is_priced
from scrubjay.bench.qa.report import write_report
from scrubjay.bench.qa.selection import ALL_QUESTIONS, DATASETS, QuestionChoice, choose, question_lines
from scrubjay.bench.qa.steps import Run, run_steps
from scrubjay.bench.qa.systems import SystemSetup, load_system
from scrubjay.embed import load_embedder
from scrubjay.errors import InputError, SettingsError
from scrubjay.llm import load_model
from scrubjay.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrubjay.bench.qa.estimate import Forecast
    from scrubjay.bench.qa.lines import QuestionLine
    from scrubjay.bench.qa.report import Report
    from scrubjay.bench.qa.selection import Chosen
    from scrubjay.bench.qa.systems import SystemModule
    from scrubjay.bench.questions import Dataset
    from scrubjay.settings import ChatSettings

    Advance = Callable[[str, int, int], None]


NO_BUDGET = Budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class QaOptions:
    """What a run is asked to be."""

    dataset: str
    data: Path | None
    system: str
    model: ChatSettings
    judge: ChatSettings | None = None  # None: nobody judges
    preset: str = "default"
    embedder: str = "static"
    max_tokens: int | None = None  # of the context; None: the system's own
    votes: int = 1
    choice: QuestionChoice = ALL_QUESTIONS
    workers: int = 1
    budget: Budget = NO_BUDGET
    runs: Path  # where the run's folder is made
    out: Path | None = None  # or the folder itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a run is, before anything of it is written or asked."""

    options: QaOptions
    dataset: Dataset
    chosen: tuple[Chosen, ...]
    questions: tuple[QuestionLine, ...]
    system: SystemModule
    setup: SystemSetup
    identity: Identity
    selection: Selection

    @property
    def path(self) -> Path:
        """The folder of the run."""
        return self.options.out or self.options.runs / self.identity.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a start of a run came to."""

    path: Path
    report: Report
    left: str  # what is not done, and why; "" where all is


def prepare_run(options: QaOptions) -> Prepared:
    """Load data and settings; raise an InputError for whatever can't be run."""
    check_options(options)
    system = load_system(options.system)
    dataset = load_dataset(options.dataset, options.data)
    chosen = choose(dataset, options.choice)
    questions = tuple(question_lines(dataset.name, chosen))
    if not questions:
        raise InputError(f"{options.data or options.dataset}: expected questions to ask, found none")
    if options.choice.corrections is not None:
        questions = correct_questions(questions, dataset, options.choice.corrections)
    setup = SystemSetup(
        settings=Settings.preset(options.preset),
        embedder=load_embedder(options.embedder),
        max_tokens=options.max_tokens or system.MAX_TOKENS,
    )
    prompts = {*system.PROMPTS}
    if options.judge is not None:
        prompts |= {prompt_name(question.judge_task) for question in questions_of_all(dataset)}
    return Prepared(
        options=options,
        dataset=dataset,
        chosen=chosen,
        questions=questions,
        system=system,
        setup=setup,
        identity=identify(options, dataset, system, setup, sorted(prompts)),
        selection=Selection(
            limit=options.choice.limit,
            sample=options.choice.sample,
            seed=options.choice.seed,
            corrections=hash_file(options.choice.corrections),
        ),
    )


def check_options(options: QaOptions) -> None:
    if options.dataset not in DATASETS:
        raise SettingsError(f"dataset: expected one of {', '.join(DATASETS)}, found {options.dataset!r}")
    if not options.model.model:
        raise SettingsError("no model is named: give --model, or set SCRUBJAY_MODEL")
    if options.votes < 1 or options.votes % 2 == 0:
        raise InputError(f"votes: expected an odd number, so that there is a majority, found {options.votes}")
    if options.choice.corrections is not None and options.dataset != "locomo":
        raise InputError(f"corrections: there are some of locomo, found the data set {options.dataset!r}")
    if options.budget.dollars is not None:
        named = [chat.model or "" for chat in (options.model, options.judge) if chat is not None]
        unpriced = [name for name in named if not is_priced(name)]
        if unpriced:
            raise InputError(
                f"a budget in dollars needs known prices, and that of {', '.join(unpriced)} is not: give a budget of tokens"
            )


def questions_of_all(dataset: Dataset) -> list[QuestionLine]:
    """Give every question of the data set, so that a run is the same run whichever are chosen."""
    return question_lines(dataset.name, choose(dataset, ALL_QUESTIONS))


def identify(
    options: QaOptions, dataset: Dataset, system: SystemModule, setup: SystemSetup, prompts: list[str]
) -> Identity:
    return Identity(
        system=options.system,
        dataset=dataset.name,
        variant=dataset.variant,
        data_sha256=dataset.sha256,
        files=dataset.files,
        model=options.model.model or "",
        judge=None if options.judge is None else options.judge.model,
        votes=options.votes,
        embedder=str(setup.embedder.identity),
        settings=system.describe_settings(setup),
        prompts=hash_prompts(prompts),
        scrubjay=__version__,
    )


def forecast(prepared: Prepared, *, advance: Advance) -> Forecast:
    """Reckon what a run takes from its beginning; nothing is asked or written."""
    options = prepared.options
    return forecast_run(
        prepared.chosen,
        prepared.questions,
        system=prepared.system,
        setup=prepared.setup,
        models=Models(
            model=options.model.model or "",
            judge=None if options.judge is None else options.judge.model,
            votes=options.votes,
        ),
        advance=advance,
    )


def start_run(prepared: Prepared, *, advance: Advance) -> Finished:
    """Do what is left of a run, and write its report."""
    options = prepared.options
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder.open(prepared.path, prepared.identity, prepared.selection))
        folder.questions.replace(prepared.questions)
        model = load_model(options.model)
        stack.callback(model.close)
        judge = None if options.judge is None else load_model(options.judge)
        if judge is not None:
            stack.callback(judge.close)
        run = Run(
            folder=folder,
            chosen=prepared.chosen,
            system=prepared.system,
            setup=prepared.setup,
            calls=CallLog(folder.path / "calls.jsonl", budget=options.budget),
            model=model,
            judge=judge,
            votes=options.votes,
            workers=options.workers,
        )
        left = run_steps(run, advance=advance)
        return Finished(path=folder.path, report=write_report(folder.path), left=left)
