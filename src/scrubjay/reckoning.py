"""WRITE: what making records would cost, reckoned beforehand; nothing is written and no model is called."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scrubjay.datatypes import ConsolidationPlan, EncodingState, ReferenceContext, SegmentState
from scrubjay.embed import count_tokens
from scrubjay.encode import build_request, prompt_version, split_oversized
from scrubjay.segmenting import has_ended, segment_open_turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrubjay.chosen_model import ChosenModel
    from scrubjay.datatypes import Segment, SessionEnds, Turn, WritePath
    from scrubjay.settings import EncoderSettings

NO_REFERENCE = ReferenceContext(note="", records=())
CHARACTERS_PER_TOKEN = 4


def plan_consolidation(path: WritePath, ends: SessionEnds) -> ConsolidationPlan:
    """Reckon what `consolidate` would take, with nothing written and nothing called."""
    return reckon(planned_groups(path, ends), path.settings.encoder)


def plan_reconsolidation(path: WritePath, model: ChosenModel) -> ConsolidationPlan:
    """Reckon what `reconsolidate` would take: all segments, or what is left of a run that would go on.

    Without a model, a run of any model's is taken to go on.
    """
    version = prompt_version(path.settings.encoder)
    name = model.get().name if model.is_configured else None
    going_on = next(
        (
            run.encoding_row
            for run in path.records.encodings()
            if run.state is EncodingState.BUILDING
            and run.prompt_version == version
            and name in {None, run.model}
        ),
        None,
    )
    if going_on is None:
        segments = path.segments.segments()
    else:
        segments = path.segments.segments(state=SegmentState.PENDING, encoding_row=going_on)
    return reckon(turns_of(segments, path), path.settings.encoder)


def reckon(groups: Sequence[Sequence[Turn]], encoder: EncoderSettings) -> ConsolidationPlan:
    """Count the calls and tokens of segments, each given by its turns."""
    calls = given = made = 0
    known_of: Counter[str] = Counter()  # tokens of what later segments of each session may refer to
    for turns in groups:
        session_id = turns[0].session_id
        for batch in split_oversized(turns, encoder):
            request = build_request(batch, reference=NO_REFERENCE, settings=encoder)
            if request is None:
                continue
            system, spoken = count_tokens([request.system, request.user])
            known = min(known_of[session_id], encoder.reference_characters // CHARACTERS_PER_TOKEN)
            reply = round(spoken * encoder.output_share)
            calls, given, made = calls + 1, given + system + spoken + known, made + reply
            known_of[session_id] += round(spoken * encoder.reference_share)
    return ConsolidationPlan(segments=len(groups), calls=calls, input_tokens=given, output_tokens=made)


def planned_groups(path: WritePath, ends: SessionEnds) -> list[list[Turn]]:
    """Give the turns of each segment that waits, or would once open turns are segmented."""
    groups = turns_of(path.segments.segments(state=SegmentState.PENDING), path)
    for session_id in path.segments.sessions_with_open_turns():
        opened = path.segments.open_turns(session_id)
        turns = {turn.turn.turn_id: turn.turn for turn in opened.turns}
        found = segment_open_turns(opened, path, flush=has_ended(opened, ends))
        groups += [[turns[turn_id] for turn_id in segment.turn_ids] for segment in found.segments]
    return [turns for turns in groups if turns]


def turns_of(segments: Iterable[Segment], path: WritePath) -> list[list[Turn]]:
    """Give the turns of each segment that has some: they may have been forgotten meanwhile."""
    groups = ([path.turns.turn(turn_id) for turn_id in segment.turn_ids] for segment in segments)
    kept = ([turn for turn in group if turn is not None] for group in groups)
    return [group for group in kept if group]
