"""Tell what kind of evidence a question needs by its small words, where they are sure; pure, in several languages."""

from __future__ import annotations

import re

from scrubjay.cues import question_cues
from scrubjay.routes import QuestionType


def any_of(*patterns: str) -> re.Pattern[str]:
    """Compile alternatives; those that begin with "=" may stand inside a word, as in Chinese."""
    return re.compile(
        "|".join(
            pattern[1:] if pattern.startswith("=") else rf"\b(?:{pattern})(?!\w)" for pattern in patterns
        ),
        re.IGNORECASE,
    )


WHILE = re.compile(
    r"(?<=\w )(?:when(?! (?:am|is|are|was|were|do|does|did|has|have|had|will|would)\b)|cuando|quand|quando|когда|wanneer)(?!\w)",
    re.IGNORECASE,
)
"""A word for "when" that only tells a circumstance: "what does she say when it rains"."""

ASKS_ADVICE = any_of(
    r"(?:can|could|would|will|do|might) you (?:\w+ ){0,2}(?:recommend|suggest|advise)",
    r"(?:do|would) you have (?:any|some|a) (?:\w+ )?(?:suggestions?|recommendations?|advice|tips?|ideas?)",
    r"kannst du (?:\w+ ){0,6}(?:empfehlen|vorschlagen|raten)|puedes recomendar\w*|pode recomendar|peux-tu (?:me )?(?:recommander|conseiller)",
    r"puoi consigliar\w*|(?:можешь|можете|могли бы) (?:\w+ ){0,3}(?:посоветовать|порекомендовать)",
    r"=(?:能|可以|请|請|帮我|幫我|给我|給我).{0,4}(?:推荐|推薦|建议|建議)",
)
"""Asks for advice now, where the same words could also ask what was advised before."""

CUES: tuple[tuple[QuestionType, re.Pattern[str]], ...] = (
    (
        QuestionType.PERSONALIZED_ADVICE,
        any_of(
            r"any (?:\w+ )?(?:suggestions?|recommendations?|advice|tips|ideas|thoughts)|(?:please )?give me (?:\w+ ){0,3}(?:advice|tips|ideas)",
            r"(?<![\w,] )(?:please )?(?:recommend|suggest) (?:\w+ )",
            r"should (?:i|we)|what (?:would|might) (?!be\b|have\b)\w+ (?:\w+ )?(?:like|enjoy|prefer)",
            r"(?:a |some )(?:good|nice|suitable|perfect) (?:gift|present|\w+ for (?:me|us|him|her|them))",
            r"empfiehl|empfehlungen|hast du (?:\w+ )?(?:tipps?|ideen)|was soll(?:te)? (?:ich|man|wir)",
            r"recomiéndame|me recomiendas|sugiéreme|alguna (?:recomendación|sugerencia)|debería yo|qué debería|algún consejo",
            r"recommande-moi|conseille-moi|me (?:recommandes|conseilles)(?:-tu|-vous)?|(?:des|un) conseils?|devrais-je|que dois-je",
            r"посоветуй(?:те)?|порекомендуй(?:те)?|что мне",
            r"recomende|sugira|alguma (?:sugestão|recomendação)|devo|o que eu deveria",
            r"consigliami|mi consigli|suggeriscimi|dovrei|aanraden|moet ik|zou ik",
            r"=有(?:什么|什麼|没有|沒有).{0,10}(?:推荐|推薦|建议|建議)|我.{0,6}(?:应该|應該|该怎|該怎)|送.{0,6}(?:什么|什麼|啥)",
            r"=適合.{0,10}[吗嗎么麼]|适合.{0,10}[吗么]|おすすめ|お勧め|すすめて|べき(?:です|でしょう)?か|추천해|조언해|제안해|좋을까",
            r"اقترح|تنصحني|انصحني|بماذا تنصح",
        ),
    ),
    (
        QuestionType.AGGREGATE,
        any_of(
            r"how many (?:hours|days|weeks|months|years) .{0,60}\b(?:spend|spent|total|altogether)",
            r"in total|total (?:amount|number|cost)|altogether|on average|the average|insgesamt|en total|au total|no total|in totale|in totaal",
            r"=一共|总共|總共|合计|合計|平均|全部で|모두 (?:몇|얼마)|总计",
        ),
    ),
    (
        QuestionType.TEMPORAL,
        any_of(
            r"how (?:recently|soon|old)|since when|(?:in )?(?:what|which) order|the order (?:of|in which)|chronological\w*",
            r"(?:first|last|earlier|later|before)\b.{0,60}, .{1,90}\bor|the (?:last|first) time|most recent(?:ly)?|earliest|latest",
            r"reihenfolge|zuerst|zuletzt|das letzte mal|das erste mal|seit wann|wie alt",
            r"en qué orden|la última vez|la primera vez|desde cuándo|hace cuánto",
            r"dans quel ordre|la dernière fois|la première fois|depuis quand",
            r"в каком порядке|в последний раз|в первый раз|как долго|сколько (?:времени|лет|дней|недель|месяцев)|с каких пор",
            r"em que ordem|a última vez|a primeira vez|há quanto tempo|quanto tempo",
            r"in che ordine|l['’]ultima volta|la prima volta|da quanto|hoe lang|hoelang|de laatste keer|volgorde",
            r"=先后|先後|顺序|順序|最近一次|上一次|最后一次|最後一次|第一次|多大|(?:几|幾|多少)(?:天|年|周|週|个月|個月|个小时|個小時)",
            r"=順番|最後に|最初に|どのくらい|どれくらい|얼마나 오래|순서|마지막으로|몇 ?(?:년|월|일|시|주|달)|كم من الوقت",
        ),
    ),
    (
        QuestionType.COMPARISON,
        any_of(
            r"both|than|in common|compar(?:e|es|ed|ing|ison)|differences?|different from|versus|vs|similarit(?:y|ies)",
            r"beide[nrsm]?|gemeinsam\w*|vergleich\w*|unterschied\w*|\w+er als",
            r"ambos|ambas|en común|comparad[oa]s?|diferencias?|(?:más|menos) (?:\w+ )?que",
            r"tous les deux|toutes les deux|en commun|compar\w+|différences?|(?:plus|moins) (?:\w+ )?que",
            r"оба|обе|обоих|общего|общее|сравн\w+|разниц\w+|чем отлича\w+",
            r"os dois|as duas|em comum|diferenças?|entrambi|entrambe|in comune|differenz\w+|allebei|gemeen|verschil\w*",
            r"=共同|(?:[俩倆]|两人|兩人|两个人|他们|她们|他們|我们|我們|和.{1,6})都|相比|比较|比較|区别|區別|不同|比.{1,12}[更还還]",
            r"=両方|二人とも|共通|違い|よりも|둘 ?다|공통|차이|보다|كلاهما|المشترك|الفرق",
        ),
    ),
    (
        QuestionType.AGGREGATE,
        any_of(
            r"how many|list|all (?:the|of|my|his|her|their|our)|every|what are (?:some|all)",
            r"(?:what|which) (?:\w+ ){0,2}(?:\w{2,}[^\Wsui]s|people|children) (?:has|have|had|does|do|did|are|were)",
            r"(?:what|which) (?:kinds|types|sorts) of|where (?:has|have)|who (?:are|were|all)",
            r"wie ?viele?|alle[nrs]?|welche \w+ haben|zähl\w* .{0,40}\bauf|liste\w* .{0,40}\bauf",
            r"cuánt[ao]s|cuántas veces|tod[ao]s l[ao]s|lista(?:me)?|enumera\w*",
            r"combien de|combien d['’]\w+|(?:tous|toutes) les|énumère\w*|quel(?:le)?s sont",
            r"сколько|всего|перечисли\w*|какие|список|quant[ao]s|tod[ao]s [ao]s|liste",
            r"quant[ie]|tutt[ie]|elenc\w+|hoeveel|alle|noem",
            r"=多少|[几幾](?:个|個|次|位|只|隻|本|种|種|家|条|份|场|部|门|門)|哪些|所有|全部|列出|列举|列舉",
            r"=いくつ|何(?:人|回|個|冊|匹|件)|すべて|몇 ?(?:명|번|개|권|마리|곳)|모두|모든",
            r"كم عدد|كل|جميع",
        ),
    ),
)
"""In the order in which they are tried."""


def find_question_type(question: str) -> QuestionType:
    """Tell a question's type; what shows no sure cue asks for a single fact."""
    if ASKS_ADVICE.search(question):
        return QuestionType.PERSONALIZED_ADVICE
    cues = question_cues(WHILE.sub("", question))
    if cues.asks_other:
        return QuestionType.PRIOR_ASSISTANT_RESPONSE
    for question_type, pattern in CUES:
        if pattern.search(question) or (question_type is QuestionType.TEMPORAL and cues.asks_when):
            return question_type
    return QuestionType.SINGLE
