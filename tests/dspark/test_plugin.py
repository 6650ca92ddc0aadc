"""One argument turns DSpark on; without it nothing of vLLM is touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.dspark.arguments import NUM_DRAFT_SLOTS, PROPOSER, SCHEDULER, RequestSettings, SchedulerSettings
from pipeline.dspark.plugin import may_ask, turn_on

ROOT = Path(__file__).resolve().parents[2]


def arguments(**changes: Any) -> Any:
    values = {"model": "m", "speculative_config": None, "scheduler_cls": None, "async_scheduling": None}
    return SimpleNamespace(**{**values, "additional_config": {}, **changes})


def test_the_switch_becomes_scheduler_and_proposer() -> None:
    given = arguments(additional_config={"dspark": {"enabled": True, "max_token_budget": 2048}, "other": 1})
    assert turn_on(given, device="cpu")
    assert given.speculative_config == {
        "method": "custom_class",
        "model": PROPOSER,
        "num_speculative_tokens": NUM_DRAFT_SLOTS,
    }
    assert (given.scheduler_cls, given.async_scheduling) == (SCHEDULER, False)
    assert given.additional_config["other"] == 1
    assert SchedulerSettings.from_additional_config(given.additional_config).max_token_budget == 2048


def test_turning_on_twice_changes_nothing_more() -> None:
    given = arguments(additional_config={"dspark": True})
    assert turn_on(given, device="cpu")
    before = dict(vars(given))
    assert not turn_on(given, device="cpu")
    assert vars(given) == before


@pytest.mark.parametrize("config", [{}, {"other": 1}, {"dspark": {"enabled": False}}, {"dspark": False}, None])
def test_without_the_switch_the_arguments_stay(config: Any) -> None:
    given = arguments(additional_config=config)
    before = dict(vars(given))
    assert not turn_on(given, device="cpu")
    assert vars(given) == before


def test_the_trained_head_is_vllm_s_own_method() -> None:
    given = arguments(additional_config={"dspark": {"draft_model": "d"}})
    assert turn_on(given, device="cuda")
    assert (given.speculative_config, given.scheduler_cls) == ({"method": "dspark", "model": "d"}, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"speculative_config": {"method": "ngram"}}, "--speculative-config"),
        ({"scheduler_cls": "my.Scheduler"}, "--scheduler-cls"),
        ({"async_scheduling": True}, "--async-scheduling"),
        ({"additional_config": {"dspark": {"enable": True}}}, "enabled"),
        ({"additional_config": {"dspark": "on"}}, "enabled"),
    ],
)
def test_what_cannot_be_is_said_at_start(changes: dict[str, Any], message: str) -> None:
    given = arguments(**{"additional_config": {"dspark": {"enabled": True}}, **changes})
    with pytest.raises(ValueError, match=message):
        turn_on(given, device="cpu")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/usr/bin/vllm", "serve", "m"], False),
        (["/x/vllm/entrypoints/openai/api_server.py", "--model", "m"], False),
        (["/usr/bin/vllm", "serve", "m", "--additional-config", '{"dspark": {"enabled": true}}'], True),
        (["/usr/bin/vllm", "serve", "m", "--additional-config.dspark.enabled", "true"], True),
        (["/usr/bin/vllm", "serve", "--config", "model.yaml"], True),
        (["program.py"], True),
        ([], True),
    ],
)
def test_a_command_line_without_the_word_is_left_alone(argv: list[str], expected: bool) -> None:
    assert may_ask(argv) is expected


def test_a_client_says_where_its_document_is() -> None:
    sent = {"dspark_document_start": 3, "dspark_document_end": 9, "dspark_enabled": 0}
    assert RequestSettings.from_extra_args(sent) == RequestSettings(3, 9, enabled=False)


@pytest.mark.parametrize(
    "sent", [None, {}, {"dspark": "x"}, {"dspark_document_start": "3"}, {"dspark_enabled": -1}, {"dspark": [1]}]
)
def test_what_a_client_sends_by_mistake_ends_nothing(sent: Any) -> None:
    assert RequestSettings.from_extra_args(sent) == RequestSettings()


_CHECK = """
import json, sys
import vllm.plugins
from vllm.engine.arg_utils import EngineArgs

def changed(*argv):
    before = dict(EngineArgs.__dict__)
    sys.argv, vllm.plugins.plugins_loaded = list(argv), False
    vllm.plugins.load_general_plugins()
    return [name for name, value in EngineArgs.__dict__.items() if value is not before.get(name)]

without = changed("/usr/bin/vllm", "serve", "m")
light = sorted(m for m in sys.modules if m.startswith("pipeline"))
asked = changed("/usr/bin/vllm", "serve", "m", "--additional-config", '{"dspark": true}')
print(json.dumps([without, light, asked, changed("/usr/bin/vllm", "serve", "m", "--config", "dspark.yaml")]))
"""


@pytest.mark.vllm
def test_vllm_finds_the_plugin_and_is_only_touched_when_asked() -> None:
    done = subprocess.run([sys.executable, "-c", _CHECK], cwd=ROOT, capture_output=True, text=True, check=True)
    without, light, asked, asked_again = json.loads(done.stdout.strip().splitlines()[-1])
    assert without == asked_again == []
    assert light == ["pipeline", "pipeline.dspark", "pipeline.dspark.arguments", "pipeline.dspark.plugin"]
    assert asked == ["create_engine_config"]
