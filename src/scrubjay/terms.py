"""Index terms of any text in any script, the same for turns and for questions.

Words are folded (NFKC, case, Latin accents), stemmed (Snowball) and stripped of stop words; a compound (`RMA-1234`, `e-mail`,
`src/main.py`) gives its joined form and its parts; Chinese, Japanese, Korean and other scripts written without spaces give
overlapping character pairs. Time is linear in the length of the text, whatever it holds.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import Stemmer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

LONGEST_TERM = 64  # characters; longer words are cut, so that a megabyte without a space is one short term
CACHED_WORDS = 1 << 17  # words and hashes kept per process, about 20 MB

# Scripts written without spaces between words (pairs of characters are their terms): Thai, Lao, Myanmar, Khmer, kana, Han, Hangul.
_PAIRED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
# Letters, digits, and the marks that belong inside words: accents, Hebrew and Arabic points, Indic vowel signs.
_LETTER = f"(?:[^\\W_{_PAIRED}]|[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff])"
_WORD = re.compile(f"{_LETTER}+(?:['\u2019.,:@&/_+-]{_LETTER}+)*|[{_PAIRED}]+")
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:['.,:@&/_+-][a-z0-9]+)*")
_PARTS = re.compile(r"[.,:@&/_+-]+")
_PART = re.compile(r"[^.,:@&/_+-]+")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL = re.compile(r"\d+(?:[.:]\d+)+")
_ARABIC_POINTS = re.compile("[\u0610-\u061a\u064b-\u065f\u0670\u0640]")

_ENGLISH = """
a about above after again against all also am an and any are aren as at be because been before being below
between both but by can cannot could couldn d did didn do does doesn doing don done down during each
either else ever few for from further get gets getting got had hadn has hasn have haven having he her here
hers herself him himself his how i if in into is isn it its itself just let ll m may me might mightn more
most mustn my myself needn no nor not now of off on once only or other our ours ourselves out over own re
s same shan she should shouldn so some such t than that the their theirs them themselves then there these
they this those through to too u under until up ur us ve very was wasn we were weren what when where which
while who whom whose why will with won would wouldn you your yours yourself yourselves im ive id ill dont
didnt doesnt cant wont isnt wasnt thats whats youre theyre gonna wanna yeah yes ok okay oh hey hi hello
"""
_ENGLISH_STOPS = frozenset(_ENGLISH.split())
_OTHER_STOPS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "german": """aber alle als am an auch auf aus bei bin bis bist da damit das dass dein deine dem den der des die dir dich du ein
        eine einem einen einer eines er es euch fur hat habe haben hatte ich ihm ihn ihr ihre im in ist ja kann kein keine man mein meine
        meinen meiner mich mir mit nach nicht noch nur oder schon sein seine sich sie sind so uber um und uns unser vom von vor war waren
        warum was welche welcher welches wenn wer wie wir wird wo wurde zu zum zur""",
        "spanish": """al algo antes como con cual cuales cuando cuanto de del desde donde el ella ellos en entre era es esa ese eso esta
        estaba este esto estoy fue fui ha habia hasta hay he la las le les lo los mas me mi mis muy nada ni no nos nosotros o para pero
        por porque que quien se ser si sin sobre son soy su sus tambien te tengo tiene tu tus un una uno unos y ya yo""",
        "french": """ai au aux avec avait avez avons c ce ces cet cette d dans de des du elle elles en est et etait ete etre eu il ils j je
        l la le les leur leurs lui m ma mais me mes mon n ne nos notre nous on ou par pas plus pour qu quand que quel quelle quels qui quoi
        s sa se ses son sont suis sur ta te tes toi ton tu un une vos votre vous y""",
        "italian": """a ad al alla anche che chi ci come con cosa cui da dal dalla dei del della delle di dove e ed era essere gli ha ho
        hai hanno i il in io la le lei lo loro lui ma mi mia mio nel nella no noi non o per perche piu quale quando quello questa questo se
        si sono sua suo su ti tu tua tuo un una uno vi voi""",
        "portuguese": """a ao aos as com como da das de dele do dos e ela ele em era essa esse esta este eu foi ha isso isto ja lhe mais mas
        me meu minha muito na nao nas nem no nos o onde os ou para pela pelo por porque qual quando que quem se sem ser seu sua sao tambem
        te tem tenho um uma voce""",
        "dutch": """aan al als bij dan dat de deze die dit doen door een en er ga geen had heb hebben heeft het hier hij hoe hun ik in is ja
        je kan maar me meer met mij mijn naar niet nog nu of om omdat ons ook op over te tot uit u van veel voor waar was wat we wel werd
        wie wij zal ze zich zij zijn zo""",
        "russian": """а без бы был была были было быть в вам вас во вот все всё где да для до его ее её если есть еще ещё же за и из или им их
        к как какая какие какой когда кто ли меня мне моя мой мои мы на над надо нас не него нее нет ни но ну о об он она они от по при про
        с со так там то того тоже только ты тебя тебе у уже что чтобы эта это этот я""",
        "arabic": """في من على إلى الى عن مع هذا هذه ذلك التي الذي ما ماذا متى أين اين كيف لماذا هل هو هي هم أنا انا أنت انت نحن كان كانت
        لا لم لن قد كل بعد قبل أو او و ثم أن ان إن""",
    }.items()
}
_MARKERS = (
    frozenset().union(*_OTHER_STOPS.values()) - _ENGLISH_STOPS
)  # words that hint at another language than English
# Characters that say little alone or paired with each other: particles, pronouns, question words of Chinese and Japanese.
_PAIRED_STOPS = frozenset(
    "的了是在我你他她它们这那有和与就都也不吗呢吧啊呀什么哪谁怎样为到会要去个一上很说对把被让给又还着过得地之其及"
    "はがをにのでともへやかなねよわだですますたしてるれらいこそあどういけんさ"
)
_LANGUAGES = (*(name for name in _OTHER_STOPS if name not in {"russian", "arabic"}),)


def extract_terms(text: str) -> list[str]:
    """Return the index terms of a text in order, repeats kept."""
    words = _split_words(text)
    language = _recognise_language(words)
    terms: list[str] = []
    for word in words:
        terms.extend(
            _word_terms(word, language) if len(word) <= LONGEST_TERM else _long_word_terms(word, language)
        )
    return terms


def locate_terms(text: str) -> dict[str, tuple[int, int]]:
    """Return where each index term of a text first stands: the characters of its word, or of a compound's part.

    A term is missing where only the folded text has its word, as with a ligature of several words.
    """
    language = _recognise_language(_split_words(text))
    known = set(extract_terms(text))
    places: dict[str, tuple[int, int]] = {}
    for word in _WORD.finditer(text):
        for term, start, stop in _locate_in_word(word[0], language):
            if term in known:
                places.setdefault(term, (word.start() + start, word.start() + stop))
    return places


def hash_terms(terms: Iterable[str]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each term, the same in every process, platform and version."""
    return np.array([_hash_term(term) for term in terms], dtype=np.uint64)


@lru_cache(maxsize=CACHED_WORDS)
def _hash_term(term: str) -> int:
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _split_words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return _WORD.findall(_fold_case(text))


def _fold_case(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _recognise_language(words: list[str]) -> str:
    """Name the Latin-script language whose stop words the text has most of; English unless another clearly leads."""
    if not _MARKERS.intersection(words):
        return "english"
    folded = [_fold_latin(word) for word in words]
    english = sum(word in _ENGLISH_STOPS for word in folded)
    counts = {name: sum(word in _OTHER_STOPS[name] for word in folded) for name in _LANGUAGES}
    best = max(_LANGUAGES, key=counts.__getitem__)
    return best if counts[best] > english and counts[best] > 1 else "english"


@lru_cache(maxsize=CACHED_WORDS)
def _word_terms(word: str, language: str) -> tuple[str, ...]:
    """Return the terms of one word or compound: nothing for a stop word, joined form and parts for a compound."""
    if _is_paired(word[0]):
        return tuple(_pair_characters(word))
    if _THOUSANDS.fullmatch(word):
        return (word.replace(",", ""),)
    parts = _PARTS.split(word)
    if len(parts) == 1:
        return _simple_terms(word, language)
    joined = word if _DECIMAL.fullmatch(word) else "".join(parts).replace("'", "").replace("\u2019", "")
    terms = [_cut(_fold_latin(joined))]
    for part in parts:
        terms.extend(term for term in _simple_terms(part, language) if term not in terms)
    return tuple(terms)


def _long_word_terms(word: str, language: str) -> list[str]:
    """Return the terms of a path, a key, a megabyte without a space: by its beginning and by its parts."""
    if _is_paired(word[0]):
        return _pair_characters(word)
    parts = _PARTS.split(word)
    whole = [_cut(_fold_latin(word[:LONGEST_TERM]))] if len(parts) > 1 else []
    return whole + [term for part in parts for term in _simple_terms(_cut(part), language)]


def _locate_in_word(word: str, language: str) -> Iterator[tuple[str, int, int]]:
    """Give the terms of a word as it is written, each with the characters it stands for."""
    if _is_paired(word[0]):
        for size in (1, 2):
            for start in range(len(word) - size + 1):
                yield _fold_case(word[start : start + size]), start, start + size
        return
    for part in _PART.finditer(word):
        for term in _simple_terms(_cut(_fold_case(part[0])), language):
            yield term, part.start(), part.end()
    folded = _fold_case(word)
    short = len(folded) <= LONGEST_TERM
    for term in _word_terms(folded, language) if short else _long_word_terms(folded, language):
        yield term, 0, len(word)


def _simple_terms(word: str, language: str) -> tuple[str, ...]:
    """Return the terms of a word that only apostrophes may divide (don't, Ana's, O'Brien, l'eau)."""
    pieces = word.replace("\u2019", "'").removesuffix("'s").split("'")
    kept: list[str] = []
    for piece in pieces:
        kept.extend(stem for stem in _stem_piece(piece, language) if stem not in kept)
    divided = len(pieces) > 1 and min(len(piece) for piece in pieces[1:]) > 2
    if divided and kept:
        kept.insert(0, _cut(_fold_latin("".join(pieces))))
    return tuple(kept)


def _stem_piece(piece: str, language: str) -> tuple[str, ...]:
    first = piece[:1]
    if "\u0400" <= first <= "\u052f":
        return () if piece in _OTHER_STOPS["russian"] else (_stem("russian", _cut(piece.replace("ё", "е"))),)
    if "\u0600" <= first <= "\u06ff":
        bare = _ARABIC_POINTS.sub("", piece)
        return () if not bare or bare in _OTHER_STOPS["arabic"] else (_stem("arabic", _cut(bare)),)
    folded = _cut(_fold_latin(piece))
    if not folded or folded in (_ENGLISH_STOPS if language == "english" else _OTHER_STOPS[language]):
        return ()
    english = _stem("english", folded)
    if language == "english":
        return (english,)
    own = _stem(language, folded)
    return (english,) if own == english else (english, own)


def _fold_latin(word: str) -> str:
    """Strip accents from words of Latin and Greek script; others keep their marks, which are letters there."""
    if word.isascii() or (word[0] > "\u03ff" and not "\u1e00" <= word[0] <= "\u1fff"):
        return word
    return "".join(char for char in unicodedata.normalize("NFD", word) if not "\u0300" <= char <= "\u036f")


def _stem(language: str, word: str) -> str:
    if any("\ud800" <= char <= "\udfff" for char in word):
        return word
    return str(_stemmer(language).stemWord(word))


@cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language, 0)


def _cut(word: str) -> str:
    return word[:LONGEST_TERM]


def _is_paired(char: str) -> bool:
    return char >= "\u0e00" and _PAIRED_CHAR.match(char) is not None


_PAIRED_CHAR = re.compile(f"[{_PAIRED}]")


def _pair_characters(run: str) -> list[str]:
    """Return overlapping pairs of a run of characters, and the Han characters alone; pairs of particles say nothing."""
    if len(run) == 1:
        return [run]
    pairs = [
        run[at : at + 2]
        for at in range(len(run) - 1)
        if not (run[at] in _PAIRED_STOPS and run[at + 1] in _PAIRED_STOPS)
    ]
    single = [char for char in run if "\u3400" <= char <= "\u9fff" and char not in _PAIRED_STOPS]
    return pairs + single
