"""The answering benchmark, end to end over a real server on loopback: what it asks, keeps, counts and reports."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from qa_examples import FIRST, SECOND, write_corrections, write_locomo, write_longmemeval
from qa_server import play, serve_play

from scrubjay.bench.adapters import ADAPTERS
from scrubjay.bench.qa.calls import Budget
from scrubjay.bench.qa.folder import RunFolder
from scrubjay.bench.qa.report import write_report
from scrubjay.bench.qa.running import Finished, QaOptions, forecast, prepare_run, start_run
from scrubjay.bench.qa.selection import QuestionChoice
from scrubjay.bench.qa.systems import SYSTEMS
from scrubjay.errors import FormatError, InputError, MissingExtraError, NotFoundError, SettingsError
from scrubjay.settings import ChatSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from qa_server import PlayingServer

FIRST_ONLY = QuestionChoice(limit=1)
HASTY = ChatSettings(model="played", attempts=1)
ENCODE, PLAN, ANSWER, JUDGE = "<turns>", "Now:", "Asked:", "<gold>"  # what the requests of each stage hold


def options_for(server: PlayingServer, folder: Path, **changes: Any) -> QaOptions:
    """Give options for the tiny LoCoMo data set, with the server as model and as judge."""
    plain = QaOptions(
        dataset="locomo",
        data=write_locomo(folder),
        system="scrubjay",
        model=replace(HASTY, base_url=server.url),
        judge=replace(HASTY, model="judging", base_url=server.url),
        embedder="hash:64",
        runs=folder / "runs",
    )
    return replace(plain, **changes)


def tell_nothing(step: str, done: int, total: int) -> None:
    """Show no progress."""


def finish(options: QaOptions) -> Finished:
    return start_run(prepare_run(options), advance=tell_nothing)


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def asked_in(server: PlayingServer, stage: str) -> list[str]:
    """Give the user prompts of a stage."""
    prompts = [asked["messages"][1]["content"] for asked in server.asked]
    return [prompt for prompt in prompts if stage in prompt]


def instead(stage: str, reply: str, *, only: str = "") -> Callable[[str, str], str]:
    """Play as always, but for what a stage is asked about something: there, this is the reply."""
    return lambda system, user: reply if stage in user and only in user else play(system, user)


# --- from the conversation to the report ---


def test_locomo_end_to_end(tmp_path: Path) -> None:
    """Memories are built, questions answered and judged, and every question counts where it belongs."""
    with serve_play() as server:
        finished = finish(options_for(server, tmp_path))
    score = finished.report.score
    assert finished.left == ""
    assert (score.overall.questions, [(group.name, group.questions) for group in score.categories]) == (
        9,
        [("multi-hop", 2), ("open-domain", 1), ("single-hop", 5), ("temporal", 1)],
    )
    assert score.abstention is not None
    assert (score.abstention.name, score.abstention.questions) == ("abstention", 1)
    assert score.overall.values["accuracy"].mean == 5 / 9
    assert score.outcomes == {"answered": 8, "abstained": 2}
    assert score.rulings == {"correct": 6, "wrong": 4}
    assert (score.counts["conversations_built"], score.counts["turns"], score.counts["records"]) == (
        2,
        11,
        11,
    )
    assert score.cost.query_calls == 2  # a plan and an answer
    assert len(asked_in(server, ENCODE)) == 2 * score.cost.construction_calls
    assert len(asked_in(server, JUDGE)) == 10


def test_a_run_keeps_what_it_was(tmp_path: Path) -> None:
    """The folder has the data's hash, settings, prompts, versions, every reply as it came, and the cost of each."""
    with serve_play() as server:
        finished = finish(options_for(server, tmp_path))
    path = finished.path
    run = json.loads((path / "run.json").read_text())["run"]
    assert path.name.startswith("scrubjay-locomo-")
    assert (run["model"], run["judge"], len(run["data_sha256"])) == ("played", "judging", 64)
    assert run["settings"]["chain"]["coverage"] > 0
    assert {"encode", "plan", "answer", "judge_label", "judge_abstention"} <= run["prompts"].keys()
    assert "evidence" in (path / "prompts" / "answer.md").read_text("utf-8")
    assert read_lines(path / "starts.jsonl")[0]["packages"]["scrubjay"]
    calls = read_lines(path / "calls.jsonl")
    assert len(calls) == len(server.asked)
    assert {call["usage"]["calls"] for call in calls} == {1}
    assert all(call["text"] for call in calls)
    first = read_lines(path / "answers.jsonl")[0]
    assert (first["text"], first["cited"]) == (
        "We finally painted the kitchen, in a colour called pistachio. [1]",
        ["D1:1"],
    )
    assert first["usage"][0]["input_tokens"] > 0
    verdict = read_lines(path / "verdicts.jsonl")[0]
    assert verdict["votes"][0]["text"] == '{"label": "CORRECT"}'
    assert (path / "report.md").read_text("utf-8").startswith(f"# {path.name}")


def test_longmemeval_end_to_end(tmp_path: Path) -> None:
    """Each type is judged by its own question with ten tokens at most, and the one without an answer counts too."""
    with serve_play() as server:
        options = options_for(server, tmp_path, dataset="longmemeval", data=write_longmemeval(tmp_path))
        finished = finish(options)
    score = finished.report.score
    assert finished.report.run["variant"] == "S"
    assert score.overall.questions == 7
    assert score.abstention is not None
    assert score.abstention.questions == 1
    judging = [asked for asked in server.asked if JUDGE in asked["messages"][1]["content"]]
    assert {asked.get("max_tokens", asked.get("max_completion_tokens")) for asked in judging} == {10}
    assert len({asked["messages"][0]["content"] for asked in judging}) == 5
    prompts = {
        line["question_index"]: line["prompt"] for line in read_lines(finished.path / "verdicts.jsonl")
    }
    assert prompts == {
        0: "judge_contains",
        1: "judge_contains",
        2: "judge_temporal",
        3: "judge_update",
        4: "judge_preference",
        5: "judge_contains",
        6: "judge_abstention",
    }
    assert all("2023-05-30" in prompt for prompt in asked_in(server, ANSWER))


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system(tmp_path: Path, system: str) -> None:
    """Every system answers every question from evidence that it shows, and says what it may cost beforehand."""
    if system in ADAPTERS:
        try:
            assert ADAPTERS[system].version
        except MissingExtraError as missing:
            pytest.skip(str(missing))
    with serve_play() as server:
        options = options_for(server, tmp_path, system=system)
        foreseen = forecast(prepare_run(options), advance=tell_nothing)
        assert not (tmp_path / "runs").exists()
        finished = finish(options)
    score = finished.report.score
    assert (finished.left, score.outcomes["answered"] > 4) == ("", True)
    assert score.overall.values["evidence"].mean > 0.8
    assert score.counts["turns"] == 11
    calls = {step.step: step.calls for step in foreseen.steps}
    assert calls["build"] == len(asked_in(server, ENCODE))
    silent = sum(
        not line["text"] for line in read_lines(finished.path / "answers.jsonl")
    )  # nothing was found
    assert calls["answer"] == len(asked_in(server, ANSWER)) + len(asked_in(server, PLAN)) + silent
    assert calls["judge"] == len(asked_in(server, JUDGE))


def test_full_context_in_a_small_window(tmp_path: Path) -> None:
    """Where the log is longer than the window the newest turns are shown, and the report says so."""
    with serve_play() as server:
        finished = finish(options_for(server, tmp_path, system="full-context", max_tokens=90))
    assert finished.report.score.counts["answers_from_part_of_the_log"] > 0
    cut = read_lines(finished.path / "answers.jsonl")[0]
    assert (cut["left_out"], sorted(cut["context"])) == (4, ["D2:1", "D2:2", "D2:3", "D2:4"])
    assert cut["context_tokens"] <= 90


def test_a_preset_without_records(tmp_path: Path) -> None:
    """A preset that reads only the turn log asks nothing while it builds, and nothing but the answer."""
    with serve_play() as server:
        finished = finish(options_for(server, tmp_path, preset="cod", judge=None))
    assert (asked_in(server, ENCODE), asked_in(server, PLAN), len(asked_in(server, ANSWER))) == ([], [], 10)
    assert finished.report.score.cost.construction_k == 0
    assert "accuracy" not in finished.report.score.overall.values


# --- what isn't as it should be ---


def test_refusing_model(tmp_path: Path) -> None:
    """A model that declines one question, and a provider that rejects another, count as refused and wrong."""
    refusing = instead(
        ANSWER, "I'm sorry, but I can't help with that.", only="Where is the kiln of Ines from?"
    )

    def reply(system: str, user: str) -> str:
        return "HTTP 400" if ANSWER in user and "sister Bea teach?" in user else refusing(system, user)

    with serve_play(reply) as server:
        finished = finish(options_for(server, tmp_path))
    score = finished.report.score
    assert (finished.left, score.outcomes["refused"], score.overall.questions) == ("", 2, 9)
    lines = {
        (line["sample"], line["question_index"]): line for line in read_lines(finished.path / "answers.jsonl")
    }
    assert lines[SECOND, 0]["text"].startswith("I'm sorry")
    assert "400" in lines[SECOND, 1]["error"]
    assert score.rulings["unjudged"] == 1
    assert "questions refused" in (finished.path / "report.md").read_text("utf-8")


def test_failing_replies(tmp_path: Path) -> None:
    """A model that says nothing, twice, has failed; the question counts as wrong and isn't asked again."""
    with serve_play(instead(ANSWER, "", only="harbour")) as server:
        finished = finish(options_for(server, tmp_path, system="bm25"))
        asked = len(server.asked)
        again = finish(options_for(server, tmp_path, system="bm25"))
        assert len(server.asked) == asked
    for score in (finished.report.score, again.report.score):
        assert (score.outcomes["failed"], score.overall.questions) == (1, 9)


@pytest.mark.parametrize(
    ("verdict", "ruling"),
    [
        ("Perhaps, who knows?", "unreadable"),
        ("", "unreadable"),
        ("I cannot assist with that.", "refused"),
        ("HTTP 400", "refused"),
    ],
)
def test_nonsense_judge(tmp_path: Path, verdict: str, ruling: str) -> None:
    """A judge that says nonsense, nothing, or won't judge is counted as such, and the answer as wrong."""
    with serve_play(instead(JUDGE, verdict, only="pistachio")) as server:
        finished = finish(options_for(server, tmp_path, system="bm25"))
    score = finished.report.score
    assert score.rulings[ruling] == 2
    assert score.overall.questions == 9
    assert score.categories[2].values["accuracy"].mean == 2 / 5
    assert [line["ruling"] for line in read_lines(finished.path / "verdicts.jsonl")].count(ruling) == 2


def test_votes(tmp_path: Path) -> None:
    """Of several verdicts the majority counts; each is asked for by itself."""
    said: list[str] = []

    def waver(system: str, user: str) -> str:
        if JUDGE not in user or "harbour" not in user:
            return play(system, user)
        said.append(("WRONG", "CORRECT", "CORRECT", "hm")[len(said) % 4])
        return json.dumps({"label": said[-1]})

    with serve_play(waver) as server:
        finished = finish(options_for(server, tmp_path, system="bm25", votes=3))
        assert len(asked_in(server, JUDGE)) == 30
    verdict = next(
        line for line in read_lines(finished.path / "verdicts.jsonl") if line["question_index"] == 1
    )
    assert [vote["ruling"] for vote in verdict["votes"]] == ["wrong", "correct", "correct"]
    assert verdict["ruling"] == "correct"
    with pytest.raises(InputError, match="odd number"):
        finish(options_for(server, tmp_path, votes=2))


def test_provider_away(tmp_path: Path) -> None:
    """While the provider is away questions are left for later, and count as unanswered until they are done."""
    away = True

    def reply(system: str, user: str) -> str:
        return "HTTP 503" if away and ANSWER in user and "Ines" not in user else play(system, user)

    with serve_play(reply) as server:
        options = options_for(server, tmp_path)
        stopped = finish(options)
        assert "503" in stopped.left
        assert "10 questions are left" in stopped.left
        assert (stopped.report.score.outcomes, stopped.report.score.overall.questions) == (
            {"unanswered": 10},
            9,
        )
        away = False
        done = finish(options)
    assert (done.left, done.report.score.outcomes) == ("", {"answered": 8, "abstained": 2})


def test_one_question_is_put_off(tmp_path: Path) -> None:
    """One call that fails leaves its question for later, and the others are asked."""
    with serve_play(instead(ANSWER, "HTTP 503", only="harbour?")) as server:
        finished = finish(options_for(server, tmp_path))
    assert finished.left == "calls were put off; 1 questions are left: run it again"
    assert finished.report.score.outcomes["unanswered"] == 1
    assert finished.report.score.rulings["unjudged"] == 1


def test_wrong_key(tmp_path: Path) -> None:
    """What no question would get past ends the run at once."""
    with serve_play(instead(ENCODE, "HTTP 401")) as server:
        finished = finish(options_for(server, tmp_path))
        assert len(server.asked) == 1
    assert "401" in finished.left
    assert "2 conversations, 10 questions are left" in finished.left


def test_segments_that_fail(tmp_path: Path) -> None:
    """A segment whose encoding can't be read is given up and counted; questions are answered all the same."""
    with serve_play(instead(ENCODE, "no", only="walnuts")) as server:
        finished = finish(options_for(server, tmp_path))
        assert (
            sum("walnuts" in prompt for prompt in asked_in(server, ENCODE)) == 2
        )  # asked, and told what is wrong
    assert finished.left == ""
    assert finished.report.score.counts["segments_failed"] == 1


# --- going on, and not going on ---


def test_nothing_is_asked_twice(tmp_path: Path) -> None:
    """A finished run that is started again asks nothing, and comes to the same."""
    with serve_play() as server:
        options = options_for(server, tmp_path)
        first = finish(options)
        report = (first.path / "report.json").read_bytes()
        asked = len(server.asked)
        again = finish(options)
        assert (len(server.asked), again.path) == (asked, first.path)
    assert (first.path / "report.json").read_bytes() == report
    assert len(read_lines(first.path / "starts.jsonl")) == 2


def test_other_settings_in_the_same_folder(tmp_path: Path) -> None:
    """Another preset, model or file in a run's folder is an error that says what differs; elsewhere it is another run."""
    with serve_play() as server:
        out = tmp_path / "run"
        finish(options_for(server, tmp_path, out=out, preset="cod", judge=None, choice=FIRST_ONLY))
        for changes, named in (
            ({"preset": "cod-coverage"}, r"settings\.chain\.before was 1, now 0"),
            (
                {"model": replace(HASTY, model="other", base_url=server.url)},
                "model was 'played', now 'other'",
            ),
            ({"system": "bm25"}, "system was 'scrubjay', now 'bm25'"),
        ):
            given = {"preset": "cod", "judge": None, "choice": FIRST_ONLY, **changes}
            with pytest.raises(SettingsError, match=named):
                finish(options_for(server, tmp_path, out=out, **given))
        names = {
            prepare_run(options_for(server, tmp_path, preset=preset, votes=votes)).path.name
            for preset, votes in (("cod", 1), ("cod", 3), ("default", 1))
        }
        assert len(names) == 3


def test_more_questions_later(tmp_path: Path) -> None:
    """A run may be begun with a few questions and go on with all of them; the report is about those chosen last."""
    with serve_play() as server:
        few = finish(
            options_for(server, tmp_path, choice=QuestionChoice(limit=1, sample=2), system="full-context")
        )
        assert few.report.score.counts["questions"] == 2
        asked = len(asked_in(server, ANSWER))
        every = finish(options_for(server, tmp_path, system="full-context"))
        assert (asked, len(asked_in(server, ANSWER))) == (2, 10)
    assert (every.path, every.report.score.counts["questions"]) == (few.path, 10)


def test_budget(tmp_path: Path) -> None:
    """A budget of tokens ends a run before the call that it doesn't allow, and counts what earlier starts spent."""
    with serve_play() as server:
        stopped = finish(options_for(server, tmp_path, budget=Budget(tokens=2_000)))
        assert "the budget of 2,000 tokens is spent" in stopped.left
        asked = len(server.asked)
        assert 0 < asked < 5
        assert "budget" in finish(options_for(server, tmp_path, budget=Budget(tokens=2_000))).left
        assert len(server.asked) == asked
        assert finish(options_for(server, tmp_path)).left == ""
        with pytest.raises(InputError, match="played, judging is not"):
            finish(options_for(server, tmp_path, budget=Budget(dollars=1.0)))


def test_two_processes(tmp_path: Path) -> None:
    """A folder that a run is at work in is refused to another."""
    with serve_play() as server:
        prepared = prepare_run(options_for(server, tmp_path))
        with (
            RunFolder.open(prepared.path, prepared.identity, prepared.selection),
            pytest.raises(InputError, match="another process is at work"),
        ):
            start_run(prepared, advance=tell_nothing)


def test_torn_lines(tmp_path: Path) -> None:
    """A line that a kill cut short is as if it had not been written."""
    with serve_play() as server:
        options = options_for(server, tmp_path, system="bm25")
        first = finish(options)
        report = (first.path / "report.json").read_bytes()
        for name in ("answers", "verdicts", "calls"):
            file = first.path / f"{name}.jsonl"
            file.write_bytes(file.read_bytes()[:-5])
        assert finish(options).left == ""
    assert (first.path / "report.json").read_bytes() == report


def test_damaged_lines(tmp_path: Path) -> None:
    """A line that no run wrote is an error that says where."""
    with serve_play() as server:
        path = finish(options_for(server, tmp_path, system="bm25")).path
    (path / "answers.jsonl").write_text('{"sample": 1}\n')
    with pytest.raises(FormatError, match=r"answers\.jsonl: line 1"):
        write_report(path)
    with pytest.raises(NotFoundError, match="no run here"):
        write_report(tmp_path)


def test_data_that_is_not_there(tmp_path: Path) -> None:
    """A missing file, one of another format, and a data set without answers are errors before anything is asked."""
    with serve_play() as server:
        for changes, error, named in (
            ({"data": tmp_path / "none.json"}, FormatError, "nothing there"),
            ({"data": write_longmemeval(tmp_path)}, FormatError, "sample_id"),
            ({"data": None}, SettingsError, "not shipped"),
            ({"dataset": "memdaily"}, SettingsError, "dataset: expected one of locomo"),
            ({"system": "nobody"}, SettingsError, "system: expected one of scrubjay"),
            ({"model": ChatSettings()}, SettingsError, "SCRUBJAY_MODEL"),
            ({"preset": "nothing"}, SettingsError, "no preset"),
        ):
            with pytest.raises(error, match=named):
                finish(options_for(server, tmp_path, **changes))
        assert server.asked == []
    assert not (tmp_path / "runs").exists()


# --- known faults of the gold ---


def test_corrections(tmp_path: Path) -> None:
    """Both golds are scored side by side; a corrected answer is judged by itself, corrected evidence needs no judge."""
    with serve_play() as server:
        plain = options_for(server, tmp_path, system="full-context")
        finish(plain)
        asked = len(server.asked)
        path = write_corrections(tmp_path)
        finished = finish(replace(plain, choice=QuestionChoice(corrections=path)))
        assert len(server.asked) == asked + 1
    score = finished.report.score
    assert score.corrections == {"HALLUCINATION": 1, "WRONG_CITATION": 1}
    before, after = score.overall.values, score.overall.corrected
    assert (before["accuracy"].mean, after["accuracy"].mean) == (5 / 9, 6 / 9)
    citations = {(one.sample, one.question_index): (one.values, one.corrected) for one in score.scores}
    assert citations[FIRST, 2][0]["citations"] == 1
    assert "as published" in (finished.path / "report.md").read_text("utf-8")


def test_corrections_of_other_questions(tmp_path: Path) -> None:
    """Corrections whose questions aren't those of the file are refused, and those of other data sets."""
    path = write_corrections(tmp_path)
    path.write_text(
        path.read_text("utf-8").replace("What does the sister Bea teach?", "What does the sister Bea sell?")
    )
    with serve_play() as server:
        with pytest.raises(FormatError, match="question 1 of conv-30"):
            finish(options_for(server, tmp_path, choice=QuestionChoice(corrections=path)))
        path.write_text(path.read_text("utf-8").replace("locomo_1_", "other_1_"))
        with pytest.raises(FormatError, match="question_id"):
            finish(options_for(server, tmp_path, choice=QuestionChoice(corrections=path)))
        with pytest.raises(InputError, match="corrections"):
            finish(options_for(server, tmp_path, dataset="sample", choice=QuestionChoice(corrections=path)))
