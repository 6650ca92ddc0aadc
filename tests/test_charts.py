"""Charts are PNG files with every series in its colour."""

from pathlib import Path

import pytest

from pipeline.charts import line_chart

image_module = pytest.importorskip("PIL.Image")


def test_a_chart_shows_its_series(tmp_path: Path) -> None:
    file = tmp_path / "chart.png"
    series = {"plain": [(1.0, 30.0), (4.0, 90.0)], "DSpark": [(1.0, 150.0), (4.0, 200.0)]}
    line_chart(file, series, title="tokens/s", x_label="in flight", y_label="tokens/s")
    with image_module.open(file) as image:
        colours = {colour for _, colour in image.convert("RGB").getcolors(maxcolors=1 << 20)}
    assert {(0x1F, 0x5F, 0xA8), (0xC8, 0x50, 0x2D)} <= colours


def test_a_single_point_is_no_error(tmp_path: Path) -> None:
    line_chart(tmp_path / "one.png", {"a": [(16.0, 0.0)]}, title="", x_label="", y_label="")
    assert (tmp_path / "one.png").is_file()
