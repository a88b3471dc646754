"""Data sets of the benchmark, with the faults their files have."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from format_examples import HAYSTACK, HAYSTACK_SESSIONS, LABELLED, write_json, write_lines

from scrubjay.bench.datasets import BenchQuestion, load_dataset
from scrubjay.bench.given import load_given
from scrubjay.errors import FormatError, SettingsError

if TYPE_CHECKING:
    from pathlib import Path


def only_question(name: str, path: Path) -> BenchQuestion:
    (question,) = all_questions(name, path)
    return question


def all_questions(name: str, path: Path) -> list[BenchQuestion]:
    return [question for sample in load_dataset(name, path).samples for question in sample.questions]


def write_locomo(path: Path, questions: list[dict[str, Any]]) -> Path:
    def said(*ids: str) -> list[dict[str, str]]:
        return [{"dia_id": name, "speaker": "Ines", "text": f"I say {name}"} for name in ids]

    conversation = {
        "session_1": said("D1:1", "D1:2"),
        "session_11": said("D11:5", "D11:26"),
        "session_30": [*said("D30:5"), {"dia_id": "D30:6", "speaker": "Odd", "text": ""}],
    }
    return write_json(path, [{"sample_id": "pair", "conversation": conversation, "qa": questions}])


@pytest.mark.parametrize(
    ("cited", "evidence", "unresolved"),
    [
        (["D1:1"], ("D1:1",), ()),
        (["D1:1; D11:5"], ("D1:1", "D11:5"), ()),
        (["D1:1, D1:2", "D1:1"], ("D1:1", "D1:2"), ()),
        (["D1:1 D30:5 D11:26"], ("D1:1", "D30:5", "D11:26"), ()),
        ("D1:2", ("D1:2",), ()),
        (["D:11:26"], ("D11:26",), ()),
        (["D30:05"], ("D30:5",), ()),
        (["D10:19", "D1:1"], ("D1:1",), ("D10:19",)),
        (["D"], (), ("D",)),
        (["D30:6"], (), ("D30:6",)),
        ([5, ""], (), ("5",)),
        ([], (), ()),
        (None, (), ()),
    ],
)
def test_locomo_evidence_is_read_however_it_is_written(
    tmp_path: Path, cited: object, evidence: tuple[str, ...], unresolved: tuple[str, ...]
) -> None:
    """Several turns in one text, stray colons and zeros are understood; what names no turn is kept apart"""
    path = write_locomo(tmp_path / "x.json", [{"question": "?", "category": 4, "evidence": cited}])
    question = only_question("locomo", path)
    assert (question.evidence, question.unresolved) == (evidence, unresolved)


def test_locomo_questions_are_known_by_their_place(tmp_path: Path) -> None:
    """A question that occurs twice is two questions; answers may be numbers or missing; category 5 has none"""
    repeated = {"question": "When?", "category": 2, "evidence": ["D11:5", "D1:1", "D11:26"], "answer": 2022}
    adversarial = {"question": "Why?", "category": 5, "evidence": ["D1:2"], "adversarial_answer": "because"}
    first, second, third, fourth = all_questions(
        "locomo",
        write_locomo(
            tmp_path / "x.json", [repeated, repeated, adversarial, {"question": "?", "category": 9}]
        ),
    )
    assert [question.question_index for question in (first, second, third, fourth)] == [0, 1, 2, 3]
    assert (first.answer, first.category, first.category_name) == ("2022", 2, "temporal")
    assert first.evidence_sessions == ("session_11", "session_1")
    assert (third.answer, third.unanswerable, third.evidence, third.asked_at) == ("", True, ("D1:2",), None)
    assert (second.unanswerable, fourth.category_name) == (False, "9")


def longmemeval_entry(**changes: Any) -> dict[str, Any]:
    return {
        **HAYSTACK,
        "question": "Did the tram come?",
        "question_type": "multi-session",
        "question_date": "2023/05/30 (Tue) 22:53",
        "answer": 3,
        "answer_session_ids": ["s"],
        **changes,
    }


def test_longmemeval_gold_comes_from_marked_turns(tmp_path: Path) -> None:
    """In the official layout the gold turns are those marked has_answer, by session and place"""
    path = write_json(tmp_path / "x.json", [longmemeval_entry(haystack_sessions=HAYSTACK_SESSIONS)])
    question = only_question("longmemeval", path)
    assert (question.sample, question.question_index, question.answer) == ("q1", 0, "3")
    assert (question.evidence, question.evidence_sessions) == (("s:0",), ("s",))
    assert question.asked_at == datetime(2023, 5, 30, 22, 53, tzinfo=UTC)


def test_longmemeval_gold_comes_from_listed_turns(tmp_path: Path) -> None:
    """In the layout with shared sessions the gold turns are listed, and both files are named by the hash"""
    lines = [{"session_id": name, "turns": HAYSTACK_SESSIONS[i]} for i, name in enumerate("st")]
    beside = write_lines(tmp_path / "sessions.jsonl", lines)
    entries = [
        longmemeval_entry(evidence_turn_ids=["t:1", "t:0", "s:0"], answer_session_ids=["t", "u"]),
        longmemeval_entry(question_id="q2_abs", evidence_turn_ids=["s:0"]),
        longmemeval_entry(question_id="q3", abstention=True),
        longmemeval_entry(question_id="q4"),
    ]
    path = write_json(tmp_path / "x.json", entries)
    dataset = load_dataset("longmemeval", path)
    first, second, third, fourth = (sample.questions[0] for sample in dataset.samples)
    assert (first.evidence, first.evidence_sessions, first.unresolved) == (
        ("t:1", "s:0"),
        ("t",),
        ("t:0", "u"),
    )
    assert [question.unanswerable for question in (first, second, third, fourth)] == [
        False,
        True,
        True,
        False,
    ]
    assert (second.evidence, second.evidence_sessions, fourth.evidence) == ((), (), ())
    assert [question.question_index for question in (first, second)] == [0, 1]
    printed = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in (path, beside)]
    assert dataset.sha256 == hashlib.sha256("".join(printed).encode()).hexdigest()


MEMDAILY = [
    {
        "kind": "05_post_processing_events",
        "tid": 3,
        "message_list": [
            {"mid": 0, "message": "我要去看窑。", "time": "2024年04月01日 周一 08:30", "place": "广东深圳"},
            {"mid": 1, "message": "窑裂了。", "time": "2024年04月01日 周一 20:58"},
        ],
        "question_list": [
            {
                "qid": 0,
                "question": "窑怎么了？",
                "answer": "裂了",
                "target_step_id": [1, 7],
                "time": "2024年04月04日 周四 07:42",
            }
        ],
    }
]


def test_memdaily_lists_are_samples(tmp_path: Path) -> None:
    """MemDaily: a sample a list, message numbers as turn ids, turns as the only gold"""
    (sample,) = load_dataset("memdaily", write_json(tmp_path / "x.json", MEMDAILY)).samples
    (session,) = sample.conversation.sessions
    assert [turn.turn_id for turn in session.turns] == ["0", "1"]
    assert session.turns[0].said_at == datetime(2024, 4, 1, 8, 30, tzinfo=UTC)
    assert [turn.metadata for turn in session.turns] == [{"place": "广东深圳"}, {}]
    (question,) = sample.questions
    assert (question.sample, question.question_index) == ("05_post_processing_events-3", 0)
    assert (question.evidence, question.evidence_sessions, question.unresolved) == (("1",), (), ("7",))
    assert question.category_name == "post_processing"
    assert question.asked_at == datetime(2024, 4, 4, 7, 42, tzinfo=UTC)


def realmem_turn(speaker: str, content: str, **labels: Any) -> dict[str, Any]:
    return {"speaker": speaker, "content": content, **labels}


def write_realmem(path: Path, name: str = "Ines") -> Path:
    ask = {"is_query": True, "category_name": "Dynamic Updating"}
    dialogues = [
        (
            "aa",
            "2025-12-15 (Monday)",
            [realmem_turn("User", "I bought a kiln."), realmem_turn("Assistant", "")],
        ),
        ("bb", "2025-12-16 (Tuesday)", [realmem_turn("User", "It cracked.")]),
        (
            "cc",
            "2025-12-16 (Tuesday)",
            [
                realmem_turn("User", "What did I buy?", **ask),
                realmem_turn(
                    "Assistant",
                    "A kiln.",
                    memory_session_uuids=["aa", "cc", "aa", "dd"],
                    memory_used=[{"session_uuid": "aa", "content": "Bought a kiln"}],
                ),
                realmem_turn("User", "And then?", is_query=True),
                realmem_turn(
                    "Assistant",
                    "",
                    memory_used=[
                        {"session_uuid": "aa", "content": "Bought a kiln"},
                        {"session_uuid": "bb", "content": "It broke"},
                    ],
                ),
            ],
        ),
        ("dd", "2025-12-17 (Wednesday)", [realmem_turn("User", "Bye.")]),
    ]
    memories = {
        "aa": {"session_uuid": "aa", "content": "Bought a kiln", "source_turn": 1},
        "bb": {"session_uuid": "bb", "content": "It broke", "source_turn": 4},
    }
    document = {
        "_metadata": {"person_name": name},
        "dialogues": [
            {
                "session_uuid": key,
                "current_time": time,
                "dialogue_turns": turns,
                "extracted_memory": [memories[key]] if key in memories else [],
            }
            for key, time, turns in dialogues
        ],
    }
    return write_json(path, document)


def test_realmem_questions_see_earlier_sessions_only(tmp_path: Path) -> None:
    """RealMem: gold is the reply's sessions, of those before the question's own; how many may be known is said"""
    (sample,) = load_dataset("realmem", write_realmem(tmp_path / "x.json")).samples
    assert [session.session_id for session in sample.conversation.sessions] == ["aa", "bb", "cc", "dd"]
    assert [turn.turn_id for turn in sample.conversation.sessions[0].turns] == ["aa:0"]
    bought, then = sample.questions
    assert (bought.question_index, bought.answer, bought.category) == (0, "A kiln.", "Dynamic Updating")
    assert (bought.evidence, bought.evidence_sessions) == (("aa:0",), ("aa",))
    assert bought.unresolved == ("cc", "dd")
    assert (bought.sessions_before, bought.asked_at) == (2, datetime(2025, 12, 16, tzinfo=UTC))
    assert then.evidence == (), "one of the memories used names no turn"
    assert (then.question_index, then.answer, then.category, then.evidence_sessions) == (
        1,
        "",
        "unlabelled",
        (),
    )


def test_a_folder_of_files_is_one_data_set(tmp_path: Path) -> None:
    """RealMem's personas and labelled conversations are read from a folder, in the order of their names"""
    for name in ("Odd", "Ines"):
        write_realmem(tmp_path / f"{name}.json", name)
    dataset = load_dataset("realmem", tmp_path)
    assert [sample.sample for sample in dataset.samples] == ["Ines", "Odd"]
    assert dataset.files == ("Ines.json", "Odd.json")


def test_labelled_questions_cite_turns(tmp_path: Path) -> None:
    """Our own conversations: gold turns by id, the sessions they are in, who asks and when"""
    questions = [
        {
            "id": "q1",
            "question": "?",
            "answer": "a",
            "evidence": ["s01:0", "s09:9"],
            "category": "updated",
            "asked_by": "Kai",
            "asked_at": "2024-12-20T18:00:00+01:00",
        },
        {"id": "q2", "question": "?", "answer": "", "evidence": [], "category": "unanswerable"},
    ]
    path = write_json(tmp_path / "x.json", {**LABELLED, "questions": questions})
    asked, unanswerable = all_questions("labelled", path)
    assert (asked.evidence, asked.evidence_sessions, asked.unresolved) == (("s01:0",), ("s01",), ("s09:9",))
    assert asked.asked_at is not None
    assert asked.asked_at.utcoffset() == timedelta(hours=1)
    assert (unanswerable.unanswerable, unanswerable.asked_at) == (True, None)
    assert (asked.asked_by, unanswerable.asked_by) == ("Kai", None)


def test_the_sample_is_shipped_and_sound() -> None:
    """The shipped sample loads without a path, and every turn its questions cite is there"""
    (sample,) = load_dataset("sample").samples
    assert len(sample.questions) >= 40
    assert not [question for question in sample.questions if question.unresolved]
    assert all(question.unanswerable or question.evidence for question in sample.questions)


def test_the_hash_of_one_file_is_its_own(tmp_path: Path) -> None:
    """A data set of one file has the hash that sha256sum prints for it"""
    path = write_json(tmp_path / "x.json", MEMDAILY)
    assert load_dataset("memdaily", path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_data_set_that_cannot_be_found_is_refused(tmp_path: Path) -> None:
    """An unknown name, a missing path, a missing file and an empty folder are told apart"""
    with pytest.raises(SettingsError, match="expected one of locomo"):
        load_dataset("squad")
    with pytest.raises(SettingsError, match="locomo is not shipped"):
        load_dataset("locomo")
    with pytest.raises(FormatError, match="nothing there"):
        load_dataset("locomo", tmp_path / "x.json")
    with pytest.raises(FormatError, match="a folder"):
        load_dataset("locomo", tmp_path)
    with pytest.raises(FormatError, match="samples: expected at least one, found none"):
        load_dataset("realmem", tmp_path)


def test_samples_of_one_name_are_refused(tmp_path: Path) -> None:
    """Two files of one persona can't be told apart in a run, so they are refused"""
    for name in "ab":
        write_realmem(tmp_path / f"{name}.json")
    with pytest.raises(FormatError, match="samples: expected a name not used before, found the text 'Ines'"):
        load_dataset("realmem", tmp_path)


def changed(document: Any, path: list[Any], value: Any) -> Any:
    copy = json.loads(json.dumps(document))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return copy


@pytest.mark.parametrize(
    ("name", "path", "value", "complaint"),
    [
        (
            "memdaily",
            [0, "message_list", 1, "time"],
            "noon",
            "entry 1 / message 2: time: expected a time such as",
        ),
        (
            "memdaily",
            [0, "question_list", 0, "time"],
            "2024年13月04日 周四 07:42",
            "entry 1 / question 1: time",
        ),
        (
            "memdaily",
            [0, "question_list", 0, "target_step_id"],
            3,
            "target_step_id: expected a list, found the number 3",
        ),
        (
            "realmem",
            ["dialogues", 0, "current_time"],
            "Monday",
            "entry 1 / dialogue 1: current_time: expected a date",
        ),
        (
            "realmem",
            ["dialogues", 0, "current_time"],
            "2025-02-30 (Monday)",
            "current_time: expected a date such as",
        ),
        (
            "realmem",
            ["dialogues", 0, "dialogue_turns", 0, "speaker"],
            "Bot",
            "speaker: expected User or Assistant",
        ),
        ("realmem", ["_metadata"], {}, "entry 1: _metadata.person_name: expected a value, found nothing"),
    ],
)
def test_a_bad_data_set_says_where(
    tmp_path: Path, name: str, path: list[Any], value: object, complaint: str
) -> None:
    """A data set that isn't what it should be is refused with the place and the field"""
    good = {"memdaily": MEMDAILY, "realmem": json.loads(write_realmem(tmp_path / "r.json").read_text())}
    bad = write_json(tmp_path / "x.json", changed(good[name], path, value))
    with pytest.raises(FormatError) as caught:
        load_dataset(name, bad)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("nosuch", "expected one of"),
        ("locomo", "give the path"),
        ("locomo=.", "expected"),
        ("held-out=.", ""),
    ],
)
def test_a_script_is_given_what_is_no_data_set(
    given: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What isn't a data set ends a script with a line that names it, rather than with a traceback."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=f"{given}: .*{told}"):
        list(load_given([given]))
