"""Every constant of planned reading: what the channels may return, how they are weighed, how evidence is selected."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class RecallChannel(StrEnum):
    """The four ways in which a route looks for evidence (paper 3.5)."""

    RECORDS = "records"  # words and vectors of records
    NODES = "nodes"  # words and vectors of evidence nodes, expanded to their records
    TIME = "time"  # records whose time overlaps the one asked about
    TURNS = "turns"  # the turns themselves


class TurnsBy(StrEnum):
    """What the raw-turn channel ranks turns by."""

    CHAIN = "chain"  # the relevance that Chain on Demand's anchors are chosen by
    CHANNELS = "channels"  # words and vectors alone (paper 3.5)


ALL_CHANNELS = tuple(RecallChannel)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceWeights:
    """What each channel adds to the log-odds that a turn is evidence (docs/reading.md)."""

    record: float = 1.5  # of the best record made from it
    record_base: float = 0.33  # a record's score that says nothing for or against its turns
    nodes: float = 1.2  # of the best record that evidence nodes lead to
    time: float = 0.4  # a record of it is of the time asked about
    role: float = 1.0  # it was said in the role that the route or the question's type asks for
    channels: float = 10.0  # of the mean of words and vectors, where the chain isn't asked
    channels_base: float = -10.3  # log-odds of a turn without any of the two
    outside: float = -8.0  # log-odds of a turn that was not looked at closely
    unread: float = -3.0  # log-odds of a turn where no channel looks at turns


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """Which channels run and how much each may return (paper C.4, Table 14)."""

    planned: bool = True  # False: a single route with the question itself (E.3, w/o query planner)
    channels: tuple[RecallChannel, ...] = ALL_CHANNELS
    turns_by: TurnsBy = TurnsBy.CHAIN
    plan_depth: int = 15  # results at least (Table 14)
    item_tokens: int = 20  # tokens of the context per result asked for
    nodes_factor: int = 3  # Table 14, evidence-node recall budget
    nodes_least: int = 30
    records_factor: int = 3  # Table 14, direct record recall budget
    records_least: int = 30
    turns_factor: int = 1  # Table 14, raw-turn recall budget
    turns_least: int = 20
    time_factor: int = 10  # Table 14, temporal filter recall budget
    time_least: int = 100
    dense_share: float = 0.5  # of the vectors in a record's score, beside words; a node's likewise
    least_covered: float = 0.5  # of the weight of the question's words, in one record: then there is evidence, whatever the turns look like
    time_bonus: float = 0.25  # of a record's score in the top-k, where its time is the one asked about
    other_type: float = 0.5  # what the score of a record counts that is of no type the route names
    weights: EvidenceWeights = field(default_factory=EvidenceWeights)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionSettings:
    """How evidence is selected (paper 3.5, C.4)."""

    by_tokens: bool = True  # most newly covered evidence per token; False: the paper's top-k
    fused: bool = True  # False: by score alone (E.3, w/o fusion/reranking/diversity)
    kappa: float = 60.0  # of reciprocal-rank fusion (Table 14)
    best_share: float = 0.82  # of the best route's score (C.4)
    route_share: float = 0.18  # of the fused ranks (C.4)
    most_quota: int = 4  # results that each route may keep for itself (C.4)
    pool_factor: int = 4  # candidates looked at for each result
    relevance: float = 0.75  # C.4
    similarity: float = 0.25  # C.4, subtracted
    same_session: float = 0.15  # of the similarity of two candidates, the next five likewise
    same_entities: float = 0.20
    same_queries: float = 0.15
    same_nodes: float = 0.15
    same_turns: float = 0.10
    same_terms: float = 0.25
    holds: tuple[float, ...] = (0.95, 0.9, 0.85)  # chance that a record of 1, 2, 3 turns says what each told
    holds_more: float = 0.1  # of more turns
    rival_share: float = (
        0.5  # power of a record's score over that of its turn's best record, in what it holds of the turn
    )
    not_asserted: float = 0.5  # what the chance of a record counts that was asked or supposed
    unsupported: float = (
        0.001  # what a record's score counts in the top-k that its turns don't bear out: it ranks last
    )
    thrift: float = 1.0  # power of an item's tokens that its worth is divided by
    need: float = (
        0.1  # of a turn's chance, what one beside it counts that it can't be read without (docs/reading.md)
    )
    first_share: float = 0.35  # of the tokens, for records whose type comes first
    overfill: float = 1.05  # of the tokens, is chosen: what doesn't fit when it is rendered was chosen last
    record_line: int = 6  # tokens of what stands around a record's text
    record_time: int = 4  # and of its time
    record_header: int = 6  # tokens of the line that opens a day


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingSettings:
    """How planned reading recalls and selects."""

    recall: RecallSettings = field(default_factory=RecallSettings)
    selection: SelectionSettings = field(default_factory=SelectionSettings)
