"""The kinds of charts that pages draw: lines, ranked values with intervals, heat maps and rings of connected names."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, log10

from markupsafe import Markup, escape

from assets.report.svg import LETTER, decades, drawing, element, number, path, shortened, text, ticks

_SLOTS = ("care", "avg", "mv", "uws", "care_svd", "care_tensor")
"""Names whose colour is the same in every chart; the others take the colours that are left."""

_COLOURS = 8
_LEVELS = 10
"""Shades of a heat map on each side of zero."""

_MOST_LABELLED_CELLS = 20
"""Columns up to which a heat map writes numbers into its cells."""

_MOST_ROOMY_ROWS = 40
"""Rows up to which a heat map leaves them room; more stand closer, so that the map fits on paper."""

_PAGE = 980.0
"""Width that a map with written cells fills at most, where its cells stay wide enough to be read."""


_SPARK, _SPARK_STEP = 110.0, 11.0
"""Widest line of a sparkline, and the widest step between two of its marks."""


@dataclass(frozen=True)
class Figure:
    """A drawing with a heading and a caption; the key is unique on its page."""

    key: str
    title: str
    caption: str
    body: Markup
    wide: bool = False


@dataclass(frozen=True)
class Series:
    """One line of a chart; ``low`` and ``high`` are the ends of the interval at each x, or empty."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Axes:
    """What a chart's axes say and span; an end that is None is the lowest or highest value.

    Of ``logarithmic`` axes, which are both, values that are not positive are left out; a ``stepped`` value holds until
    the next one. ``names`` are of x = 0, 1, ..., of which the first and the last are written in place of numbers; the
    ``diagonal`` is the line y = x, for comparison.
    """

    x: str
    y: str
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    logarithmic: bool = False
    stepped: bool = False
    names: Sequence[str] = ()
    diagonal: bool = False


@dataclass(frozen=True)
class Ranked:
    """One name of a ranked list, its value, and the ends of its interval where it has one."""

    name: str
    value: float
    lo: float | None = None
    hi: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Dot:
    """One place of a scatter plot, its shade from 0 (light) to 4 (dark), and what is said of it."""

    x: float
    y: float
    level: int
    ringed: bool
    says: str


class _Frame:
    """The box of a line chart: from values to pixels."""

    width, left, right, bottom = 500.0, 58.0, 14.0, 46.0

    def __init__(self, series: Sequence[Series], axes: Axes, top: float) -> None:
        self.top, self.axes = top, axes
        self.height = top + 250.0 + self.bottom
        xs = [x for s in series for x in s.x if self.drawable(x)]
        ys = [y for s in series for y in (*s.y, *s.low, *s.high) if self.drawable(y)]
        self.x_low, self.x_high = _span(xs, axes.x_range, logarithmic=axes.logarithmic)
        self.y_low, self.y_high = _span(ys, axes.y_range, logarithmic=axes.logarithmic)

    def drawable(self, value: float | None) -> bool:
        return value is not None and isfinite(value) and (value > 0 or not self.axes.logarithmic)

    def x(self, value: float) -> float:
        share = self._share(value, self.x_low, self.x_high)
        return self.left + share * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        share = self._share(value, self.y_low, self.y_high)
        return self.height - self.bottom - share * (self.height - self.bottom - self.top)

    def _share(self, value: float, low: float, high: float) -> float:
        if self.axes.logarithmic:
            value, low, high = log10(value), log10(low), log10(high)
        return (value - low) / (high - low)


def line_chart(key: str, title: str, caption: str, series: Sequence[Series], axes: Axes) -> Figure:
    """Lines over two axes, with a legend above; every line has a colour and a dash of its own."""
    styles = series_styles([s.name for s in series])
    legend, top = _legend([s.name for s in series], styles, _Frame.width)
    frame = _Frame(series, axes, top)
    shapes = [*legend, *_axes(frame, axes)]
    for each, style in zip(series, styles, strict=True):
        shapes += _line(frame, each, style, stepped=axes.stepped)
    description = f"{axes.y} against {axes.x} for {', '.join(s.name for s in series)}. {caption}"
    return Figure(key, title, caption, drawing(key, (frame.width, frame.height), title, description, shapes))


def scatter(
    key: str, title: str, caption: str, dots: Sequence[Dot], axes: Axes, legend: tuple[str, str, str]
) -> Figure:
    """Dots over two axes; ``legend`` says what the lightest shade, the darkest shade and a ring mean, or nothing."""
    series = [Series("", [dot.x for dot in dots], [dot.y for dot in dots])]
    frame = _Frame(series, axes, 30.0)
    light, dark, ring_says = legend
    shapes, x = _axes(frame, axes), 12.0
    for level, words in ((0, light), (4, dark)):
        if words:
            shapes += [element("circle", cx=x, cy=12.0, r=4.0, class_=f"shade d{level}"), text(x + 9, 16.0, words)]
            x += 34 + LETTER * len(words)
    shapes += [element("circle", cx=x, cy=12.0, r=6.5, class_="ringed"), text(x + 11, 16.0, ring_says)]
    for dot in dots:
        x, y = frame.x(dot.x), frame.y(dot.y)
        said = element("title", str(escape(dot.says)))
        shapes.append(element("circle", said, cx=x, cy=y, r=3.2, class_=f"shade d{dot.level}"))
        if dot.ringed:
            shapes.append(element("circle", cx=x, cy=y, r=7.0, class_="ringed"))
    description = f"{axes.y} against {axes.x} of {len(dots):,} items. {caption}"
    return Figure(key, title, caption, drawing(key, (frame.width, frame.height), title, description, shapes))


def series_styles(names: Sequence[str]) -> list[str]:
    """A class for each name: a colour, the same in every chart for the usual names, and a dash."""
    free = [k for k in range(_COLOURS) if k >= len(_SLOTS) or _SLOTS[k] not in names]
    others = [name for name in names if name not in _SLOTS]
    slots = {name: (free[k % len(free)], 1 + k // len(free)) for k, name in enumerate(others)}
    slots |= {name: (k, 0) for k, name in enumerate(_SLOTS)}
    return [f"s{slot + 1} dash{min(dash, 4)}" for slot, dash in map(slots.__getitem__, names)]


def _legend(names: Sequence[str], styles: Sequence[str], width: float) -> tuple[list[str], float]:
    """The legend's shapes, and the y below it."""
    shapes: list[str] = []
    x, y = 8.0, 14.0
    for name, style in zip(names, styles, strict=True):
        label = shortened(name, 40)
        needed = 36 + LETTER * len(label)
        if x + needed > width and x > 8:
            x, y = 8.0, y + 18
        shapes.append(element("path", d=path([(x, y - 4), (x + 22, y - 4)]), class_=f"line {style}"))
        shapes.append(text(x + 27, y, label))
        x += needed + 8
    return shapes, y + 14


def _axes(frame: _Frame, axes: Axes) -> list[str]:
    """Grid lines, tick labels and the names of the axes."""
    spread = decades if axes.logarithmic else ticks
    bottom, right = frame.height - frame.bottom, frame.width - frame.right
    shapes: list[str] = []
    for tick in spread(frame.y_low, frame.y_high):
        y = frame.y(tick)
        shapes.append(element("path", d=path([(frame.left, y), (right, y)]), class_="grid"))
        shapes.append(text(frame.left - 6, y + 4, number(tick), "t soft", "end"))
    if axes.names:
        shapes.append(text(frame.left, bottom + 17, axes.names[0], "t soft"))
        shapes.append(text(right, bottom + 17, axes.names[-1], "t soft", "end"))
    else:
        for tick in spread(frame.x_low, frame.x_high):
            shapes.append(text(frame.x(tick), bottom + 17, number(tick), "t soft", "middle"))
    shapes.append(element("path", d=path([(frame.left, bottom), (right, bottom)]), class_="axis"))
    shapes.append(text((frame.left + right) / 2, frame.height - 8, axes.x, "t soft", "middle"))
    middle = (frame.top + bottom) / 2
    turned = element(
        "text",
        str(escape(axes.y)),
        x=14.0,
        y=middle,
        class_="t soft",
        text_anchor="middle",
        transform=f"rotate(-90 14 {middle:.1f})",
    )
    if axes.diagonal:
        low, high = max(frame.x_low, frame.y_low), min(frame.x_high, frame.y_high)
        shapes.append(element("path", d=path((frame.x(v), frame.y(v)) for v in (low, high)), class_="diagonal"))
    return [*shapes, turned]


def _line(frame: _Frame, series: Series, style: str, *, stepped: bool) -> list[str]:
    places = [
        (frame.x(x), frame.y(y))
        for x, y in zip(series.x, series.y, strict=True)
        if frame.drawable(x) and frame.drawable(y)
    ]
    if not places:
        return []
    line = places
    if stepped:
        pairs = pairwise(places)
        line = [places[0], *(p for (_, y), (x2, y2) in pairs for p in ((x2, y), (x2, y2)))]
    shapes = [element("path", d=path(line), class_=f"line {style}")]
    for x, low, high in zip(series.x, series.low, series.high, strict=False):
        if frame.drawable(x) and frame.drawable(low) and frame.drawable(high):
            ends = [(frame.x(x), frame.y(low)), (frame.x(x), frame.y(high))]
            shapes.append(element("path", d=path(ends), class_=f"whisker {style}"))
    if len(places) <= 60:
        shapes += [element("circle", cx=x, cy=y, r=2.5, class_=f"dot {style}") for x, y in places]
    return shapes


def _span(values: Sequence[float], asked: tuple[float, float] | None, *, logarithmic: bool) -> tuple[float, float]:
    """The ends of an axis: those asked for, or the values' with some room."""
    if asked is not None:
        return asked
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    if logarithmic:
        return (low, high) if high > low else (low / 2, low * 2)
    room = 0.04 * (high - low) if high > low else max(abs(low), 1.0) / 2
    return low - room, high + room


def ranked_list(rows: Sequence[Ranked], says: str, ends: tuple[float, float] | None = None) -> Markup:
    """Names in their order, each with a drawing of its value and interval on one common scale.

    Parameters
    ----------
    says : str
        What a value is, for readers of screens.
    ends : (low, high), optional
        Of the scale; those of the rows by default.
    """
    low, high = ends or domain(rows)
    items = "".join(
        f'<li><span class="name">{escape(row.name)}'
        + (f' <span class="soft">{escape(row.note)}</span>' if row.note else "")
        + f'</span>{interval(row, low, high, says)}<span class="value">{_said(row)}</span></li>'
        for row in rows
    )
    return Markup(f'<ol class="ranks">{items}</ol>')


def sparkline(says: str, values: Sequence[float | None], filled: Sequence[bool]) -> Markup:
    """A mark for each value from left to right, its height between the lowest and the highest of them.

    Parameters
    ----------
    says : str
        What the marks are, for readers of screens.
    values : sequence of float or None
        One that is None stands half way up, and no line leads to it.
    filled : sequence of bool
        Marks that are not are hollow.
    """
    known = [value for value in values if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    step = min(_SPARK_STEP, _SPARK / max(len(values) - 1, 1))
    heights = [14.0 if v is None or high == low else 23.0 - 18.0 * (v - low) / (high - low) for v in values]
    places = [(5.0 + step * k, y) for k, y in enumerate(heights)]
    pairs = [(a, b) for (a, v), (b, w) in pairwise(zip(places, values, strict=True)) if None not in (v, w)]
    shapes = [element("title", str(escape(says)))]
    shapes += [element("path", d=path(pair), class_="line s2") for pair in pairs]
    shapes += [
        element("circle", cx=x, cy=y, r=3.0, class_="dot s1" if full else "dot hollow s1")
        for (x, y), full in zip(places, filled, strict=True)
    ]
    return Markup(element("svg", "".join(shapes), class_="spark", width=_SPARK + 10, height=28.0, role="img"))


def domain(rows: Sequence[Ranked]) -> tuple[float, float]:
    """The ends of the scale that the rows share; zero is on it where values are on both sides of it, or near it."""
    values = [v for row in rows for v in (row.value, row.lo, row.hi) if v is not None and isfinite(v)]
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    if 0 < low < high - low:
        low = 0.0
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def interval(row: Ranked, low: float, high: float, says: str) -> Markup:
    """One value with its interval between two ends, as wide as its place on the page."""

    def at(value: float) -> str:
        return f"{2 + 96 * min(max((value - low) / (high - low), 0.0), 1.0):.2f}%"

    words = f"{row.name}: {says} {row.value:.3f}"
    shapes = [element("line", x1="2%", x2="98%", y1=8.0, y2=8.0, class_="track")]
    if low < 0 < high:
        shapes.append(element("line", x1=at(0), x2=at(0), y1=1.0, y2=15.0, class_="zero"))
    if row.lo is not None and row.hi is not None:
        words += f", interval {row.lo:.3f} to {row.hi:.3f}"
        shapes.append(element("line", x1=at(row.lo), x2=at(row.hi), y1=8.0, y2=8.0, class_="range s1"))
    shapes.append(element("circle", cx=at(row.value), cy=8.0, r=4.5, class_="dot s1"))
    named = element("title", str(escape(words)))
    drawn = element("svg", named + "".join(shapes), class_="interval", height=16.0, role="img")
    return Markup(drawn)


def _said(row: Ranked) -> str:
    ends = "" if row.lo is None or row.hi is None else f' <span class="soft range">{row.lo:.3f} … {row.hi:.3f}</span>'
    return f"{row.value:.3f}{ends}"


def heat_map(
    key: str,
    title: str,
    caption: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    marks: Sequence[Sequence[str]] = (),
    triangle: bool = False,
) -> Figure:
    """Values between -1 and 1 in cells; blue is positive, orange negative, and the stronger the further from zero.

    Parameters
    ----------
    columns : sequence of str
        Short ones are best: they are written upright.
    marks : (rows, columns) nested sequences of str, optional
        What is written in the cells of a small map; the values by default.
    triangle : bool
        Whether the cells above the diagonal are left out, for a symmetric map.
    """
    labelled = len(columns) <= _MOST_LABELLED_CELLS
    longest = max((len(column) for column in columns), default=1)
    names = [shortened(row, 34) for row in rows]
    left, top = 10 + LETTER * max((len(name) for name in names), default=1), 22.0
    room = (_PAGE - left) / max(len(columns), 1)
    width = max(44.0, min(LETTER * longest + 12, 170.0, room)) if labelled else 12.0
    roomy = labelled and len(rows) <= _MOST_ROOMY_ROWS
    height = 24.0 if roomy else 13.0
    size = "t" if roomy else "t small"
    cells = [(i, j, v) for i, row in enumerate(values) for j, v in enumerate(row) if j <= i or not triangle]
    shapes = _cells(cells, (left, top), (width, height))
    shapes += [text(left - 6, top + (i + 0.72) * height, name, size, "end") for i, name in enumerate(names)]
    for j, column in enumerate(columns):
        if labelled or j % 5 == 0:
            label = shortened(column, max(int(width / LETTER), 4))
            shapes.append(text(left + (j + 0.5) * width, top - 7, label, f"{size} soft", "middle"))
    if labelled:
        for i, j, value in cells:
            mark = marks[i][j] if marks else "–" if value is None or not isfinite(value) else f"{value:+z.2f}"
            shapes.append(text(left + (j + 0.5) * width, top + (i + 0.7) * height, mark, size, "middle"))
    full = (left + len(columns) * width + 8, top + len(rows) * height + 8)
    description = f"{len(rows)} rows by {len(columns)} columns. {caption}"
    return Figure(key, title, caption, drawing(key, full, title, description, shapes), wide=True)


def _cells(
    cells: Sequence[tuple[int, int, float | None]], origin: tuple[float, float], cell: tuple[float, float]
) -> list[str]:
    """One path of thick strokes for each shade: a map of a hundred judges has ten thousand cells."""
    (left, top), (width, height) = origin, cell
    drawn: dict[str, list[str]] = defaultdict(list)
    for i, j, value in cells:
        if value is None or not isfinite(value):
            continue
        level = round(min(abs(value), 1.0) * _LEVELS)
        shade = f"{'positive' if value >= 0 else 'negative'} level{level}"
        x, y = left + j * width, top + i * height
        drawn[shade].append(f"M{x:.0f} {y + height / 2:.0f}h{width - 1:.0f}")
    return [
        element("path", d="".join(strokes), class_=f"cell {shade}", stroke_width=height - 1)
        for shade, strokes in sorted(drawn.items())
    ]
