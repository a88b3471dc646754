"""A server on loopback that speaks OpenAI's protocol and plays every part of the answering benchmark by simple rules.

Equal requests get equal replies and equal token counts, so that what a run comes to depends on nothing but its requests.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from models import Answer, ChatHandler, LoopbackServer
from scribes import TURN_LINE
from small_memories import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

EVIDENCE_LINE = re.compile(r"^\[(\d+)\] ([^\n]*)$", re.MULTILINE)
WORD = re.compile(r"\w+")
COMMON = frozenset(
    {
        "a",
        "in",
        "on",
        "of",
        "the",
        "is",
        "to",
        "did",
        "do",
        "does",
        "i",
        "my",
        "what",
        "which",
        "how",
        "where",
    }
    | {"when", "who", "was", "for", "at", "it"}
)

Reply = Callable[[str, str], str]
"""Gives what is said to a system prompt and a user prompt."""


def between(text: str, tag: str) -> str:
    return text.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0]


def telling_words(text: str) -> set[str]:
    return {word for word in WORD.findall(text.lower()) if word not in COMMON}


def play(system: str, user: str) -> str:
    """Encode each turn as a record, plan one route, answer with the nearest line, judge by the words of the gold."""
    if "<turns>" in user:
        turns = TURN_LINE.findall(user.partition("<turns>")[2])
        records = [{"turns": [int(number)], "type": "fact", "text": words[:200]} for number, words in turns]
        return json.dumps({"records": records, "note": ""})
    if "<gold>" in user:
        return judge(system, user)
    if user.startswith("Now:"):
        question = between(user, "question")
        return json.dumps({"question_type": "single", "routes": [{"goal": question, "queries": [question]}]})
    return answer_nearest(user)


def answer_nearest(user: str) -> str:
    wanted = telling_words(between(user, "question"))
    lines = [
        (len(wanted & telling_words(words)), -int(number), words)
        for number, words in EVIDENCE_LINE.findall(user)
    ]
    score, number, words = max(lines)
    if score < 2:
        return "[0] The evidence doesn't say."
    return f"{words.partition(': ')[2]} [{-number}]"


def judge(system: str, user: str) -> str:
    """Say yes where every word of the gold is in the answer; of a question without an answer, where it declines."""
    given = between(user, "answer").lower()
    if "recognises that a question can't be answered" in system:
        return "yes" if "doesn't say" in given or "don't know" in given else "no"
    right = telling_words(between(user, "gold")) <= telling_words(given)
    if '"label"' in system:
        return json.dumps({"label": "CORRECT" if right else "WRONG"})
    return "Yes." if right else "No."


class PlayingServer(LoopbackServer):
    """Answers by a function, counts what it is asked and what it has answered, and may kill who asks."""

    def __init__(self, reply: Reply, *, host: str) -> None:
        super().__init__([], host=host)
        self.RequestHandlerClass = PlayingHandler
        self.reply = reply
        self.lock = threading.Lock()
        self.answered: Counter[str] = Counter()
        self.victim: int | None = None  # a process
        self.kill_at: int | None = None  # the request, from 1, at which it is killed instead of answered
        self.seconds = 0.0  # before each answer
        self.hold_after: int | None = (
            None  # so many requests the others are answered only when they are let go
        )
        self.let_go = threading.Event()

    def kill_now(self) -> bool:
        with self.lock:
            if self.victim is None or self.kill_at is None or len(self.asked) < self.kill_at:
                return False
            os.kill(self.victim, signal.SIGKILL)
            self.victim = None
            return True


class PlayingHandler(ChatHandler):
    server: PlayingServer

    def do_POST(self) -> None:  # noqa: N802 -- http.server names it
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append(asked)
            number = len(self.server.asked)
        if self.server.kill_now():
            return
        if self.server.hold_after is not None and number > self.server.hold_after:
            self.server.let_go.wait(PATIENCE)
        system, user = (message["content"] for message in asked["messages"])
        answer = reply_to(self.server.reply(system, user), system, user, seconds=self.server.seconds)
        with self.server.lock:
            self.server.answered[json.dumps(asked, sort_keys=True)] += answer.status == 200
        self.send_answer(answer)


def reply_to(content: str, system: str, user: str, *, seconds: float) -> Answer:
    if content.startswith("HTTP "):
        return Answer(status=int(content.removeprefix("HTTP ")), seconds=seconds)
    return Answer(
        content=content,
        prompt_tokens=len(system + user) // 4,
        completion_tokens=len(content) // 4 + 1,
        seconds=seconds,
    )


@contextmanager
def serve_play(reply: Reply = play, *, host: str = "127.0.0.1") -> Iterator[PlayingServer]:
    """Serve replies by a function."""
    server = PlayingServer(reply, host=host)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.let_go.set()
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
