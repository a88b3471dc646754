"""Two tiny data sets written for the tests, in the formats of LoCoMo and of LongMemEval, and what is said about their gold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from format_examples import write_json

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = "conv-26", "conv-30"  # the names that corrections count by


def said(session: int, *lines: tuple[str, str]) -> list[dict[str, str]]:
    return [
        {"dia_id": f"D{session}:{number}", "speaker": speaker, "text": text}
        for number, (speaker, text) in enumerate(lines, start=1)
    ]


LOCOMO: list[dict[str, Any]] = [
    {
        "sample_id": FIRST,
        "conversation": {
            "speaker_a": "Mira",
            "speaker_b": "Jonas",
            "session_1_date_time": "6:30 pm on 4 March, 2024",
            "session_1": said(
                1,
                ("Mira", "We finally painted the kitchen, in a colour called pistachio."),
                ("Jonas", "Pistachio! And who held the ladder?"),
                ("Mira", "My neighbour Oleg did. He plays the bassoon, you know."),
                ("Jonas", "I slept in the harbour last Friday, the ferry to Gotland was cancelled."),
            ),
            "session_2_date_time": "7:05 pm on 11 March, 2024",
            "session_2": [
                *said(
                    2,
                    ("Mira", "No walnuts for me, please, my throat swells."),
                    ("Jonas", "Pepper, my dog, snored until the boat to Visby."),
                    ("Jonas", "I bought two tickets for the circus in April."),
                ),
                {"dia_id": "D2:4", "speaker": "Mira", "text": "", "blip_caption": "a green kitchen wall"},
            ],
            "session_7_date_time": "9:00 am on 1 June, 2024",
        },
        "qa": [
            {
                "question": "In which colour did Mira paint the kitchen?",
                "answer": "pistachio",
                "category": 4,
                "evidence": ["D1:1; D2:4"],
            },
            {
                "question": "When did Jonas sleep in the harbour?",
                "answer": "1 March 2024",
                "category": 2,
                "evidence": ["D:1:4"],
            },
            {
                "question": "Which instrument does the neighbour of Mira play?",
                "answer": "bassoon",
                "category": 1,
                "evidence": ["D1:03", "D9:9"],
            },
            {
                "question": "How many tickets did Jonas buy?",
                "answer": 2,
                "category": 4,
                "evidence": ["D2:3"],
            },
            {
                "question": "What might be good for Mira at a bakery?",
                "answer": "cake without nuts",
                "category": 3,
                "evidence": [],
            },
            {
                "question": "In which colour did Mira paint the kitchen?",
                "answer": "pistachio",
                "category": 4,
                "evidence": ["D1:1"],
            },
            {
                "question": "What does Mira's cat eat?",
                "adversarial_answer": "walnuts",
                "category": 5,
                "evidence": ["D2:1"],
            },
        ],
    },
    {
        "sample_id": SECOND,
        "conversation": {
            "speaker_a": "Ines",
            "speaker_b": "Odd",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": said(
                1,
                ("Ines", "I bought a kiln for the pottery, it is from Faenza!"),
                ("Odd", "I run the lighthouse on Utsira now."),
                ("Ines", "My sister Bea teaches chess in Bergen."),
            ),
        },
        "qa": [
            {
                "question": "Where is the kiln of Ines from?",
                "answer": "Faenza",
                "category": 4,
                "evidence": ["D1:1"],
            },
            {
                "question": "What does the sister Bea teach?",
                "answer": "cooking",
                "category": 1,
                "evidence": ["D1:2"],
            },
            {
                "question": "Which lighthouse does Odd run?",
                "category": 4,
                "evidence": ["D1:2"],
            },
        ],
    },
]
"""Conversations as LoCoMo's file has them, malformed as it is."""

CORRECTIONS: list[dict[str, Any]] = [
    {
        "question_id": "locomo_1_qa1",
        "question": "What does the sister Bea teach?",
        "category": 1,
        "error_type": "HALLUCINATION",
        "cited_evidence": ["D1:2"],
        "correct_evidence": ["D1:3"],
        "golden_answer": "cooking",
        "correct_answer": "chess",
    },
    {
        "question_id": "locomo_0_qa2",
        "question": "Which instrument does the neighbour of Mira play?",
        "category": 1,
        "error_type": "WRONG_CITATION",
        "cited_evidence": ["D1:3"],
        "correct_evidence": ["D1:1", "D1:3"],
        "golden_answer": "bassoon",
        "correct_answer": "bassoon",
    },
    {
        "question_id": "locomo_9_qa0",
        "question": "Asked in another part of the file?",
        "category": 4,
        "error_type": "AMBIGUOUS",
        "cited_evidence": [],
        "correct_evidence": [],
        "golden_answer": "yes",
        "correct_answer": "no",
    },
]


def haystack(
    question_id: str, question_type: str, question: str, answer: object, *, gold: str
) -> dict[str, Any]:
    """Make a question over three sessions, as LongMemEval's official files have it; `gold` begins the gold turn."""
    sessions = [
        [
            {"role": "user", "content": "I moved to Lisbon in March, the hills are hard on my old dog Rex."},
            {"role": "assistant", "content": "Lisbon! Rex may like the promenade at Belém."},
        ],
        [
            {"role": "user", "content": "I started to learn the oboe 18 days ago."},
            {"role": "assistant", "content": "Practise 20 minutes a day, with long notes first."},
        ],
        [
            {"role": "user", "content": "I moved again, to Porto this time."},
            {"role": "assistant", "content": ""},
        ],
    ]
    marked = [
        [
            {**turn, "has_answer": True} if gold and turn["content"].startswith(gold) else turn
            for turn in session
        ]
        for session in sessions
    ]
    names = ["answer_lisbon", "filler_oboe", "answer_lisbon_2"]
    return {
        "question_id": question_id,
        "question_type": question_type,
        "question": question,
        "answer": answer,
        "question_date": "2023/05/30 (Tue) 22:53",
        "haystack_session_ids": names,
        "haystack_dates": [
            "2023/05/01 (Mon) 10:00",
            "2023/05/08 (Mon) 10:00",
            "2023/05/20 (Sat) 02:21",
        ],
        "haystack_sessions": marked,
        "answer_session_ids": [
            name
            for name, session in zip(names, marked, strict=True)
            if any("has_answer" in turn for turn in session)
        ],
    }


LONGMEMEVAL: list[dict[str, Any]] = [
    haystack("q1", "single-session-user", "What is the name of my dog?", "Rex", gold="I moved to Lisbon"),
    haystack("q2", "single-session-assistant", "How long should I practise?", 20, gold="Practise"),
    haystack("q3", "temporal-reasoning", "How long do I play the oboe?", "18 days", gold="I started"),
    haystack("q4", "knowledge-update", "Where do I live now?", "Porto", gold="I moved again"),
    haystack("q5", "single-session-preference", "What could I play tonight?", "oboe", gold="I started"),
    haystack("q6", "multi-session", "To which cities did I move?", "Lisbon and Porto", gold="I moved"),
    haystack("q7_abs", "single-session-user", "What is the name of my cat?", "No cat was named.", gold=""),
]


def write_locomo(folder: Path) -> Path:
    return write_json(folder / "locomo.json", LOCOMO)


def write_longmemeval(folder: Path) -> Path:
    return write_json(folder / "longmemeval.json", LONGMEMEVAL)


def write_corrections(folder: Path) -> Path:
    return write_json(folder / "corrections.json", CORRECTIONS)
