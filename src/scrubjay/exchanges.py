"""WRITE: turns become exchanges, with what the boundary score reads off each (LycheeMemory V2, 3.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from scrubjay.datatypes import IndexedTurn, Role
from scrubjay.passages import passage_text
from scrubjay.terms import extract_terms, hash_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from scrubjay.datatypes import Turn
    from scrubjay.settings import SegmentSettings

QUESTION_MARKS = frozenset("?？؟;")  # Latin, Chinese and Japanese, Arabic, Greek (U+037E)

# "Last week", "the other day", "recently": a turn that dates what it tells mostly tells something new.
NEWS: Mapping[str, str] = {
    "english": """recently|lately|yesterday|the other day|last|next|ago|ever since|since we|this week|this weekend
        |this month|this morning""",
    "german": """neulich|kürzlich|letztens|letzte|letzten|letzter|letztes|gestern|vorgestern|vor kurzem|nächste
        |nächsten|nächster|nächstes|diese woche|dieses wochenende|diesen monat|heute morgen""",
    "spanish": """ayer|anteayer|anoche|pasado|pasada|el otro día|últimamente|recientemente|hace poco|esta semana
        |este fin de semana|este mes|esta mañana|que viene|próximo|próxima""",
    "french": """hier|avant-hier|dernier|dernière|l'autre jour|récemment|dernièrement|cette semaine|ce week-end
        |ce mois-ci|ce matin|prochain|prochaine|il y a quelques""",
    "italian": """ieri|l'altro ieri|scorso|scorsa|l'altro giorno|recentemente|ultimamente|questa settimana
        |questo weekend|questo mese|stamattina|prossimo|prossima""",
    "portuguese": """ontem|anteontem|passado|passada|outro dia|recentemente|ultimamente|essa semana|esta semana
        |neste fim de semana|este mês|próximo|próxima|que vem""",
    "dutch": """gisteren|eergisteren|vorige|afgelopen|onlangs|laatst|deze week|dit weekend|deze maand|vanmorgen
        |volgende|geleden""",
    "russian": """вчера|позавчера|на днях|недавно|в последнее время|прошлой|прошлом|прошлую|на этой неделе
        |в эти выходные|сегодня утром|назад|следующей|следующем""",
    "chinese": "昨天|前天|昨晚|上周|上星期|上个月|去年|最近|前几天|那天|这周|这个月|今早|下周|下个月|刚刚",
    "japanese": "昨日|一昨日|先週|先月|去年|最近|この前|この間|今週|今月|今朝|来週|来月|さっき",
    "korean": "어제|그제|지난주|지난달|작년|최근|요즘|며칠 전|이번 주|이번 달|오늘 아침|다음 주|다음 달",
}
# "By the way", "what about you?": words that announce another matter.
OPENERS: Mapping[str, str] = {
    "english": """by the way|btw|anyway|anyways|speaking of|guess what|on another note|oh and|have i told you
        |did i tell you|what about you|how about you|anything new|what's new|any plans""",
    "german": "übrigens|apropos|ach ja|anderes thema|stell dir vor|und bei dir|und du|was gibt's neues",
    "spanish": "por cierto|a propósito|cambiando de tema|adivina|y tú|y a ti|qué hay de nuevo",
    "french": "au fait|à propos|d'ailleurs|devine quoi|et toi|et vous|quoi de neuf",
    "italian": "a proposito|comunque|tra l'altro|indovina|e tu|novità",
    "portuguese": "a propósito|por falar em|por falar nisso|aliás|adivinha|e você|novidades",
    "dutch": "trouwens|overigens|tussen haakjes|raad eens|en jij",
    "russian": "кстати|между прочим|угадай|а ты|а у тебя|что нового",
    "chinese": "对了|话说|顺便|说到|说起|你猜|你呢",
    "japanese": "ところで|そういえば|ちなみに|話は変わ",
    "korean": "그나저나|참고로|있잖아|너는",
}
UNSPACED = ("chinese", "japanese", "korean")  # their phrases are looked for inside words too
_WORD = re.compile(r"[\w'-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CueWords:
    """A table of phrases ready to be looked for: one set look-up for most of them."""

    words: frozenset[str]
    phrases: tuple[str, ...]  # of several words, a space before and after
    unspaced: tuple[str, ...]

    @classmethod
    def of_table(cls, table: Mapping[str, str]) -> Self:
        spaced = [
            phrase.strip()
            for language, phrases in table.items()
            if language not in UNSPACED
            for phrase in phrases.split("|")
        ]
        return cls(
            words=frozenset(phrase for phrase in spaced if " " not in phrase),
            phrases=tuple(f" {phrase} " for phrase in dict.fromkeys(spaced) if " " in phrase),
            unspaced=tuple(phrase for language in UNSPACED for phrase in table[language].split("|")),
        )

    def occur_in(self, words: Sequence[str]) -> bool:
        """Tell whether any is among the words of a text, which are in small letters and in order."""
        if not self.words.isdisjoint(words):
            return True
        text = f" {' '.join(words)} "
        return any(phrase in text for phrase in self.phrases) or (
            not text.isascii() and any(phrase in text for phrase in self.unspaced)
        )


_NEWS, _OPENERS = CueWords.of_table(NEWS), CueWords.of_table(OPENERS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """A user turn and what follows it up to the next user turn."""

    turn_ids: tuple[str, ...]
    tokens: int
    vector: NDArray[np.float64]  # (dimension,), of length one, or zero where no turn has one
    terms: Mapping[int, int]  # term hash → count
    opening_terms: frozenset[int]  # of the turn that opens it
    asks: bool  # its end leaves a question open
    tells_news: bool  # its opening turn dates something
    opens: bool  # its opening turn announces another matter
    began_at: float | None  # seconds since 1970 UTC
    ended_at: float | None


def index_turn(turn: Turn, vector: NDArray[np.float32], *, tokens: int) -> IndexedTurn:
    """Prepare a turn for segmentation where no index of it is at hand."""
    hashes = hash_terms(extract_terms(passage_text(turn, 0, len(turn.text))))
    terms, counts = np.unique(hashes, return_counts=True)
    return IndexedTurn(turn=turn, tokens=tokens, vector=vector, terms=terms, counts=counts.astype(np.uint16))


def opens_exchange(turn: IndexedTurn, waiting: Sequence[IndexedTurn], *, turn_is_exchange: bool) -> bool:
    """Tell whether a turn begins an exchange, given the turns of the one that waits for its end.

    Where two named people both speak as users, each user turn begins one; what comes before the first user turn
    of a session belongs to the exchange of that turn.
    """
    if not waiting:
        return False
    if turn_is_exchange:
        return True
    return turn.turn.role is Role.USER and any(each.turn.role is Role.USER for each in waiting)


def build_exchange(turns: Sequence[IndexedTurn], settings: SegmentSettings) -> Exchange:
    """Put turns together; the vector is the mean of theirs weighted by tokens, near that of the joined text."""
    first = next((each for each in turns if each.turn.role is Role.USER), turns[0])
    bag: dict[int, int] = {}
    for each in turns:
        for term, count in zip(each.terms.tolist(), each.counts.tolist(), strict=True):
            bag[term] = bag.get(term, 0) + count
    words = list_words(first.turn.text[: settings.cue_characters])
    times = [each.turn.said_at.timestamp() for each in turns if each.turn.said_at is not None]
    return Exchange(
        turn_ids=tuple(each.turn.turn_id for each in turns),
        tokens=sum(each.tokens for each in turns),
        vector=mean_vector(turns),
        terms=bag,
        opening_terms=frozenset(first.terms.tolist()),
        asks=not QUESTION_MARKS.isdisjoint(turns[-1].turn.text[-settings.question_characters :]),
        tells_news=_NEWS.occur_in(words),
        opens=_OPENERS.occur_in(words),
        began_at=times[0] if times else None,
        ended_at=times[-1] if times else None,
    )


def mean_vector(turns: Sequence[IndexedTurn]) -> NDArray[np.float64]:
    total = np.zeros(len(turns[0].vector))
    for each in turns:
        total += max(each.tokens, 1) * each.vector.astype(np.float64)
    length = float(np.sqrt(total @ total))
    return total / length if length else total


def list_words(text: str) -> list[str]:
    """Give the words of a text in small letters."""
    return _WORD.findall(text.lower().replace("\u2019", "'"))
