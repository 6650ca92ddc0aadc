"""The request's drafter against the real matcher: legal drafts, untouched matcher, any value, layout and vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import xgrammar as xgr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.dspark.drafting import Draft, RequestDrafter
from pipeline.dspark.gold import LAYOUTS, Layout
from pipeline.dspark.memory import Memory
from tests.dspark.drafting_material import (
    RECORDS,
    VOCABULARIES,
    Vocabulary,
    document_of,
    drafter_for,
    matcher_maker,
    record_text,
    token_table,
)

_quick = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def _mask(matcher: Any, vocabulary: Vocabulary) -> list[int]:
    """The tokens a matcher allows, as a bitmask: its state as far as it can be seen."""
    bitmask = xgr.allocate_token_bitmask(1, len(token_table(vocabulary).pieces))
    matcher.fill_next_token_bitmask(bitmask)
    words: list[int] = bitmask.tolist()[0]
    return words


def _write(
    drafter: RequestDrafter, ids: Sequence[int], matcher: Any, limit: int, vocabulary: Vocabulary = "byte_level"
) -> tuple[int, list[Draft]]:
    """Write `ids` exactly, with all of each draft verified; returns the number of steps and the drafts."""
    position, steps, drafts = 0, 0, []
    while position < len(ids):
        before = _mask(matcher, vocabulary)
        draft = drafter.propose(matcher, limit)
        assert _mask(matcher, vocabulary) == before, "propose moved the matcher"
        trial = matcher.fork()
        assert all(trial.accept_token(token_id) for token_id in draft.token_ids), "the grammar refuses a draft token"
        accepted = 0
        while accepted < len(draft) and ids[position + accepted : position + accepted + 1] == [
            draft.token_ids[accepted]
        ]:
            accepted += 1
        written = list(ids[position : position + accepted + 1])
        assert all(matcher.accept_token(token_id) for token_id in written)
        drafter.verified(len(draft), accepted)
        drafter.observe(written)
        position, steps = position + len(written), steps + 1
        drafts.append(draft)
    drafter.finish()
    return steps, drafts


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("layout", LAYOUTS)
@_quick
@given(records=st.lists(RECORDS, min_size=1, max_size=3), limit=st.integers(1, 32))
def test_drafts_are_legal_and_leave_the_matcher_alone(
    vocabulary: Vocabulary, layout: Layout, records: list[dict[str, Any]], limit: int
) -> None:
    memory = Memory()
    for record in records * 2:
        ids = token_table(vocabulary).encode(record_text(record, layout))
        document = document_of(record)
        drafter = drafter_for(document, memory, vocabulary, prompt=document.encode())
        _, drafts = _write(drafter, ids, matcher_maker(vocabulary, layout)(), limit, vocabulary)
        for draft in drafts:
            assert len(draft.token_ids) == len(draft.survival) == len(draft.drafters) <= limit
            assert draft.survival.dtype == np.float32
            assert np.all((draft.survival > 0) & (draft.survival <= 1 + 1e-6))
            assert np.all(np.diff(draft.survival) <= 1e-6)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@_quick
@given(record=RECORDS, data=st.data())
def test_drafts_stay_legal_whatever_the_model_writes(vocabulary: Vocabulary, record: dict[str, Any], data: Any) -> None:
    matcher: Any = matcher_maker(vocabulary, "spaced")()
    drafter = drafter_for(document_of(record), Memory(), vocabulary)
    stop = min(token_table(vocabulary).special_ids)
    for _ in range(40):
        draft = drafter.propose(matcher, 8)
        trial = matcher.fork()
        assert all(trial.accept_token(token_id) for token_id in draft.token_ids)
        words = _mask(matcher, vocabulary)
        legal = [32 * i + b for i, word in enumerate(words) for b in range(32) if word >> b & 1]
        legal = [token_id for token_id in legal if token_id != stop and token_id < len(token_table(vocabulary).pieces)]
        if not legal:
            break
        token_id = data.draw(st.sampled_from(legal))
        assert matcher.accept_token(token_id)
        drafter.observe([token_id])


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_repeated_kind_of_record_takes_few_steps(vocabulary: Vocabulary, layout: Layout) -> None:
    memory, steps, num_tokens = Memory(), 0, 0
    for number in range(40):
        record = {
            "name": f"Customer {number * 37 % 101} Ltd",
            "kind": "order",
            "paid": None,
            "total": number + 0.5,
            "date": f"2024-03-{number % 28 + 1:02d}",
            "items": [{"sku": f"A-{number}", "tags": []}],
        }
        document = (
            f"Order by {record['name']}\nArticle A-{number}\nTotal: {number}.50 EUR\nDate: {number % 28 + 1}/3/2024"
        )
        ids = token_table(vocabulary).encode(record_text(record, layout))
        drafter = drafter_for(document, memory, vocabulary)
        one, _ = _write(drafter, ids, matcher_maker(vocabulary, layout)(), 16, vocabulary)
        if number >= 20:
            steps, num_tokens = steps + one, num_tokens + len(ids)
    assert num_tokens / steps > 6


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_record_copied_from_an_example_in_the_prompt_takes_few_steps(vocabulary: Vocabulary) -> None:
    tags = ["knowledge of protein expression", "bioreactor handling", "phage display and purification"]
    record = {"name": "B. Xu", "kind": "offer", "paid": True, "total": 7, "date": None}
    text = record_text(record | {"items": [{"sku": "K-93", "tags": tags}]}, "indented")
    ids = token_table(vocabulary).encode(text)

    def steps(**options: Any) -> int:
        drafter = drafter_for("A letter about something else.", Memory(), vocabulary, **options)
        return _write(drafter, ids, matcher_maker(vocabulary, "indented")(), 16, vocabulary)[0]

    assert steps(prompt=b"Extract.\n" + text.encode() + b"\nA letter") < 0.4 * steps()


def test_the_end_of_sequence_is_drafted_once_the_record_is_complete() -> None:
    memory, stop = Memory(), min(token_table("byte_level").special_ids)
    record = {"name": "a", "kind": "offer", "paid": None, "total": None, "date": None, "items": []}
    ids = [*token_table("byte_level").encode(record_text(record, "spaced")), stop]
    # An example in the prompt goes on behind its record; that is no reason to expect more than the end here.
    prompt = record_text(record, "spaced").encode() + b" and this is what follows the example in the prompt"
    for _ in range(3):
        drafter = drafter_for("a", memory, "byte_level", eos_token_id=stop, prompt=prompt)
        _, drafts = _write(drafter, ids, matcher_maker("byte_level", "spaced")(), 16)
    assert drafts[-1].token_ids[-1] == stop


def test_the_rest_of_a_followed_draft_is_the_next_draft() -> None:
    memory = Memory()
    record = {"name": "a", "kind": "offer", "paid": None, "total": None, "date": None, "items": []}
    ids = token_table("byte_level").encode(record_text(record, "spaced"))
    for _ in range(3):
        _write(drafter_for("a", memory, "byte_level"), ids, matcher_maker("byte_level", "spaced")(), 16)
    drafter, matcher = drafter_for("a", memory, "byte_level"), matcher_maker("byte_level", "spaced")()
    first = drafter.propose(matcher, 32)
    assert first.token_ids == ids[: len(first)]
    assert len(first) > 12
    drafter.verified(2, 2)
    drafter.observe(ids[:3])
    for token_id in ids[:3]:
        assert matcher.accept_token(token_id)
    assert drafter.propose(matcher, 32).token_ids == first.token_ids[3:]


def test_silenced_drafters_propose_nothing() -> None:
    memory = Memory()
    record = {"name": "a b c", "kind": "offer", "paid": None, "total": 1.5, "date": None, "items": []}
    ids = token_table("byte_level").encode(record_text(record, "spaced"))
    silent = frozenset({"structure", "history", "document", "output"})
    for _ in range(3):
        drafter = drafter_for("a b c", memory, "byte_level", without=silent)
        _, drafts = _write(drafter, ids, matcher_maker("byte_level", "spaced")(), 16)
    assert {name for draft in drafts for name in draft.drafters} == {"grammar"}
