"""Line charts as PNG, drawn with Pillow (which vLLM brings)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

Series = Mapping[str, Sequence[tuple[float, float]]]
"""Name to points (x, y), ascending in x."""

_WIDTH, _HEIGHT = 960, 600
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 230, 60, 70
_COLOURS = ("#1f5fa8", "#c8502d", "#3c8a3c", "#7a4fa3", "#8a6d1f", "#4a4a4a")


def line_chart(path: Path, series: Series, *, title: str, x_label: str, y_label: str) -> None:
    """Write one chart; x positions are evenly spaced values (``1 4 16``), y starts at zero."""
    from PIL import Image, ImageDraw, ImageFont

    xs = sorted({x for points in series.values() for x, _ in points})
    top = max((y for points in series.values() for _, y in points), default=1.0) * 1.1 or 1.0
    image = Image.new("RGB", (_WIDTH, _HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    font, large = ImageFont.load_default(15), ImageFont.load_default(20)
    plot_width, plot_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        position = xs.index(x) / max(len(xs) - 1, 1)
        return _LEFT + position * plot_width, _TOP + plot_height * (1.0 - y / top)

    draw.text((_LEFT, 18), title, fill="black", font=large)
    draw.text((_LEFT + plot_width / 2, _HEIGHT - 28), x_label, fill="black", font=font, anchor="mm")
    draw.text((12, _TOP - 24), y_label, fill="black", font=font)
    for step in range(6):
        y = top * step / 5
        height = _TOP + plot_height * (1.0 - step / 5)
        draw.line((_LEFT, height, _LEFT + plot_width, height), fill="#dddddd")
        draw.text((_LEFT - 8, height), f"{y:.3g}", fill="black", font=font, anchor="rm")
    for x in xs:
        draw.text((place(x, 0)[0], _TOP + plot_height + 16), f"{x:g}", fill="black", font=font, anchor="mm")
    for index, (name, points) in enumerate(series.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        places = [place(x, y) for x, y in points]
        draw.line(places, fill=colour, width=3)
        for left, height in places:
            draw.ellipse((left - 4, height - 4, left + 4, height + 4), fill=colour)
        draw.text((_LEFT + plot_width + 16, _TOP + 24 * index), name, fill=colour, font=font)
    image.save(path, format="PNG")
