"""Lines over an axis as a drawing (SVG) that needs no script, for documents and result folders.

The same data give the same bytes: coordinates are rounded to a tenth of a pixel. Text is filled in by Jinja2 with
autoescape; a name can never become markup. The report's interactive charts are in `figures`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, StrictUndefined

from railwright.report.topology_view import NEUTRAL, RAIL_COLOURS

WIDTH, HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 20, 44, 52
_LEGEND_ROW = 18
_LEGEND_GAP = 10
_TICKS = 6

_TEMPLATE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{ width }} {{ height }}" width="{{ width }}"\
 height="{{ height }}" font-family="sans-serif" font-size="12" role="img" aria-label="{{ title }}">
<rect width="{{ width }}" height="{{ height }}" fill="#ffffff"/>
<text x="{{ left }}" y="24" font-size="15" font-weight="bold">{{ title }}</text>
{% for at, text in xs -%}
<line x1="{{ at }}" y1="{{ top }}" x2="{{ at }}" y2="{{ bottom }}" stroke="#e5e7eb"/>
<text x="{{ at }}" y="{{ bottom + 18 }}" text-anchor="middle">{{ text }}</text>
{% endfor -%}
{% for at, text in ys -%}
<line x1="{{ left }}" y1="{{ at }}" x2="{{ right }}" y2="{{ at }}" stroke="#e5e7eb"/>
<text x="{{ left - 8 }}" y="{{ at + 4 }}" text-anchor="end">{{ text }}</text>
{% endfor -%}
<rect x="{{ left }}" y="{{ top }}" width="{{ right - left }}" height="{{ bottom - top }}" fill="none" stroke="{{ neutral }}"/>
<text x="{{ (left + right) / 2 }}" y="{{ bottom + 40 }}" text-anchor="middle">{{ x_label }}</text>
<text transform="translate(18 {{ (top + bottom) / 2 }}) rotate(-90)" text-anchor="middle">{{ y_label }}</text>
{% for line in drawn -%}
<polyline points="{{ line.points }}" fill="none" stroke="{{ line.colour }}" stroke-width="1.6"\
{% if line.dashed %} stroke-dasharray="6 4"{% endif %}/>
{% for x, y in line.marks -%}
<circle cx="{{ x }}" cy="{{ y }}" r="3.5" fill="{{ line.colour }}"/>
{% endfor -%}
<line x1="{{ line.key_x }}" y1="{{ line.key_y }}" x2="{{ line.key_x + 24 }}" y2="{{ line.key_y }}"\
 stroke="{{ line.colour }}" stroke-width="3"{% if line.dashed %} stroke-dasharray="6 4"{% endif %}/>
<text x="{{ line.key_x + 30 }}" y="{{ line.key_y + 4 }}">{{ line.name }}</text>
{% endfor -%}
</svg>
"""


@dataclass(frozen=True)
class Line:
    """A named line through (x, y); ``marked`` puts a dot on every point, ``dashed`` is for what theory says."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False
    marked: bool = False


def line_chart(
    lines: Sequence[Line], *, title: str, x_label: str, y_label: str, log_x: bool = False, log_y: bool = False
) -> str:
    """Return the drawing; labels say the units. Axes start at 0 unless logarithmic (then all values must be above 0)."""
    keys_per_row = 2
    rows = math.ceil(len(lines) / keys_per_row)
    height = HEIGHT + _LEGEND_GAP + rows * _LEGEND_ROW
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    across = _Axis([value for line in lines for value in line.x], _LEFT, right, log=log_x)
    up = _Axis([value for line in lines for value in line.y], bottom, _TOP, log=log_y)
    drawn = []
    for number, line in enumerate(lines):
        spots = [(across.at(x), up.at(y)) for x, y in zip(line.x, line.y, strict=True)]
        row, column = divmod(number, keys_per_row)
        drawn.append(
            {
                "name": line.name,
                "points": " ".join(f"{x:g},{y:g}" for x, y in spots),
                "colour": RAIL_COLOURS[number % len(RAIL_COLOURS)],
                "dashed": line.dashed,
                "marks": spots if line.marked else [],
                "key_x": _LEFT + column * (right - _LEFT) // keys_per_row,
                "key_y": HEIGHT + _LEGEND_GAP + row * _LEGEND_ROW,
            }
        )
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(_TEMPLATE)
    return template.render(
        width=WIDTH,
        height=height,
        left=_LEFT,
        right=right,
        top=_TOP,
        bottom=bottom,
        neutral=NEUTRAL,
        title=title,
        x_label=x_label,
        y_label=y_label,
        xs=across.ticks(),
        ys=up.ticks(),
        drawn=drawn,
    )


class _Axis:
    """From values to pixels between ``first`` and ``last``."""

    def __init__(self, values: Sequence[float], first: float, last: float, *, log: bool) -> None:
        self.first, self.last, self.log = first, last, log
        most = max(values, default=1.0) or 1.0
        if log:
            self.low, self.high = math.log10(min(values)), math.log10(most)
            if self.high - self.low < 1e-9:
                self.high += 1.0
        else:
            self.step = _nice(most / _TICKS)
            self.low, self.high = 0.0, self.step * math.ceil(most / self.step - 1e-9)

    def at(self, value: float) -> float:
        place = math.log10(value) if self.log else value
        return round(self.first + (self.last - self.first) * (place - self.low) / (self.high - self.low), 1)

    def ticks(self) -> list[tuple[float, str]]:
        if self.log:
            decades = range(math.floor(self.low), math.ceil(self.high) + 1)
            steps = (1, 2, 5) if self.high - self.low < 3 else (1,)
            values = [step * 10.0**decade for decade in decades for step in steps]
            values = [value for value in values if self.low - 1e-9 <= math.log10(value) <= self.high + 1e-9]
        else:
            values = [self.step * number for number in range(round(self.high / self.step) + 1)]
        return [(self.at(value), f"{value:,.10g}") for value in values]


def _nice(step: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is not below ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))
