"""What users of other memory systems reported, and the tests that hold us to better; the index is checked here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

LESSONS: dict[str, tuple[str, ...]] = {
    # --- loss and duplicates ---
    "hindsight#1833: a failure counted as done with nothing found": ("test_memory.test_embedder_fails",),
    "graphiti#1707: success returned, the turn dropped later": ("test_durability.test_killed_at_any_moment",),
    "mem0#6515: two adds of one thing at once both stored": (
        "test_durability.test_one_thing_said_to_two_processes",
    ),
    "mem0#1674: adding the same thing again deleted it": (
        "test_store.test_adding_again_changes_nothing",
        "test_memory.test_adding_again_embeds_nothing",
    ),
    "mem0#4536: a contradiction deleted both": ("test_store.test_a_conflict_leaves_nothing",),
    "cognee#2717, and a plain loop of adds elsewhere: database is locked": (
        "test_durability.test_processes_create_and_add_at_once",
        "test_durability.test_threads_add_while_others_ask_and_forget",
        "test_durability.test_a_reader_never_waits_for_a_writer",
    ),
    "hermes#58705: a second process can't open the store": (
        "test_durability.test_another_process_is_heard_at_once",
    ),
    "A-mem#32: ranks used as ids overwrote other notes": ("test_store.test_places_are_not_used_again",),
    # --- wrong, stale, invented ---
    "mem0#7047: no way from what is recalled to its source": ("test_chain.test_every_link_has_its_reason",),
    # --- time ---
    "mem0#4963, #3944: last week of an old conversation counted from today": (
        "test_memory.test_last_week_counts_from_now",
    ),
    "mem0#4402, MemOS#2369, graphiti#920: a zone guessed, naive and aware times mixed": (
        "test_memory.test_a_bad_turn_in_the_middle_stores_nothing",
        "test_memory.test_times_are_kept_with_their_offset",
        "test_memory.test_what_cannot_be_asked",
        "test_context.test_golden_context",
    ),
    # --- search ---
    "hindsight#1077, mem0#4884: words inside a Chinese, Japanese or Korean sentence never found": (
        "test_memory.test_words_of_every_language_are_found",
    ),
    "graphiti#1660, #1269, MemOS#1247: a hyphen, slash or apostrophe is a syntax error": (
        "test_memory.test_awkward_words_are_found",
        "test_memory.test_any_question_is_answered",
        "test_memory.test_any_text_is_kept_and_spoils_nothing",
    ),
    "mem0#3284: a filter ignored": ("test_memory.test_a_time_range_leaves_out_the_rest",),
    "A-mem#23, mem0#3144: the score is a distance, or the best hit always 1.0": (
        "test_memory.test_scores_are_absolute",
        "test_memory.test_nothing_relevant_can_be_said",
    ),
    "each search wrote a last-seen mark": (
        "test_reading.test_a_read_never_writes",
        "test_reading.test_reading_beside_a_writer_does_not_write",
    ),
    "with no model on disk the first add said: name or service not known": (
        "test_reading.test_no_socket_is_opened",
        "test_embed.test_a_missing_package_is_named_with_the_way_to_get_it",
    ),
    "MemOS#271: ten hits, ten copies": ("test_chain.test_diversity_passes_over_a_repetition",),
    "hindsight#2429: a kind of row without text index for months": (
        "test_bad_stores.test_doctor_finds_damage",
    ),
    # --- deletion, isolation, injection ---
    "MemOS#2331, mem0#3746, TrueMemory#685: deleted, yet still held somewhere": (
        "test_forgetting.test_no_byte_is_left",
        "test_forgetting.test_staged_vectors_go_too",
        "test_forgetting.test_others_stay",
        "test_forgetting.test_while_another_process_reads",
    ),
    "after delete-all a search for a deleted name found a new record": (
        "test_forgetting.test_a_forgotten_name_finds_nothing_else",
    ),
    "graphiti#1676, mem0#5121: another tenant's memories": (
        "test_isolation.test_two_tenants_at_once",
        "test_isolation.test_forgotten_in_another_process",
    ),
    "SimpleMem#53, mem0#5744: a condition in a name": (
        "test_isolation.test_names_of_columns_and_filters_are_only_text",
    ),
    "crewAI#5057: stored text acts as instructions": (
        "test_context.test_stored_text_stays_quoted_and_in_budget",
    ),
    "a path joined from a user id": ("test_isolation.test_no_two_ids_share_a_file",),
    # --- running it ---
    "mem0#1575 to #4695: a vector size assumed": (
        "test_memory.test_a_memory_knows_its_embedder",
        "test_store.test_another_embedder_is_refused",
        "test_embed.test_a_provider_is_asked_once_for_its_dimension",
    ),
    "hindsight#743: another embedder means starting over": (
        "test_memory.test_reembed_that_fails_goes_on_where_it_stopped",
        "test_durability.test_killed_while_the_embedder_is_changed",
        "test_store.test_embedder_changed_by_another_process",
    ),
    "mem0#3376, MemOS#1273: a thread or pool a call": ("test_memory.test_nothing_is_left_open",),
    "lancedb#3086: 800 MB after 5,000 single adds": ("test_memory.test_disk_use_is_bounded",),
    "mem0#2880, letta#1896: an upgrade loses memories": (
        "test_bad_stores.test_a_store_of_every_version_opens",
        "test_bad_stores.test_an_old_store_is_kept_until_the_new_one_is_there",
        "test_bad_stores.test_processes_upgrade_one_store_together",
    ),
    "mem0#2285: telemetry": ("test_reading.test_no_socket_is_opened",),
}
"""(where it was reported, and what) → the tests that would fail if we did the same"""


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_has_its_tests(lesson: str) -> None:
    """Each lesson names at least one test, and all that it names are there."""
    assert LESSONS[lesson]
    for name in LESSONS[lesson]:
        module, _, function = name.partition(".")
        tree = ast.parse((Path(__file__).parent / f"{module}.py").read_text("utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name
