"""Charts as SVG: lines, bars, and stacks of bars over one pair of axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from poise.bench.html.scale import Scale, short

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 30, 14, 44

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """A line through (x, y); where y is None it is broken."""

    name: str
    points: Sequence[tuple[float, float | None]]
    colour: int = 0
    spans: Sequence[tuple[float, float, float]] = ()
    """(x, low, high): intervals, drawn as bars."""
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis says: its title, its range, and how its ticks are written."""

    title: str
    low: float
    high: float
    log: bool = False
    ticks: Sequence[float] | None = None
    write: Callable[[float], str] = short


@dataclass
class Chart:
    """One chart; `draw` gives the SVG."""

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    bars: Sequence[tuple[float, float, str]] = ()
    """(x, y, what it says on pointing at it)."""
    marks: Sequence[Pair] = field(default_factory=list)
    """Limits: (y, colour number) drawn across."""

    def __post_init__(self) -> None:
        self._across = Scale(self.x.low, self.x.high, LEFT, WIDTH - RIGHT, self.x.log)
        self._up = Scale(self.y.low, self.y.high, HEIGHT - BOTTOM, TOP, self.y.log)

    def draw(self) -> str:
        """An SVG element that scales with the page."""
        parts = [*self._grid(), *self._bars(), *(part for line in self.lines for part in self._line(line))]
        for limit, colour in self.marks:
            y = self._up.place(limit)
            parts.append(f'<path class="limit c{colour:.0f}" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>')
        label = escape(self.title, quote=True)
        body = "".join(parts)
        return f'<svg role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {HEIGHT}"><title>{label}</title>{body}</svg>'

    def _grid(self) -> Iterator[str]:
        for value in self.y.ticks if self.y.ticks is not None else self._up.ticks():
            y = self._up.place(value)
            yield f'<path class="grid" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>'
            yield f'<text class="tick end" x="{LEFT - 8}" y="{y + 4}">{escape(self.y.write(value))}</text>'
        for value in self.x.ticks if self.x.ticks is not None else self._across.ticks():
            x = self._across.place(value)
            yield f'<path class="grid" d="M{x} {TOP}V{HEIGHT - BOTTOM}"/>'
            yield f'<text class="tick middle" x="{x}" y="{HEIGHT - BOTTOM + 18}">{escape(self.x.write(value))}</text>'
        middle = (LEFT + WIDTH - RIGHT) / 2
        yield f'<text class="axis middle" x="{middle}" y="{HEIGHT - 6}">{escape(self.x.title)}</text>'
        place = f'transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"'
        yield f'<text class="axis middle" {place}>{escape(self.y.title)}</text>'

    def _line(self, line: Line) -> Iterator[str]:
        path, pen = list[str](), "M"
        for x, y in line.points:
            if y is None:
                pen = "M"
                continue
            path.append(f"{pen}{self._across.place(x)} {self._up.place(y)}")
            pen = "L"
        yield f'<path class="line c{line.colour}" d="{"".join(path)}"><title>{escape(line.name)}</title></path>'
        for x, low, high in line.spans:
            across = self._across.place(x)
            yield f'<path class="span c{line.colour}" d="M{across} {self._up.place(low)}V{self._up.place(high)}"/>'
        if line.dots:
            for x, y in line.points:
                if y is not None:
                    hint = f"{line.name}: {self.x.write(x)}, {self.y.write(y)}"
                    place = f'cx="{self._across.place(x)}" cy="{self._up.place(y)}"'
                    yield f'<circle class="dot c{line.colour}" {place} r="3.5"><title>{escape(hint)}</title></circle>'

    def _bars(self) -> Iterator[str]:
        width = max((WIDTH - LEFT - RIGHT) / max(len(self.bars), 1) * 0.7, 1.5)
        width = min(width, 40)
        for x, y, hint in self.bars:
            top, floor = self._up.place(y), self._up.place(self.y.low)
            left = max(self._across.place(x) - width / 2, LEFT)
            size = f'width="{width:.2f}" height="{max(floor - top, 0.5):.2f}"'
            yield f'<rect class="bar c0" x="{left:.2f}" y="{top}" {size}><title>{escape(hint)}</title></rect>'


def legend(names: Sequence[tuple[str, int]]) -> str:
    """What the colours mean."""
    items = "".join(f'<li><span class="key c{colour}"></span>{escape(name)}</li>' for name, colour in names)
    return f'<ul class="legend">{items}</ul>'
