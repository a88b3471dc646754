"""Small words that show what a question asks for and what a turn offers, in several languages, without a model."""

from __future__ import annotations

import re
from dataclasses import dataclass

FLAG_QUESTION = 1  # the turn ends by asking something
FLAG_TIME = 2  # the turn names a day, a month, a time
MESSAGE_BREAKS = 2  # between sentences; what has so many or more is a message rather than a question

_QUESTION_END = re.compile(r"[?？؟]['\"”’)\s]*(?:\[[^\]]*\]\s*)?$")
_SENTENCE_BREAK = re.compile(  # not within "J. K." or "3.5"
    r"(?<=\w\w)['\"”’)]*[.!?…؟]+['\"”’)]*\s+(?=\S)|[。！？]+['\"”’」』]*\s*(?=\S)|\n\s*(?=\S)"
)
_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|since|recently|days?|weeks?|weekends?|months?|years?|morning|evening"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august|september"
    r"|october|november|december|spring|summer|autumn|winter|(?:19|20)\d\d"
    r"|gestern|heute|morgen|letzte[nrsm]?|nächste[nrsm]?|vor|seit|tage?n?|wochen?|monate?n?|jahre?n?"
    r"|ayer|hoy|mañana|anoche|pasad[oa]s?|próxim[oa]s?|días?|semanas?|mes|meses|años?"
    r"|hier|demain|aujourd|dernière?|prochaine?|jours?|semaines?|mois|an|ans|année"
    r"|вчера|сегодня|завтра|назад|недел\w+|месяц\w*|год\w*|лет)\b"
    r"|[昨今明前后後去][天日晚年早]|[上下这這本今]\s*个?[周週月年]|星期|礼拜|周[一二三四五六日末]|\d\s*[年月日号號点點]|先週|来週|先月|来月|去年"
    r"|어제|오늘|내일|지난|다음\s*[주달]|امس|أمس|اليوم|غدا",
    re.IGNORECASE,
)
_ASKS_WHEN = re.compile(
    r"\b(?:when|how (?:long|many (?:days|weeks|months|years))|(?:what|which) (?:date|day|month|year|time|week)|wann|wie lange|cuándo|cuando"
    r"|cuánto tiempo|quand|combien de temps|когда|quando|wanneer)\b"
    r"|什么时候|什麼時候|何时|几时|多久|多长时间|哪[一]?[天年月日]|几[月号点日]|いつ|何[月日年時]|언제|متى",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(
    r"\b(?:i|my|me|mine|myself|i['’](?:m|ve|d|ll)|we|our|us|ich|mein\w*|mir|mich|yo|mis?|me|je|mon|ma|mes|moi|я|мой|моя|мои|меня|мне|eu|meu|minha"
    r"|io|mio|mia|ik|mijn)\b|我|俺|咱|私|僕|俺|저|제가|나는|내가",
    re.IGNORECASE,
)
_TOLD = (
    r"told|tell|said|say|recommend\w*|suggest\w*|gave|give|mention\w*|provid\w*|explain\w*|list\w*|shared?|wrote|write|describ\w*"
    r"|advis\w*|propos\w*|offer\w*|show\w*|promis\w*|call\w*"
)
_ASKS_OTHER = re.compile(
    rf"\byou (?:\w+ ){{0,2}}(?:{_TOLD})\b|\byou(?:['’]d| had) |\bdid you (?:\w+ )?(?:{_TOLD})\b"
    r"|\b(?:our|previous|earlier) (?:\w+ )?(?:conversation|chat|discussion)|\bremind me\b"
    r"|\bhast du (?:\w+ ){0,4}(?:gesagt|empfohlen|geraten|genannt|vorgeschlagen|versprochen)"
    r"|\bme (?:dijiste|recomendaste|sugeriste|aconsejaste|diste|explicaste|contaste|prometiste)\b"
    r"|\btu m['’]as (?:dit|conseillé|recommandé|suggéré)|ты (?:говорил|советовал|рекомендовал|сказал|предлож)\w*"
    r"|你(?:之前|当时|上次|给我|跟我|曾经|那次|有没有)*(?:说|告诉|推荐|建议|提到|提过|讲|答应|介绍|列)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionCues:
    """What a question's small words ask for."""

    first_person: bool  # about who asks: "my", "I"
    asks_when: bool
    asks_other: bool  # what the assistant, or the other person, told who asks
    is_message: bool  # it says more than it asks, as a turn of a conversation does


def question_cues(question: str) -> QuestionCues:
    """Read a question's cues."""
    return QuestionCues(
        first_person=_FIRST_PERSON.search(question) is not None,
        asks_when=_ASKS_WHEN.search(question) is not None,
        asks_other=_ASKS_OTHER.search(question) is not None,
        is_message=len(_SENTENCE_BREAK.findall(question)) >= MESSAGE_BREAKS,
    )


def turn_flags(text: str) -> int:
    """Return the cues of a turn's text as bits: FLAG_QUESTION, FLAG_TIME."""
    asks = FLAG_QUESTION if _QUESTION_END.search(text[-64:]) else 0
    return asks | (FLAG_TIME if _TIME.search(text) else 0)
