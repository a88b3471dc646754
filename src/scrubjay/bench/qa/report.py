"""The report of a run, from its folder alone: JSON with every number, and tables for people."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

from scrubjay.bench.qa.durable import DurableLines, encode_json, write_whole
from scrubjay.bench.qa.folder import read_run_file
from scrubjay.bench.qa.judging import STAGE
from scrubjay.bench.qa.lines import (
    AnswerLine,
    BuildLine,
    CallLine,
    QuestionLine,
    Ruling,
    StartLine,
    VerdictLine,
)
from scrubjay.bench.qa.scoring import ACCURACY, UNJUDGED, QuestionScore, RunLines, RunScore, score_lines
from scrubjay.bench.qa.selection import COUNTS_ABSTENTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from scrubjay.bench.measures import Interval
    from scrubjay.bench.qa.scoring import Group
    from scrubjay.datatypes import JsonValue

MEASURES = {
    ACCURACY: "accuracy",
    "abstains": "abstains",
    "f1": "F1",
    "exact": "exact",
    "evidence": "evidence shown",
    "citations": "citations right",
}
NO_VERDICT = (UNJUDGED, Ruling.UNREADABLE.value, Ruling.REFUSED.value)
Table = list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A run and how it scored."""

    name: str  # of its folder
    run: Mapping[str, JsonValue]  # what it is, as run.json has it
    selection: Mapping[str, JsonValue]
    packages: Mapping[str, Sequence[str]]  # name → versions it was started with
    score: RunScore


def read_report(path: Path) -> Report:
    """Score a run from what it has written; raise NotFoundError where there is none."""
    run, selection = read_run_file(path)
    judged = run["judge"] is not None
    lines = RunLines(
        dataset=str(run["dataset"]),
        judged=judged,
        questions=DurableLines(path / "questions.jsonl", QuestionLine).lines(),
        builds=DurableLines(path / "build.jsonl", BuildLine).lines(),
        answers=DurableLines(path / "answers.jsonl", AnswerLine).lines(),
        verdicts=DurableLines(path / "verdicts.jsonl", VerdictLine).lines(),
        judge_usage=[
            line.usage
            for _, line in DurableLines(path / "calls.jsonl", CallLine).read()
            if line.usage is not None and line.usage.stage == STAGE
        ],
    )
    starts = DurableLines(path / "starts.jsonl", StartLine).lines()
    return Report(
        name=path.resolve().name,
        run=run,
        selection=selection,
        packages={
            name: tuple(dict.fromkeys(start.packages[name] for start in starts if name in start.packages))
            for name in dict.fromkeys(name for start in starts for name in start.packages)
        },
        score=score_lines(lines),
    )


def write_report(path: Path) -> Report:
    """Score a run, and write scores.jsonl, report.json and report.md into its folder."""
    report = read_report(path)
    DurableLines(path / "scores.jsonl", QuestionScore).replace(report.score.scores)
    write_whole(path / "report.json", encode_json(report_document(report), indent=2) + b"\n")
    write_whole(path / "report.md", "\n".join(report_lines(report)).encode("utf-8", "replace") + b"\n")
    return report


def report_document(report: Report) -> dict[str, JsonValue]:
    score = report.score
    return {
        "run": dict(report.run),
        "selection": dict(report.selection),
        "packages": {name: list(versions) for name, versions in report.packages.items()},
        "overall": group_document(score.overall),
        "abstention": None if score.abstention is None else group_document(score.abstention),
        "categories": {group.name: group_document(group) for group in score.categories},
        "cost": cast("JsonValue", asdict(score.cost)),
        "outcomes": dict(score.outcomes),
        "verdicts": dict(score.rulings),
        "counts": dict(score.counts),
        "corrections": dict(score.corrections),
    }


def group_document(group: Group) -> dict[str, JsonValue]:
    return {
        "questions": group.questions,
        "values": {name: interval_document(value) for name, value in group.values.items()},
        "corrected": {name: interval_document(value) for name, value in group.corrected.items()},
    }


def interval_document(value: Interval) -> dict[str, JsonValue]:
    return {"mean": value.mean, "low": value.low, "high": value.high, "questions": value.questions}


def report_lines(report: Report) -> Iterator[str]:
    """Write a run's report as Markdown."""
    score = report.score
    yield f"# {report.name}"
    yield from ("", *markdown_table(facts_table(report)))
    yield from ("", "## Scores", "")
    yield "Percent, with 95 % intervals. What failed, was refused, or was not answered or judged, counts as wrong."
    if score.abstention is not None:
        counts = str(report.run["dataset"]) in COUNTS_ABSTENTION
        yield f"Questions without an answer {'count' if counts else 'do not count'} in the overall score."
    yield from ("", *markdown_table(score_table(report)))
    if score.corrections:
        yield from ("", "## With the gold corrected", "", corrections_line(report))
        yield from ("", *markdown_table(correction_table(report)))
    yield from ("", "## Cost", "", *markdown_table(cost_table([report])))
    yield from ("", "## What became of the questions", "", *markdown_table(fate_table(report)))


def facts_table(report: Report) -> Table:
    """Say what was run, on what, with what."""
    run = report.run
    chosen = [f"{name} {value}" for name, value in report.selection.items() if value not in (None, "")]
    facts = {
        "system": run["system"],
        "dataset": " ".join(str(run[name]) for name in ("dataset", "variant") if run[name]),
        "data sha256": run["data_sha256"],
        "questions": f"{report.score.counts['questions']} ({', '.join(chosen)})",
        "model": run["model"],
        "judge": "none" if run["judge"] is None else f"{run['judge']}, {run['votes']} votes an answer",
        "embedder": run["embedder"],
        "packages": ", ".join(
            f"{name} {' and '.join(versions)}" for name, versions in report.packages.items()
        ),
    }
    return [["", ""], *([name, str(value)] for name, value in facts.items())]


def groups_of(score: RunScore) -> tuple[Group, ...]:
    return (score.overall, *score.categories, *(() if score.abstention is None else (score.abstention,)))


def score_table(report: Report) -> Table:
    groups = groups_of(report.score)
    shown = [name for name in MEASURES if any(name in group.values for group in groups)]
    rows = [
        [group.name, str(group.questions), *(percent(group.values.get(name)) for name in shown)]
        for group in groups
    ]
    return [["", ">questions", *(f">{MEASURES[name]}" for name in shown)], *rows]


def percent(value: Interval | None) -> str:
    if value is None:
        return ""
    return f"{100 * value.mean:.1f} [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def corrections_line(report: Report) -> str:
    kinds = report.score.corrections
    named = ", ".join(f"{count} {kind.lower().replace('_', ' ')}" for kind, count in sorted(kinds.items()))
    return f"The gold of {sum(kinds.values())} questions is known to be wrong ({named}); both are scored:"


def correction_table(report: Report) -> Table:
    """Set the score against the gold as published beside that against the corrected one."""
    overall = report.score.overall
    shown = [name for name in MEASURES if name in overall.values]
    return [
        ["overall", *(f">{MEASURES[name]}" for name in shown)],
        ["as published", *(percent(overall.values[name]) for name in shown)],
        ["corrected", *(percent(overall.corrected.get(name)) for name in shown)],
    ]


def cost_table(reports: Sequence[Report]) -> Table:
    """Give tokens by the paper's definitions, in thousands."""
    head = [
        "",
        ">construction K a conversation",
        ">calls",
        ">query K a question",
        ">calls",
        ">judge K a question",
    ]
    return [
        head,
        *(
            [
                label_of(report),
                f"{report.score.cost.construction_k:.2f}",
                f"{report.score.cost.construction_calls:.1f}",
                f"{report.score.cost.query_k:.2f}",
                f"{report.score.cost.query_calls:.2f}",
                f"{report.score.cost.judge_k:.2f}",
            ]
            for report in reports
        ),
    ]


def fate_table(report: Report) -> Table:
    """Count what became of the questions: nothing is left out of the denominators."""
    score = report.score
    counts = {
        **{f"questions {name}": count for name, count in sorted(score.outcomes.items())},
        **{f"verdicts {name}": count for name, count in sorted(score.rulings.items())},
        **{name.replace("_", " "): count for name, count in score.counts.items()},
    }
    return [["", ">"], *([name, str(count)] for name, count in counts.items())]


def label_of(report: Report) -> str:
    """Name a run beside others."""
    return f"{report.run['system']} {report.name.rpartition('-')[2]}"


def comparison_table(reports: Sequence[Report]) -> Table:
    """Set runs beside each other: accuracy where they were judged, and what needs no judge."""
    categories = list(
        dict.fromkeys(group.name for report in reports for group in groups_of(report.score)[1:])
    )
    judged = any(ACCURACY in report.score.overall.values for report in reports)
    by_category = ACCURACY if judged else "f1"
    overall = [name for name in MEASURES if any(name in report.score.overall.values for report in reports)]
    head = ["run", "dataset", ">questions", *(f">{MEASURES[name]}" for name in overall)]
    head += [f">{name}" for name in categories]
    head += [">failed or refused", ">unanswered", ">no verdict"]
    return [head, *(comparison_row(report, overall, categories, by_category) for report in reports)]


def comparison_row(
    report: Report, overall: Sequence[str], categories: Sequence[str], by_category: str
) -> list[str]:
    score = report.score
    groups = {group.name: group for group in groups_of(score)[1:]}
    values = [groups[name].values.get(by_category) if name in groups else None for name in categories]
    outcomes, rulings = score.outcomes, score.rulings
    return [
        label_of(report),
        str(report.run["dataset"]),
        str(score.overall.questions),
        *(percent(score.overall.values.get(name)) for name in overall),
        *("" if value is None else f"{100 * value.mean:.1f}" for value in values),
        str(outcomes.get("failed", 0) + outcomes.get("refused", 0)),
        str(outcomes.get("unanswered", 0)),
        str(sum(rulings.get(name, 0) for name in NO_VERDICT)),
    ]


def comparison_lines(reports: Sequence[Report]) -> Iterator[str]:
    """Write runs beside each other as Markdown."""
    yield from markdown_table(comparison_table(reports))
    yield from ("", *markdown_table(cost_table(reports)))


def markdown_table(table: Table) -> Iterator[str]:
    """Write a table whose first row names the columns; those that begin with ">" are numbers, set right."""
    head, *rows = table
    yield row_line([name.removeprefix(">") for name in head])
    yield f"|{'|'.join('---:' if name.startswith('>') else '---' for name in head)}|"
    yield from map(row_line, rows)


def row_line(cells: Sequence[str]) -> str:
    escaped = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
