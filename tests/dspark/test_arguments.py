"""DSpark's settings as engine arguments, and what the scheduler and the requests read back."""

import json

import pytest

from pipeline.config import DSparkConfig
from pipeline.dspark.arguments import RequestSettings, SchedulerSettings, engine_arguments


def test_switched_off_there_are_no_arguments() -> None:
    assert engine_arguments({"enabled": False}, model="m", device="cuda") == {}


def test_the_switch_alone_selects_scheduler_and_proposer() -> None:
    arguments = engine_arguments({"enabled": True}, model="m", device="cpu")
    assert arguments["scheduler_cls"] == "pipeline.dspark.scheduler.DSparkScheduler"
    assert arguments["speculative_config"]["model"] == "pipeline.dspark.proposer.EmptyProposer"
    assert arguments["speculative_config"]["method"] == "custom_class"
    assert arguments["async_scheduling"] is False


def test_settings_reach_the_scheduler_unchanged() -> None:
    given = DSparkConfig(max_token_budget=100, max_concurrent_structs=3, max_json_depth=7)
    arguments = engine_arguments(given.model_dump(), model="m", device="cpu")
    read = SchedulerSettings.from_additional_config(json.loads(json.dumps(arguments["additional_config"])))
    assert (read.max_token_budget, read.max_concurrent_structs, read.max_json_depth) == (100, 3, 7)
    assert read.num_draft_slots == arguments["speculative_config"]["num_speculative_tokens"]


def test_defaults_are_the_articles() -> None:
    read = SchedulerSettings.from_additional_config(None)
    assert (read.max_token_budget, read.max_json_depth, read.max_concurrent_structs) == (8192, 128, None)


def test_a_draft_model_selects_vllms_own_trained_dspark() -> None:
    settings = {"enabled": True, "draft_model": "org/draft"}
    arguments = engine_arguments(settings, model="org/target", device="cuda")
    assert arguments == {"speculative_config": {"method": "dspark", "model": "org/draft"}}


def test_a_draft_model_on_a_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a GPU"):
        engine_arguments({"draft_model": "org/draft"}, model="m", device="cpu")


@pytest.mark.parametrize("extra", [None, {}, {"dspark": None}, {"other": 1}])
def test_without_request_settings_the_whole_prompt_is_the_document(extra: object) -> None:
    assert RequestSettings.from_extra_args(extra) == RequestSettings(0, None, True, 0)


def test_request_settings_are_read() -> None:
    read = RequestSettings.from_extra_args({"dspark": {"document_start": 3, "document_end": 9, "enabled": False}})
    assert read == RequestSettings(3, 9, False, 0)
