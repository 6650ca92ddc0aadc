"""Drafts end where the budget has been cutting them, and grow again where it takes all."""

from __future__ import annotations

import numpy as np

from pipeline.dspark.admission import Admission

_SURVIVAL = np.array([0.9, 0.7, 0.5, 0.3], dtype=np.float32)


def test_at_first_everything_is_worth_drafting() -> None:
    admission = Admission()
    admission.verified(_SURVIVAL, 4)
    assert admission.worth_composing == admission.worth_encoding == 0.0


def test_the_level_comes_to_what_the_budget_refuses() -> None:
    admission = Admission()
    for _ in range(300):
        admission.verified(_SURVIVAL, 2)
    assert 0.45 < admission.worth_composing <= 0.5
    assert admission.worth_encoding < admission.worth_composing


def test_the_level_falls_fast_once_all_is_verified() -> None:
    admission = Admission()
    for _ in range(300):
        admission.verified(_SURVIVAL, 2)
    for _ in range(20):
        admission.verified(_SURVIVAL, 4)
    assert admission.worth_composing < 0.2


def test_an_empty_draft_says_nothing() -> None:
    admission = Admission()
    admission.verified(_SURVIVAL[:0], 0)
    assert admission.worth_composing == 0.0
