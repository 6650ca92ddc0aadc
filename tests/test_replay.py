"""Which rejects can be done again, and what is said of the others."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from click.testing import CliRunner

from jobs.replay_rejects import main
from pipeline.data import RejectReason
from pipeline.errors import ConfigError
from pipeline.replay import REPLAYABLE, check_replayable, left_alone

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("reason", sorted(set(map(str, RejectReason)) - set(REPLAYABLE)))
def test_a_reason_that_a_replay_cannot_touch_is_refused_with_what_helps(reason: str) -> None:
    with pytest.raises(ConfigError, match=f"changes no {reason} reject.*run the job again"):
        check_replayable(["TIMEOUT", reason])
    result = CliRunner().invoke(main, ["anywhere", "--reason", reason])
    assert (result.exit_code, f"changes no {reason} reject" in result.stderr) == (2, True)


def test_all_that_the_engine_decides_can_be_done_again() -> None:
    check_replayable(REPLAYABLE)
    assert {"TIMEOUT", "TRUNCATED", "REFUSED_BY_ENGINE", "INVALID_JSON", "SCHEMA_MISMATCH"} <= set(REPLAYABLE)


def test_what_stays_is_told_with_its_number() -> None:
    lines = list(left_alone({"UNGROUNDED": 2, "TIMEOUT": 3, "PROFILE_LOSS": 1, "EMPTY_INPUT": 0}))
    assert [line.partition(":")[0] for line in lines] == [
        "1 PROFILE_LOSS reject stays as it is", "2 UNGROUNDED rejects stay as they are"
    ]  # fmt: skip
    assert "--ungrounded null" in lines[1]


def test_the_dag_offers_the_same_reasons() -> None:
    tree = ast.parse((ROOT / "jobs" / "dags" / "replay_rejects.py").read_text())
    (reasons,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "REASONS"
    ]
    assert tuple(reasons) == REPLAYABLE
