"""vLLM has everything the scheduler relies on, and a missing part is named."""

import pytest

from pipeline.dspark import contract

pytest.importorskip("vllm")


@pytest.mark.vllm
def test_this_vllm_has_everything_that_is_relied_on() -> None:
    assert contract.contract_faults() == []


@pytest.mark.vllm
def test_a_missing_attribute_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(contract.ATTRIBUTES, "vllm.v1.request:Request", ("is_finished", "no_such_method"))
    monkeypatch.setitem(contract.INSTANCE_NAMES, "vllm.config:VllmConfig", ("no_such_field",))
    assert contract.contract_faults() == [
        "vllm.v1.request:Request has no no_such_method",
        "vllm.config:VllmConfig has no no_such_field",
    ]


def test_an_unsupported_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "installed_version", lambda: "0.99.1+cpu")
    assert contract.contract_faults()[0].startswith("vLLM 0.99.1+cpu is not supported: expected 0.32 or newer")


def test_a_missing_vllm_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "installed_version", lambda: None)
    assert contract.contract_faults() == ["vLLM is not installed"]
