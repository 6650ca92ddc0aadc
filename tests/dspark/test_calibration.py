"""Survival estimates are corrected by what was verified."""

import numpy as np

from pipeline.dspark.calibration import Calibration


def test_untested_estimates_are_believed() -> None:
    promised = [0.95, 0.4, 0.0, 1.0]
    assert np.allclose(Calibration().corrected(promised), promised)


def test_estimates_that_promise_too_much_are_lowered() -> None:
    calibration = Calibration()
    for turn in range(600):
        calibration.observe([0.92], turn % 2)
    assert 0.45 < calibration.corrected([0.92])[0] < 0.55


def test_corrected_estimates_keep_their_order_between_bins() -> None:
    calibration = Calibration()
    for turn in range(900):
        calibration.observe([0.9, 0.5], 2 if turn % 3 else 0)
    corrected = calibration.corrected([0.925, 0.525, 0.225])
    assert (np.diff(corrected) <= 0.01).all()  # the budget takes the running minimum anyway
    assert (corrected <= 1.0).all()


def test_only_the_accepted_prefix_counts_as_survived() -> None:
    calibration = Calibration()
    for _ in range(300):
        calibration.observe([0.97, 0.62], 1)
    high, low = calibration.corrected([0.97, 0.62])
    assert high > 0.95
    assert low < 0.3
