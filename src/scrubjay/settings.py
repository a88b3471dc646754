"""Every constant of the stages, with its unit and where it comes from; presets are variations by name."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from scrubjay.errors import SettingsError
from scrubjay.reading_settings import ReadingSettings
from scrubjay.store_settings import PostgresSettings, VectorSettings

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalSettings:
    """BM25 over passages."""

    k1: float = 0.9  # how soon repeats of a term stop adding
    b: float = 0.6  # how much a passage's length is held against it, 0 to 1
    tail_passages: int = 4096  # new passages searched unsorted before they become a segment
    merge_factor: float = 2.0  # segments up to this many times the size of what follows are merged with it


@dataclass(frozen=True, slots=True, kw_only=True)
class RelevanceWeights:
    """The weight of each signal in the log-odds that a turn is evidence (docs/ranking.md).

    Signals lie between 0 and 1 unless a comment says otherwise. "Mixed" is the mean of both channels, each over its best turn's.
    """

    lexical: float = 1.55  # BM25 over the best turn's
    lexical_mass: float = 1.1  # BM25 over the IDF of the question's terms: how much was found at all
    dense: float = 0.7  # cosine over the best turn's
    dense_standout: float = 0.9  # cosine, in standard deviations above the mean of all turns
    previous_short: float = 2.4  # mixed score of the turn before, less the longer it is than `short_turn`
    following_lexical: float = 0.5  # lexical of the turn after
    previous_second: float = 0.65  # mixed score of the turn before the one before
    following_second: float = 0.35  # mixed score of the turn after the one after
    window_covered: float = 1.5  # share of the question's IDF found in the turn and both its neighbours
    session_best: float = 1.25  # mixed score of the session's best turn
    session_covered: float = 1.7  # share of the question's IDF found in the session, IDF counted in sessions
    named: float = 2.1  # the question names who speaks
    by_asker: float = 2.2  # the question is about who asks it, and who asks it speaks
    machine: float = 0.0  # an assistant or a tool speaks, and the question doesn't ask what it said
    machine_score: float = -1.55  # its mixed score, likewise
    asks: float = -0.4  # the turn ends in a question
    substance: float = 3.65  # logarithm of the turn's length over that of `whole_turn`
    time_asked: float = 1.05  # the question asks when, and the turn names a time
    opens: float = 1.35  # the turn opens its session: news is told first
    in_range: float = 1.45  # the turn was said in the time the question names; less, the longer after it


@dataclass(frozen=True, slots=True, kw_only=True)
class RelevanceSettings:
    """What turns are looked at, and how signals are cut."""

    weights: RelevanceWeights = field(default_factory=RelevanceWeights)
    bias: float = -5.65  # log-odds of a turn without any signal, before they are shared out over all turns
    fewest_turns: int = 100  # a smaller memory counts as one of so many turns
    rivalry: float = 0.76  # of the logarithm of all turns' summed odds, how much is taken from each one's
    pool: int = 2048  # turns looked at closely; the others score 0
    dense_share: float = 0.5  # of the vectors in the mixed score
    neighbour_share: float = 0.25  # of each neighbour's mixed score, where the pool is chosen
    short_turn: float = 20.0  # tokens; a longer turn hands less of its score on
    whole_turn: float = 40.0  # tokens; a longer turn isn't trusted more for its length
    told_later: float = 4.0  # days after a named time in which half of its worth is lost


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSettings:
    """How anchors are chosen and their neighbourhood restored (CoD)."""

    candidates: int = 200  # most relevant turns that may become anchors (CoD: the candidate pool)
    least_relevance: float = 0.0005  # probability; a turn less likely to be evidence is no anchor and no hit
    least_promise: float = 0.02  # probability; nothing is relevant where no turn reaches it, rivals aside
    anchors: int | None = None  # at most (CoD: the fixed anchor budget); None: as many as the tokens allow
    relevance: float = 1.0  # weight of relevance, between the last and the first candidate's
    diversity: float = 0.0  # weight of 1 - the greatest Jaccard similarity of its terms with an anchor's
    coverage: float = 0.05  # weight of the share of the question's IDF that it covers and no anchor does
    thrift: float = 0.1  # power of a turn's tokens that its worth is divided by: 0 looks at worth alone, 1 at worth per token
    need: float = 0.2  # of an anchor's probability, what a turn beside it counts that it can't be read without (docs/ranking.md)
    short_answer: float = 20.0  # tokens; a longer answer can the better be read without its question
    least_worth: float = (
        1e-5  # probability a token; what is worth less isn't shown, however much room is left
    )
    before: int = 0  # turns of the session restored before each anchor, whatever they say (CoD)
    after: int = 0  # and after
    line_tokens: int = 3  # of a turn's number in the context
    header_tokens: int = 12  # of the line that opens a session in the context

    def hurried(self) -> Self:
        """Give what is left when the deadline has passed: the most relevant turns."""
        return replace(self, diversity=0.0, coverage=0.0, need=0.0, before=0, after=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """What is handed to a model."""

    max_tokens: int = 2_000  # of the whole text, where the caller names none
    whole_turn_tokens: int = 256  # a longer turn is shown by its best passage


COD_CHAIN = ChainSettings(anchors=15, diversity=0.3, coverage=0.3, thrift=0.0, need=0.0, before=1, after=1)
"""Chain on Demand as its abstract has it: a fixed anchor budget and every anchor's neighbourhood."""

CHAIN_PRESETS: Mapping[str, ChainSettings] = {
    "default": ChainSettings(),
    "cod": COD_CHAIN,
    "cod-relevance": replace(
        COD_CHAIN, diversity=0.0, coverage=0.0, before=0, after=0
    ),  # the ablation: anchors by relevance only
    "cod-diversity": replace(COD_CHAIN, coverage=0.0, before=0, after=0),  # and by diversity
    "cod-coverage": replace(
        COD_CHAIN, before=0, after=0
    ),  # and by coverage; the neighbourhood makes it "cod"
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """The language model and how patiently it is asked."""

    model: str | None = None  # "openai:gpt-4.1-mini", "anthropic:…", "ollama:…"; None: no model is configured
    base_url: str | None = None  # of an OpenAI-compatible server
    api_key: str | None = field(default=None, repr=False)
    temperature: float = 0.0  # paper, Table 11
    timeout_seconds: float = 120.0  # of one request
    attempts: int = 5  # requests until one is answered, when the provider is busy, failing or away
    first_wait_seconds: float = 1.0  # after the first failed request; doubled after each further one
    longest_wait_seconds: float = 60.0  # a longer Retry-After is handed to the caller as an error
    re_asks: int = 1  # times an unusable reply is sent back with what is wrong
    longest_reply: int = 1_000_000  # characters; more is not read
    shown_reply: int = 1_000  # characters of an unusable reply that are sent back, or shown in an error


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportSettings:
    """When a record counts as supported by the turns it cites."""

    content_share: float = 0.34  # of its content words that must stand in the turns or the reference context
    name_share: float = 0.5  # of the words of an entity's name, likewise
    capital_share: float = 0.4  # of capitalised words, above which capitals are no sign of a name (German)
    fewest_words: int = 3  # content words; of fewer, none need stand there if names and numbers do


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSettings:
    """How a segment is put to the model and its reply read (paper 3.3, C.2, Tables 11 and 12)."""

    note_characters: int = 1_200  # disambiguation note (Table 11)
    reference_characters: int = 2_400  # note and recent records together (Table 11)
    reference_records: int = 12  # recent records of the session (Table 11)
    use_reference: bool = True  # False: the ablation without cross-segment context (E.2)
    summaries: bool = False  # True: the ablation with one summary record a segment (E.2)
    max_output_tokens: int | None = None  # None: the provider's default (Table 11)
    piece_tokens: int = 900  # a longer turn is encoded in pieces, a call each (the hard cap of C.1)
    shortest_piece: int = 200  # characters; a turn this short isn't halved when its reply is cut short
    most_records: int = 200  # of one reply
    most_labels: int = 12  # entities of a record; tags likewise
    longest_record: int = 1_000  # characters
    attempts: int = 3  # of a segment, before it counts as failed
    retry_seconds: float = 30.0  # after a segment's first failed attempt; doubled after each further one
    lease_seconds: float = (
        120.0  # after which another may have the segment of a worker that has died; the living renew theirs
    )
    output_share: float = (
        2.7  # tokens of a reply for each of its segment, in a dry run; measured (docs/consolidation.md)
    )
    reference_share: float = (
        0.6  # tokens of reference context for each said before in the session, in a dry run
    )
    support: SupportSettings = field(default_factory=SupportSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundSettings:
    """When a memory that consolidates in the background does so."""

    settle_seconds: float = 0.5  # after an add, so that turns added one by one are looked at together
    idle_seconds: float = 1_800.0  # without a turn, after which a session is over and its open segment closes
    most_wait_seconds: float = 3_600.0  # between tries while the provider is away


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalWeights:
    """What each signal of the boundary score counts, 0 leaving it out (paper 3.2; docs/segmentation.md).

    Fitted by tools/calibrate_segmentation.py, for all embedders alike.
    """

    surprise: float = 0.38  # w_s of the paper
    cohesion: float = 0.06  # w_c
    length: float = 0.03  # w_l
    turns: float = 0.0  # w_n
    word_shift: float = 3.37  # other words than in the last exchanges, more than is usual in the session
    new_words: float = 1.1  # words not heard of late
    asks: float = 0.73  # the exchange ends with a question
    answers: float = 0.69  # the exchange before ended with one
    news: float = 1.39  # it dates what it tells
    opener: float = 1.61  # "by the way"
    lone_turn: float = 4.3  # the segment is one turn
    pause: float = (
        0.75  # per doubling of the least pause; set by hand: the development file has no times of day
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSettings:
    """How a session is cut into segments (paper 3.2, C.1, Table 10; docs/segmentation.md).

    Where a comment has two values the second is the paper's. Those marked * were fitted by
    tools/calibrate_segmentation.py.
    """

    semantic: bool = True  # cut where topics change; off: only by length (paper E.1, fixed window)
    turn_is_exchange: bool = False  # each turn by itself (paper E.1, eager on speaker turns)
    cut_probability: float = 0.21  # * and 0.50; Table 10
    bias: float = -3.2  # * and -1.10; C.1, b
    fewest_tokens: int = 300  # tokens; paper Table 10, minimum chunk
    target_tokens: int = 600  # tokens; paper Table 10: reaching it closes after the exchange
    most_tokens: int = 900  # tokens; paper Table 10, hard cap
    most_exchanges: int = 20  # and 10, hard cap; a turn between two named people is half an exchange
    surprise_history: int = 64  # exchanges; paper Table 10
    fewest_surprises: int = 5  # paper Table 10: the robust signal is off below
    surprise_base: float = 0.817  # * and 0.20; where the absolute signal is 0
    surprise_scale: float = 0.167  # * and 0.14
    least_absolute: float = -1.0  # paper Table 10
    most_absolute: float = 2.5  # paper Table 10
    least_robust: float = -2.0  # median absolute deviations; paper Table 10
    most_robust: float = 4.0  # the same
    deviation_scale: float = (
        1.4826  # median absolute deviation → standard deviation, of a normal distribution
    )
    least_deviation: float = 1e-3  # of surprise; keeps the robust signal finite in a monotonous session
    robust_share: float = 0.45  # of the robust signal beside the absolute one
    cohesion_scale: float = 0.06  # of cohesion drop
    most_cohesion: float = 2.5
    short_share: float = 0.7  # of fewest_tokens; paper C.1
    length_short: float = -1.30  # paper C.1, below that share
    length_growing: tuple[float, float] = (-0.80, 0.0)  # paper C.1, up to the minimum
    length_full: tuple[float, float] = (0.45, 1.90)  # paper C.1, up to the target
    length_long: tuple[float, float] = (1.90, 2.80)  # paper C.1, up to the cap
    length_most: float = 3.00  # paper C.1, from the cap on
    turns_few: tuple[float, ...] = (-0.85, -0.15, 0.15)  # paper C.1, one, two, three exchanges
    turns_base: float = 0.30  # paper C.1, four exchanges
    turns_step: float = 0.15  # paper C.1, each one more
    turns_most: float = 1.0  # paper C.1
    recent_exchanges: int = 2  # and 1: how many are what was said last
    common_shrinkage: float = 4.0  # exchanges, and 0: the mean vector isn't taken away
    usual_word_shift: float = 0.75  # expected of a session before anything is heard: the mean on LoCoMo
    usual_shift_exchanges: float = 4.0  # exchanges that expectation counts for
    heard_exchanges: int = 8  # how long a word counts as heard
    most_new_words: int = 10  # words; this many new ones or more count the same
    cue_characters: int = 500  # of a turn searched for what announces a new matter
    question_characters: int = 300  # from the end of an exchange, searched for a question
    pause_seconds: float = 1800.0  # the least time between exchanges that counts as a pause
    most_pause: float = 4.0  # doublings of it that count
    weights: SignalWeights = field(default_factory=SignalWeights)


PAPER_SEGMENTS = SegmentSettings(
    cut_probability=0.50,
    bias=-1.10,
    most_exchanges=10,
    surprise_base=0.20,
    surprise_scale=0.14,
    recent_exchanges=1,
    common_shrinkage=0.0,
    weights=SignalWeights(
        surprise=0.65,
        cohesion=0.45,
        length=0.90,
        turns=0.30,
        word_shift=0.0,
        new_words=0.0,
        asks=0.0,
        answers=0.0,
        news=0.0,
        opener=0.0,
        lone_turn=0.0,
        pause=0.0,
    ),
)
"""Table 10 and C.1 as the paper has them, for text-embedding-3-small."""

SEGMENT_PRESETS: Mapping[str, SegmentSettings] = {
    "default": SegmentSettings(),
    "lychee-v2": PAPER_SEGMENTS,
    "fixed-window": replace(PAPER_SEGMENTS, semantic=False),  # E.1: 600 tokens, 10 exchanges
    "eager": replace(PAPER_SEGMENTS, semantic=False, most_exchanges=1),  # E.1: a call an exchange
    "eager-turn": replace(
        PAPER_SEGMENTS, semantic=False, most_exchanges=1, turn_is_exchange=True
    ),  # a call a turn
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """How a question is put to the planner and its plan read (paper 3.5, B.2, C.4)."""

    most_routes: int = 4  # of a plan; more are left out
    most_queries: int = 4  # of a route
    most_labels: int = 12  # entities of a route; topics likewise
    longest_query: int = 500  # characters; goals likewise
    recent_lines: int = 6  # of the conversation that the question belongs to
    recent_characters: int = 2_000  # of these lines together
    max_output_tokens: int | None = None  # None: the provider's default
    cached_plans: int = 256  # the last questions' plans, kept in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankSettings:
    """Whether and how candidates are scored by a cross-encoder (paper Table 14)."""

    reranker: str | None = None  # "sentence-transformers:<name or path>", "http:<url>#<model>"; None: none
    api_key: str | None = field(default=None, repr=False)  # for an HTTP reranker
    pool: int = 100  # candidates of a route that are reranked (Table 14, configured reranker candidate limit)
    pool_share: int = 4  # at least so many times the results asked for (Table 14: top_k * 4)
    timeout_seconds: float = 10.0  # of scoring, where the caller names no deadline
    time_share: float = (
        0.9  # of the time left until the deadline, for one list's scoring; the rest is for selecting
    )
    longest_text: int = 2_000  # characters of a candidate that are scored
    batch: int = 16  # pairs a model here scores at a time; after each it looks at the clock
    longest_reply: int = 4_000_000  # bytes of an HTTP reply


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings:
    """How the answering call is put (paper F.3)."""

    max_output_tokens: int | None = None  # None: the provider's default
    recent_lines: int = 6  # of the conversation that the question belongs to
    recent_characters: int = 2_000  # of these lines together


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceSettings:
    """Whether a question can be answered, without a model; fitted by tools/fit_abstention.py (docs/answers.md)."""

    promise: float = 0.17  # weight of the log-odds that the best turn is evidence, had it no rivals
    others: float = -0.33  # and of the best turn of others than the question names
    names: float = -1.20  # the question names somebody
    asks: float = -0.88  # and what fits best of what they said is a question
    bias: float = 0.86
    least_log_odds: float = -7.0  # of a turn
    answerable_from: float = 0.64  # probability; below it, evidence counts as not answering


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a memory."""

    lexical: LexicalSettings = field(default_factory=LexicalSettings)
    relevance: RelevanceSettings = field(default_factory=RelevanceSettings)
    chain: ChainSettings = field(default_factory=ChainSettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    chat: ChatSettings = field(default_factory=ChatSettings)
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    segment: SegmentSettings = field(default_factory=SegmentSettings)
    reading: ReadingSettings = field(default_factory=ReadingSettings)
    strategy: str = "auto"  # of a recall that names none: "chain", "planned", or planned where records are
    plan: PlanSettings = field(default_factory=PlanSettings)
    rerank: RerankSettings = field(default_factory=RerankSettings)
    answer: AnswerSettings = field(default_factory=AnswerSettings)
    confidence: ConfidenceSettings = field(default_factory=ConfidenceSettings)
    background: BackgroundSettings = field(default_factory=BackgroundSettings)
    postgres: PostgresSettings = field(default_factory=PostgresSettings)
    vectors: VectorSettings = field(default_factory=VectorSettings)
    passage_tokens: int = 256  # a longer turn is indexed in pieces
    import_batch: int = 500  # turns a transaction of an import

    @classmethod
    def from_env(cls) -> Self:
        """Return the settings with what the environment says of models and vectors; for the command and servers only."""
        chat = ChatSettings(
            model=os.environ.get("SCRUBJAY_MODEL") or None,
            base_url=os.environ.get("SCRUBJAY_BASE_URL") or None,
            api_key=os.environ.get("SCRUBJAY_API_KEY") or None,
        )
        rerank = RerankSettings(
            reranker=os.environ.get("SCRUBJAY_RERANKER") or None,
            api_key=os.environ.get("SCRUBJAY_RERANKER_API_KEY") or None,
        )
        vectors = VectorSettings(index=os.environ.get("SCRUBJAY_VECTOR_INDEX") or "exact")
        return cls(chat=chat, rerank=rerank, vectors=vectors)

    @staticmethod
    def preset(name: str) -> Settings:
        """Return the settings of that name; raise SettingsError for another."""
        from scrubjay.presets import PRESETS  # a table of whole settings, so it is made after them

        if name not in PRESETS:
            raise SettingsError(f"no preset is called {name!r}: there are {', '.join(PRESETS)}")
        return PRESETS[name]
