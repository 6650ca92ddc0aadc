"""Engine arguments, and what is said where DSpark cannot work, without loading an engine."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import engine_loading
from pipeline.config import DSparkConfig, EngineConfig
from pipeline.engine_loading import check_names, engine_args, usable_dspark
from pipeline.errors import ConfigError
from pipeline.preload import openmp_library

ROOT = Path(__file__).resolve().parents[1]


def test_a_vllm_without_the_seam_decodes_plainly_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine_loading, "contract_faults", lambda: ["vLLM 0.99 is not supported", "Request has no x"])
    with caplog.at_level(logging.WARNING):
        assert not usable_dspark(DSparkConfig()).enabled
    assert "dspark is off" in caplog.text
    assert "vLLM 0.99 is not supported; Request has no x" in caplog.text


def test_a_vllm_with_the_seam_keeps_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_loading, "contract_faults", list)
    asked = DSparkConfig(max_token_budget=64)
    assert usable_dspark(asked) is asked


def test_the_check_is_not_made_where_the_seam_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_loading, "contract_faults", lambda: pytest.fail("not to be asked"))
    assert not usable_dspark(DSparkConfig(enabled=False)).enabled
    assert usable_dspark(DSparkConfig(draft_model="org/head")).enabled


def test_a_trained_head_on_a_cpu_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match=r"dspark\.draft_model needs a GPU"):
        engine_args("org/model", EngineConfig(), DSparkConfig(draft_model="org/head"), device="cpu")


def test_what_the_user_sets_wins_over_every_default() -> None:
    args = engine_args("org/model", EngineConfig(args={"dtype": "float32", "tensor_parallel_size": 2}), DSparkConfig(),
                       device="cpu")  # fmt: skip
    assert (args["dtype"], args["tensor_parallel_size"], args["trust_remote_code"]) == ("float32", 2, False)


def test_an_argument_that_vllm_does_not_know_is_a_wrong_setting() -> None:
    check_names({"dtype": "float32"}, ["dtype", "max_model_len"])
    with pytest.raises(ConfigError, match=r"no engine argument 'max_modl_len' \(did you mean max_model_len\?\)"):
        check_names({"max_modl_len": 3}, ["dtype", "max_model_len"])


@pytest.mark.skipif(openmp_library() is None, reason="this environment has no OpenMP library of its own")
def test_a_worker_that_started_with_one_thread_gets_the_engine_s_number() -> None:
    """Spark starts Python workers with OMP_NUM_THREADS=1, and a preloaded OpenMP has read that by then."""
    program = (
        "import os, torch; before = torch.get_num_threads(); os.environ['OMP_NUM_THREADS'] = '2';"
        "from pipeline.engine_loading import _use_threads; _use_threads(); print(before, torch.get_num_threads())"
    )
    environment = {**os.environ, "LD_PRELOAD": str(openmp_library()), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["1", "2"]
