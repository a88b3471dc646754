"""Dates in questions: what is found, in which languages, and what is left alone."""

from __future__ import annotations

import importlib.util
import json
import string
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.datatypes import DatePrecision
from scrubjay.date_names import LANGUAGES, has_cue, read_tokens
from scrubjay.dates import find_mentions, find_time_range, is_supported
from scrubjay.errors import QuestionError

if TYPE_CHECKING:
    from scrubjay.datatypes import TimeRange

ROOT = Path(__file__).parents[1]
NOW = datetime(2023, 8, 16, 15, 20, tzinfo=UTC)  # a Wednesday


def days(found: TimeRange | None) -> str:
    """Write a range as its first and last whole day."""
    if found is None:
        return "none"
    first = f"{found.start:%Y-%m-%d}" if found.start else ""
    last = f"{found.end - timedelta(microseconds=1):%Y-%m-%d}" if found.end else ""
    return first if first == last else f"{first}..{last}"


def found_in(question: str, now: datetime = NOW) -> str:
    return days(find_time_range(question, now))


CALENDAR = {
    "What did Ana paint in May 2023?": "2023-05-01..2023-05-31",
    "What did we plant on 3 May 2023?": "2023-05-03",
    "Who called on May 3rd, 2023?": "2023-05-03",
    "Who called on the 3rd of May 2023?": "2023-05-03",
    "the note of Sept. 5, 2021": "2021-09-05",
    "the note of 2021-09-05": "2021-09-05",
    "the note of 2021-09": "2021-09-01..2021-09-30",
    "the note of 5.9.2021": "2021-09-05",
    "the note of 09/25/2021": "2021-09-25",
    "the note of 25/09/2021": "2021-09-25",
    "the note of 05/05/2021": "2021-05-05",
    "Where did we go in the summer of 2022?": "2022-06-01..2022-08-31",
    "the winter of 2021": "2021-12-01..2022-02-28",
    "the third quarter of 2022": "2022-07-01..2022-09-30",
    "our goals for Q1 2022": "2022-01-01..2022-03-31",
    "Where did I work in 2019?": "2019-01-01..2019-12-31",
    "the year 2019": "2019-01-01..2019-12-31",
    "the second week of May 2022": "2022-05-08..2022-05-14",
    "ＭＡＹ ２０２３": "2023-05-01..2023-05-31",
}

FROM_NOW = {
    "What did I cook yesterday?": "2023-08-15",
    "the day before yesterday": "2023-08-14",
    "What did I cook last night?": "2023-08-15",
    "What did we decide last week?": "2023-08-07..2023-08-13",
    "this month": "2023-08-01..2023-08-31",
    "next year": "2024-01-01..2024-12-31",
    "last weekend": "2023-08-12..2023-08-13",
    "last quarter": "2023-04-01..2023-06-30",
    "two months ago": "2023-06-01..2023-06-30",
    "three days ago": "2023-08-13",
    "a week ago": "2023-08-07..2023-08-13",
    "In 3 days, what is due?": "2023-08-19",
    "the build of 2w ago": "2023-07-31..2023-08-06",
    "a couple of days ago": "2023-08-13..2023-08-15",
    "a few weeks ago": "2023-07-12..2023-08-02",
    "the past three weeks": "2023-07-26..2023-08-16",
    "in the last month": "2023-07-16..2023-08-16",
    "over the past few days": "2023-08-11..2023-08-16",
    "the next two days": "2023-08-16..2023-08-18",
    "What did Ana say in June?": "2023-06-01..2023-06-30",
    "What did Ana say in December?": "2022-12-01..2022-12-31",
    "last May": "2023-05-01..2023-05-31",
    "next May": "2024-05-01..2024-05-31",
    "this October": "2023-10-01..2023-10-31",
    "in February last year": "2022-02-01..2022-02-28",
    "on the first of May": "2023-05-01",
    "May 5": "2023-05-05",
    "What did I eat on Wednesday?": "2023-08-09",
    "last Friday": "2023-08-11",
    "this Friday": "2023-08-18",
    "next Monday": "2023-08-21",
    "last summer": "2022-06-01..2022-08-31",
    "during the summer": "2023-06-01..2023-08-31",
    "last fall": "2022-09-01..2022-11-30",
    "in Q3": "2023-07-01..2023-09-30",
}

RANGES = {
    "between 3 May and 10 May 2023": "2023-05-03..2023-05-10",
    "between 3 and 10 May 2023": "2023-05-03..2023-05-10",
    "June 1st to 7th": "2023-06-01..2023-06-07",
    "May 3-10, 2023": "2023-05-03..2023-05-10",
    "Where were we between April 11 and April 15 2022?": "2022-04-11..2022-04-15",
    "from June to August 2022": "2022-06-01..2022-08-31",
    "from June 2022 to August": "2022-06-01..2022-08-31",
    "from November to February 2023": "2022-11-01..2023-02-28",
    "from Monday to Wednesday": "2023-08-07..2023-08-09",
    "from 2020 to 2022": "2020-01-01..2022-12-31",
    "What did we decide before May 2023?": "..2023-04-30",
    "Where did I live until 2021?": "..2021-12-31",
    "How many races had she won by July 10, 2022?": "..2022-07-10",
    "What has changed since last summer?": "2022-06-01..",
    "after March 3rd, 2023": "2023-03-04..",
    "the week before April 10, 2023": "2023-04-03..2023-04-09",
    "two weeks before April 10, 2023": "2023-03-27..2023-04-02",
    "two days after April 10, 2023": "2023-04-12",
    "the week after April 10, 2023": "2023-04-11..2023-04-17",
    "the Sunday before October 25, 2022": "2022-10-23",
    "last weekend before April 10, 2023": "2023-04-08..2023-04-09",
    "every Monday since 3 May 2022": "2022-05-03..",
    "the weekend before April 12, 2023": "2023-04-08..2023-04-09",
    "the weekend after April 12, 2023": "2023-04-15..2023-04-16",
    "the weekend after April 15, 2023": "2023-04-22..2023-04-23",
    "the week of 14 June 2023": "2023-06-12..2023-06-18",
}

LANGUAGE_PHRASES = {
    "Was haben wir letzten Dienstag besprochen?": "2023-08-15",
    "Was geschah am 3. März 2023?": "2023-03-03",
    "Wo war ich vor zwei Wochen?": "2023-07-31..2023-08-06",
    "seit März 2022": "2022-03-01..",
    "in den letzten drei Wochen": "2023-07-26..2023-08-16",
    "Qu'avons-nous dit l'été dernier ?": "2022-06-01..2022-08-31",
    "la réunion du 1er février 2023": "2023-02-01",
    "il y a trois semaines": "2023-07-24..2023-07-30",
    "dans trois jours": "2023-08-19",
    "entre juin et août 2022": "2022-06-01..2022-08-31",
    "les trois derniers mois": "2023-05-16..2023-08-16",
    "¿Qué leí el lunes pasado?": "2023-08-14",
    "el 10 de julio de 2022": "2022-07-10",
    "hace dos meses": "2023-06-01..2023-06-30",
    "antes de mayo de 2022": "..2022-04-30",
    "Cosa ho letto due settimane fa?": "2023-07-31..2023-08-06",
    "l'anno scorso": "2022-01-01..2022-12-31",
    "gli ultimi 3 giorni": "2023-08-13..2023-08-16",
    "O que li na segunda-feira?": "2023-08-14",
    "há duas semanas": "2023-07-31..2023-08-06",
    "em março de 2022": "2022-03-01..2022-03-31",
    "Wat las ik vorige week?": "2023-08-07..2023-08-13",
    "twee maanden geleden": "2023-06-01..2023-06-30",
    "что я читал в мае": "2023-05-01..2023-05-31",
    "на прошлой неделе": "2023-08-07..2023-08-13",
    "встреча 13 июля 2022 года": "2022-07-13",
    "летом 2022 года": "2022-06-01..2022-08-31",
    "с июня по август 2022": "2022-06-01..2022-08-31",
    "上周五我们讨论了什么": "2023-08-11",
    "二十三天前": "2023-07-24",
    "去年3月的旅行": "2022-03-01..2022-03-31",
    "2022年5月3日的会议": "2022-05-03",
    "最近五天": "2023-08-11..2023-08-16",
    "从3月到5月": "2023-03-01..2023-05-31",
    "第三季度": "2023-07-01..2023-09-30",
    "下半年": "2023-07-01..2023-12-31",
    "2021年以来": "2021-01-01..",
    "先週の金曜日に何をした?": "2023-08-11",
    "2022年5月3日の旅行": "2022-05-03",
    "三日前": "2023-08-13",
    "지난주 금요일에 뭐 했지?": "2023-08-11",
    "2022년 5월 3일": "2022-05-03",
    "두 달 전": "2023-06-01..2023-06-30",
}


@pytest.mark.parametrize(
    ("question", "expected"),
    [*CALENDAR.items(), *FROM_NOW.items(), *RANGES.items(), *LANGUAGE_PHRASES.items()],
)
def test_a_named_time_is_found(question: str, expected: str) -> None:
    """A question's time is found as the span that it names."""
    assert found_in(question) == expected


@pytest.mark.parametrize(
    "question",
    [
        "What does Ana like for breakfast?",
        "May I borrow it?",
        "August",
        "he may be late",
        "5 may be enough",
        "the march on the capital",
        "What does April like?",
        "Did August write to June?",
        "we sat in the sun for a second",
        "thu",
        "the Monday meeting",
        "What time do I swim on Tuesdays?",
        "How many weeks ago did I buy the lamp?",
        "how long ago was it",
        "years ago",
        "a few years ago",
        "my 5-day trip",
        "I ran 5 km in 20 minutes",
        "a limit of 2000 tokens",
        "How much did I read in two weeks?",
        "I found 3 out of 5",
        "room 2023",
        "to this day",
        "at the last minute",
        "the last day of school",
        "Which day was it?",
        "on 05/06/2023",
        "0000-03-01",
        "2021-14-40",
        "in 4096",
        "the past 0 weeks",
        "the fifth week of February",
        "the third month of 2022",
        "Monday since we met",
        "0 days before Ana came",
        "10.2.3.4",
        "99999999999 days ago",
        "mon ami",
        "por la mañana",
        "Guten Morgen",
        "上海的小吃",
        "上司",
        "五百万年前",
        "好几年前",
        "日本への旅行",
        "",
        "\x00",
        "???",
    ],
)
def test_what_names_no_time_is_left_alone(question: str) -> None:
    """Verbs, names, lengths, counts and what is vague or ambiguous give no range."""
    assert find_time_range(question, NOW) is None


def test_a_calendar_date_goes_before_a_relative_one() -> None:
    """A date of the calendar says more than "last week" beside it."""
    assert found_in("Did we say last week that the trip was on 3 May 2022?") == "2022-05-03"


def test_the_first_of_several_counts() -> None:
    """Of two relative times the first is taken."""
    assert found_in("last month or last week") == "2023-07-01..2023-07-31"


def test_a_day_that_does_not_exist_leaves_its_month() -> None:
    """The 31st of February is no day; what remains of the phrase still names its month."""
    assert found_in("on 31 February 2022") == "2022-02-01..2022-02-28"


def test_ends_in_the_wrong_order_are_no_range() -> None:
    """A range that ends before it starts is not one; its first end stays."""
    assert found_in("from May 2022 to March 2021") == "2022-05-01..2022-05-31"


def test_the_leap_day_is_the_latest_there_was() -> None:
    """The 29th of February without a year is that of the latest leap year."""
    assert found_in("on February 29") == "2020-02-29"


@pytest.mark.parametrize(
    ("question", "precision"),
    [
        ("an hour ago", DatePrecision.HOUR),
        ("yesterday", DatePrecision.DAY),
        ("last week", DatePrecision.WEEK),
        ("in May 2022", DatePrecision.MONTH),
        ("Q1 2022", DatePrecision.QUARTER),
        ("summer 2022", DatePrecision.SEASON),
        ("in 2022", DatePrecision.YEAR),
        ("last weekend", DatePrecision.OTHER),
    ],
)
def test_the_precision_is_the_said_one(question: str, precision: DatePrecision) -> None:
    """A range keeps how exactly it was named."""
    found = find_time_range(question, NOW)
    assert found is not None
    assert found.precision is precision


def test_hours_are_counted_from_the_clock() -> None:
    """Three hours ago is an hour of the clock."""
    found = find_time_range("What did I say 3 hours ago?", NOW)
    assert found is not None
    assert (found.start, found.end) == (NOW.replace(hour=12, minute=0), NOW.replace(hour=13, minute=0))


def test_hours_up_to_now_end_now() -> None:
    """The last two hours end at the reference itself."""
    found = find_time_range("in the last 2 hours", NOW)
    assert found is not None
    assert (found.start, found.end) == (NOW - timedelta(hours=2), NOW)


def test_the_words_are_given_as_written() -> None:
    """The text of a range is cut from the question, marks, width and case kept."""
    found = find_time_range("Où étions-nous DEPUIS l’été dernier, déjà ?", NOW)
    assert found is not None
    assert found.text == "DEPUIS l’été dernier"


def test_ranges_are_in_the_zone_of_the_reference() -> None:
    """A day begins at midnight of the reference's zone, also when the clock changes."""
    berlin = ZoneInfo("Europe/Berlin")
    found = find_time_range("yesterday", datetime(2023, 3, 27, 12, tzinfo=berlin))
    assert found is not None
    assert found.start == datetime(2023, 3, 26, tzinfo=berlin)
    assert found.end == datetime(2023, 3, 27, tzinfo=berlin)


def test_a_naive_reference_is_refused() -> None:
    """A reference without a zone is never guessed."""
    with pytest.raises(QuestionError, match="time zone"):
        find_time_range("yesterday", datetime(2023, 8, 16))  # noqa: DTZ001 -- what is refused


@pytest.mark.parametrize("year", [1, 9999])
def test_the_ends_of_the_calendar_are_no_error(year: int) -> None:
    """What lies outside the calendar is not found."""
    edge = datetime(year, 1 if year == 1 else 12, 1 if year == 1 else 31, tzinfo=UTC)
    for question in (*FROM_NOW, *RANGES):
        find_time_range(question, edge)


PIECES = [
    *[
        "1",
        "2",
        "31",
        "366",
        "2023",
        "0001",
        "9999",
        ",",
        ".",
        "-",
        "'s",
        "in",
        "on",
        "of",
        "the",
        "since",
        "before",
        "until",
        "from",
        "to",
        "and",
        "between",
        "ago",
        "last",
        "this",
        "next",
    ],
    *[
        "may",
        "May",
        "march",
        "Monday",
        "week",
        "weeks",
        "day",
        "month",
        "year",
        "two",
        "few",
        "summer",
        "q",
        "3rd",
        "vor",
        "zwei",
        "il",
        "y",
        "a",
        "hace",
        "上",
        "周",
        "三",
        "月",
        "年",
        "日",
        "前",
        "천",
    ],
]
QUESTION = st.text() | st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join)


@given(QUESTION, st.datetimes(timezones=st.just(UTC)))
def test_any_text_is_read_and_no_range_is_empty(question: str, now: datetime) -> None:
    """Whatever is asked, nothing is raised, and a range starts before it ends."""
    found = find_time_range(question, now)
    if found is not None:
        assert found.text
        assert found.text in question
        assert found.start is None or found.end is None or found.start < found.end


@given(QUESTION)
def test_the_cheap_cue_loses_nothing(question: str) -> None:
    """A text without a cue has no phrase that names a time, so the cue may decide first."""
    tokens = read_tokens(question)
    named = [mention for mention in find_mentions(tokens, NOW) if is_supported(tokens, mention)]
    assert has_cue(question) or not named


@given(st.text(alphabet="bdhjkpvwxz ?!'", max_size=60))
def test_text_without_words_of_time_has_no_range(text: str) -> None:
    """Letters that make no word of time give no range."""
    assert find_time_range(text, NOW) is None


@given(st.text(alphabet=string.printable + "éßＭ上周월ﬁİ", max_size=40))
def test_tokens_lie_in_order_within_the_question(text: str) -> None:
    """Known tokens keep their places in the text as written, however folding changes its length."""
    ends = 0
    for token in read_tokens(text):
        if token.meanings:
            assert ends <= token.start < token.end <= len(text)
            ends = token.end


def test_the_names_are_up_to_date() -> None:
    """The bundled names are what the tool makes of CLDR and our words."""
    babel = pytest.importorskip("babel")
    bundled = (ROOT / "src/scrubjay/date_names/names.json").read_text("utf-8")
    if babel.__version__ not in json.loads(bundled)["source"]:
        pytest.skip("the names were built with another version of CLDR")
    spec = importlib.util.spec_from_file_location("build_date_names", ROOT / "tools/build_date_names.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.build_names() == bundled


def test_every_language_has_names() -> None:
    """Each claimed language has months, weekdays, units and relative days of its own."""
    names = json.loads((ROOT / "src/scrubjay/date_names/names.json").read_text("utf-8"))["phrases"]
    for place, _ in enumerate(LANGUAGES):
        kinds = {row[0] for rows in names.values() for row in rows if row[3] >> place & 1}
        assert {"weekday", "unit", "relative", "season"} <= kinds
        assert "month" in kinds or "month-mark" in kinds
