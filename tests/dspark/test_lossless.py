"""Decoding with drafts gives the tokens of decoding without: real vLLM, demo model, float32 (no near-ties flip)."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.decode_gold import make_write
from pipeline.demo_model import ensure_demo_model
from tests.dspark.engines import Bench, Job, set_jobs, text_job

pytest.importorskip("vllm")
pytestmark = pytest.mark.vllm

RECORD = '{"id": "K407", "name": "Anna Lindgren", "kind": "parcel", "count": 3}\n'
GRAMMAR = r"""root ::= "{\"id\": \"" [A-Z] [0-9]{3} "\", \"name\": \"" [A-Za-z ]{1,30} "\", \"kind\": \"" kind tail
kind ::= "letter" | "parcel" | "pallet"
tail ::= "\", \"count\": " [1-9] "}"
"""


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    started = Bench(ensure_demo_model())
    yield started
    started.close()


@pytest.fixture(scope="module")
def jobs(shared: Path) -> list[Job]:
    return set_jobs(ensure_demo_model(), shared / "data", per_set=1, max_tokens=64)


@pytest.fixture(scope="module")
def plain(bench: Bench, jobs: list[Job]) -> dict[str, list[int]]:
    return bench.run(jobs, dspark=False, in_flight=16)


@pytest.fixture(scope="module")
def record_job() -> Job:
    return text_job(ensure_demo_model(), RECORD * 3, GRAMMAR)


@pytest.fixture(scope="module")
def record_tokens(bench: Bench, record_job: Job) -> list[int]:
    return bench.run([record_job], dspark=False)["job"]


@pytest.mark.parametrize("in_flight", [1, 4, 16])
def test_all_sets_and_schemas_in_one_engine_decode_the_same(
    bench: Bench, jobs: list[Job], plain: dict[str, list[int]], in_flight: int
) -> None:
    shuffled = random.Random(in_flight).sample(jobs, len(jobs))
    before = bench.coordinator.counters.num_accepted
    assert bench.run(shuffled, dspark=True, in_flight=in_flight) == plain
    assert bench.coordinator.counters.num_accepted > before


def test_requests_with_and_without_drafts_share_an_engine(
    bench: Bench, jobs: list[Job], plain: dict[str, list[int]]
) -> None:
    names = {bench.add(job, dspark=bool(index % 2)): job.name for index, job in enumerate(jobs)}
    done = {}
    while bench.engine.has_unfinished_requests():
        done |= {names[o.request_id]: list(o.outputs[0].token_ids) for o in bench.engine.step() if o.finished}
    assert done == plain


def test_an_end_token_inside_a_draft_ends_the_output(bench: Bench, record_job: Job, record_tokens: list[int]) -> None:
    eos = bench.engine.get_tokenizer().eos_token_id
    ended_by_draft = []
    bench.coordinator.trace = lambda _, survivals, accepted: ended_by_draft.append(accepted)
    try:
        output = bench.outputs([record_job], True, 1)["job"]
    finally:
        bench.coordinator.trace = None
    assert list(output.token_ids) == record_tokens
    assert record_tokens[-1] == eos
    assert output.finish_reason == "stop"
    assert max(ended_by_draft) > 3


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 8, 13, 21])
def test_max_tokens_inside_a_draft_cuts_there(
    bench: Bench, record_job: Job, record_tokens: list[int], cut: int
) -> None:
    output = bench.outputs([record_job], True, 1, max_tokens=cut)["job"]
    assert list(output.token_ids) == record_tokens[:cut]
    assert output.finish_reason == "length"


@pytest.mark.parametrize("stop", ['"name"', "Lindgren", "parcel"])
def test_a_stop_string_inside_a_draft_stops_there(bench: Bench, record_job: Job, stop: str) -> None:
    with_drafts = bench.outputs([record_job], True, 1, stop=[stop])["job"]
    without = bench.outputs([record_job], False, 1, stop=[stop])["job"]
    assert with_drafts.text == without.text
    assert with_drafts.stop_reason == without.stop_reason == stop


def test_an_aborted_request_with_a_pending_draft_leaves_the_others_alone(
    bench: Bench, jobs: list[Job], plain: dict[str, list[int]]
) -> None:
    names = {bench.add(job, dspark=True): job.name for job in jobs[:6]}
    aborted = [request_id for index, request_id in enumerate(names) if index % 2]
    done: dict[str, list[int]] = {}
    while bench.engine.has_unfinished_requests():
        done |= {names[o.request_id]: list(o.outputs[0].token_ids) for o in bench.engine.step() if o.finished}
        if any(request.spec_token_ids for request in bench.scheduler.running):  # drafts are pending
            bench.engine.abort_request(aborted)
    kept = [name for request_id, name in names.items() if request_id not in aborted]
    assert {name: done.get(name) for name in kept} == {name: plain[name] for name in kept}
    assert not any(request_id in bench.coordinator for request_id in names)


def test_a_plain_text_request_passes_by_dspark(bench: Bench) -> None:
    job = text_job(ensure_demo_model(), "One, two, three,", "", max_tokens=12)
    drafted = bench.coordinator.counters.num_drafted
    assert bench.run([job], dspark=True) == bench.run([job], dspark=False)
    assert bench.coordinator.counters.num_drafted == drafted


def test_filler_drafts_are_rejected_without_a_trace(bench: Bench, record_job: Job, record_tokens: list[int]) -> None:
    extra = {"dspark": {"num_filler": 5}}
    assert bench.run([record_job], dspark=True, extra_args=extra)["job"] == record_tokens


def test_an_engine_made_to_write_a_record_writes_it_with_and_without_drafts(bench: Bench, record_job: Job) -> None:
    text = '{"id": "X999", "name": "Nobody Else", "kind": "letter", "count": 2}'
    tokenizer = bench.engine.get_tokenizer()
    gold = [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
    manager = bench.scheduler.structured_output_manager
    make_write(bench.engine, {f"{number}-{record_job.name}": gold for number in range(1000)})
    try:
        for drafting in (False, True):
            assert bench.run([record_job], dspark=drafting)["job"] == gold
    finally:
        bench.scheduler.structured_output_manager = manager


def test_preempted_requests_decode_the_same(shared: Path, jobs: list[Job], plain: dict[str, list[int]]) -> None:
    tiny = Bench(ensure_demo_model(), enable_prefix_caching=False, num_gpu_blocks_override=18, block_size=128)
    preemptions = []
    original = tiny.scheduler._preempt_request
    tiny.scheduler._preempt_request = lambda request, *a, **k: (
        preemptions.append(request),
        original(request, *a, **k),
    )[1]
    try:
        assert tiny.run(jobs, dspark=True, in_flight=16) == plain
        assert preemptions
        assert tiny.coordinator.counters.num_accepted > 0
    finally:
        tiny.close()


@pytest.mark.slow
@pytest.mark.parametrize("prefix_caching", [True, False])
def test_sweep_over_sets_orders_and_requests_in_flight(shared: Path, prefix_caching: bool) -> None:
    """By hand: ``pytest -m slow tests/dspark/test_lossless.py``; about half an hour on two cores."""
    bench = Bench(ensure_demo_model(), enable_prefix_caching=prefix_caching)
    many = set_jobs(ensure_demo_model(), shared / "data", per_set=4, skip=4, max_tokens=120)
    try:
        expected = bench.run(many, dspark=False, in_flight=16)
        for seed in range(3):
            for in_flight in (1, 4, 16):
                shuffled = random.Random(seed).sample(many, len(many))
                bench.coordinator.forget()
                assert bench.run(shuffled, dspark=True, in_flight=in_flight) == expected, (seed, in_flight)
    finally:
        bench.close()


@pytest.mark.slow
def test_near_ties_flip_in_bfloat16_without_drafts_as_well(shared: Path) -> None:
    """Plain decoding differs from itself between batch shapes; that, and not drafting, is what changes outputs."""
    bench = Bench(ensure_demo_model(), dtype="bfloat16")
    many = set_jobs(ensure_demo_model(), shared / "data", per_set=3, max_tokens=120)
    try:
        alone = bench.run(many, dspark=False, in_flight=1)
        together = bench.run(many, dspark=False, in_flight=16)
    finally:
        bench.close()
    assert any(alone[name] != together[name] for name in alone)
