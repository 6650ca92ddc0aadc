"""Charts as inline SVG that follow the page's light or dark colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from pipeline.calibration import Calibration

_WIDTH, _HEIGHT = 460, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 10, 28


def short_number(value: float) -> str:
    """``1234`` as 1,234, ``1234567`` as 1.23 M, ``0.4`` as 0.4."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e5, " k")):
        if abs(value) >= limit:
            return f"{value / (limit if unit != ' k' else 1e3):.3g}{unit}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value != int(value) else str(int(value))


def bars(rows: Sequence[tuple[str, float, str]], *, total: Sequence[float] | None = None, largest: float = 0.0) -> str:
    """Horizontal bars of (name, value, label). ``total`` draws a pale bar behind each; ``largest`` widens the scale."""
    if not rows:
        return '<p class="soft">none</p>'
    largest = max([largest, *(value for _, value, _ in rows), *(total or ())]) or 1.0
    name_width = min(190.0, 12 + max(_text_width(name) for name, _, _ in rows))
    label_width = 14 + max(_text_width(label) for _, _, label in rows)
    room = _WIDTH - name_width - label_width
    parts = []
    for index, (name, value, label) in enumerate(rows):
        y = index * 26
        width = max(1.0, room * value / largest) if value else 0.0
        behind = room * total[index] / largest if total else 0.0
        parts.append(f'<text class="ink" x="0" y="{y + 15}">{escape(_clip(name, 24))}</text>')
        if behind:
            parts.append(f'<rect class="bar2" x="{name_width}" y="{y + 4}" width="{behind:.1f}" height="15" rx="2"/>')
        parts.append(f'<rect class="bar" x="{name_width}" y="{y + 4}" width="{width:.1f}" height="15" rx="2"/>')
        parts.append(f'<text x="{name_width + max(width, behind) + 6:.1f}" y="{y + 16}">{escape(label)}</text>')
    return _svg(parts, height=len(rows) * 26)


def line(points: Sequence[tuple[float, float]], *, unit: str) -> str:
    """A curve over x from 0, with the area below it."""
    if len(points) < 2:
        return '<p class="soft">too short to draw</p>'
    x_top, y_top = max(x for x, _ in points) or 1.0, _nice(max(y for _, y in points))
    places = [(_x(x / x_top), _y(y / y_top)) for x, y in points]
    curve = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    area = f"{places[0][0]:.1f},{_y(0):.1f} {curve} {places[-1][0]:.1f},{_y(0):.1f}"
    parts = _frame(x_top, y_top, unit)
    parts += [f'<polygon class="area" points="{area}"/>', f'<polyline class="curve" points="{curve}"/>']
    return _svg(parts)


def histogram(values: Sequence[float], *, unit: str, num_bins: int = 24) -> str:
    """Distribution of positive values from 0 to the 99th percentile; what is beyond counts in the last bin."""
    if not values:
        return '<p class="soft">none</p>'
    ordered = sorted(values)
    top = _nice(ordered[min(len(ordered) - 1, math.ceil(0.99 * len(ordered)))] or 1.0)
    counts = [0] * num_bins
    for value in ordered:
        counts[min(num_bins - 1, int(value / top * num_bins))] += 1
    y_top = _nice(max(counts))
    width = (_WIDTH - _LEFT - _RIGHT) / num_bins
    parts = _frame(top, y_top, unit)
    for index, count in enumerate(counts):
        if count:
            y = _y(count / y_top)
            parts.append(
                f'<rect class="bar" x="{_LEFT + index * width + 0.5:.1f}" y="{y:.1f}" width="{width - 1:.1f}" '
                f'height="{_y(0) - y:.1f}"><title>{count}</title></rect>'
            )
    return _svg(parts)


def reliability(calibration: Calibration) -> str:
    """Share of right values against confidence; the dashed line is perfect calibration, dots grow with their count."""
    parts = _frame(1.0, 1.0, "confidence")
    parts.append(f'<line class="ideal" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"/>')
    places = [(_x(b.mean_confidence), _y(b.accuracy), b.count) for b in calibration.bins]
    parts.append(f'<polyline class="curve" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)}"/>')
    for x, y, count in places:
        radius = 3 + 7 * math.sqrt(count / max(1, calibration.num_values))
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"><title>{count}</title></circle>')
    return _svg(parts)


def _frame(x_top: float, y_top: float, x_unit: str) -> list[str]:
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = _y(share)
        parts.append(f'<line class="grid-line" x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{short_number(y_top * share)}</text>')
    for share in (0.0, 0.5, 1.0):
        anchor = ("start", "middle", "end")[int(share * 2)]
        label = short_number(x_top * share) + (f" {x_unit}" if share == 1.0 else "")
        parts.append(f'<text x="{_x(share)}" y="{_HEIGHT - 8}" text-anchor="{anchor}">{escape(label)}</text>')
    return parts


def _svg(parts: Sequence[str], *, height: int = _HEIGHT) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def _x(share: float) -> float:
    return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)


def _y(share: float) -> float:
    return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM), 1)


def _nice(value: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 2.5, 5, 10) if power * step >= value * 0.999999)


def _text_width(text: str) -> float:
    """About how wide a text is set, in units of the drawing."""
    return sum(12.5 if c >= "\u2e80" else 8.6 if c.isupper() or c in "_m" else 6.9 for c in text[:24])


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
