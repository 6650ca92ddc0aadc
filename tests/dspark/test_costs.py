"""The cost table: monotone, robust against outliers, usable before anything is measured."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dspark.costs import CostTable, fit_bend, isotonic

measured = st.lists(st.tuples(st.integers(1, 5000), st.floats(0.1, 1e4)), max_size=60)


@given(measured)
def test_predicted_times_never_fall_with_more_tokens(steps: list[tuple[int, float]]) -> None:
    predicted = CostTable(steps).step_ms(np.arange(1, 6000, 7))
    assert (np.diff(predicted) >= -1e-9).all()
    assert (predicted > 0).all()


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_isotonic_keeps_the_weighted_mean_and_sorts(values: list[float]) -> None:
    fitted = isotonic(np.array(values), np.ones(len(values)))
    assert (np.diff(fitted) >= -1e-6).all()
    assert fitted.mean() == pytest.approx(np.mean(values), abs=1e-3)


def test_sorted_values_are_left_as_they_are() -> None:
    assert isotonic(np.array([1.0, 2.0, 5.0]), np.ones(3)).tolist() == [1.0, 2.0, 5.0]


def test_one_slow_step_does_not_move_a_size() -> None:
    table = CostTable([(8, 10.0)] * 9 + [(8, 500.0)] + [(16, 20.0)] * 5)
    assert table.step_ms([8])[0] == pytest.approx(10.0)


def test_beyond_the_largest_size_the_slope_goes_on() -> None:
    table = CostTable([(10, 10.0), (20, 20.0)])
    assert table.step_ms([30])[0] == pytest.approx(30.0)


def test_between_sizes_times_lie_on_the_line() -> None:
    assert CostTable([(10, 10.0), (20, 20.0)]).step_ms([15])[0] == pytest.approx(15.0)


@pytest.mark.parametrize("knee", [1, 40, 170])
def test_noise_of_single_sizes_does_not_bend_the_line(knee: int) -> None:
    def true(size: float) -> float:
        return 28.0 + 1.8 * max(0.0, size - knee)

    noise = np.random.default_rng(knee)
    sizes = [1, 2, 4, 8, 12, 16, 24, 32, 46, 68, 100, 136, 200, 272, 400]
    table = CostTable([(n, t) for n in sizes for t in [true(n) * noise.normal(1.0, 0.03)] * 12])
    # What the budget decides by is what one more token costs: nowhere less than before.
    growth = np.diff(table.step_ms(np.arange(1, 500)))
    assert (np.diff(growth) >= -1e-9).all()
    assert growth[-1] == pytest.approx(1.8, rel=0.15)
    assert table.step_ms([100])[0] == pytest.approx(true(100), rel=0.05)


def test_a_bend_is_found_exactly_where_there_is_no_noise() -> None:
    sizes = np.array([1.0, 8.0, 64.0, 128.0, 256.0])
    bend = fit_bend(sizes, 10.0 + 0.5 * np.maximum(sizes - 64.0, 0.0), np.ones(5))
    assert bend == pytest.approx((10.0, 0.0, 0.5, 64.0), abs=1e-4)


def test_unmeasured_tables_expect_a_bounded_cost_of_tokens() -> None:
    one, knee = CostTable().step_ms([0, 64])
    assert knee == pytest.approx(2 * one)


def test_new_times_replace_old_ones() -> None:
    table = CostTable([(4, 100.0)] * 50)
    for _ in range(24):
        table.observe(4, 10.0)
    assert table.step_ms([4])[0] == pytest.approx(10.0)


def test_steps_without_tokens_or_time_are_not_counted() -> None:
    table = CostTable([(0, 5.0), (3, 0.0)])
    assert table.num_sizes == 0
