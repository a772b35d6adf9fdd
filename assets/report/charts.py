"""Charts as inline SVG and HTML tables; ``templates/base.html`` defines the colours."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from markupsafe import Markup, escape

_LETTER = 6.7
"""Average width of a letter in 12 pixel type, in pixels."""

_MOST_MARKS, _MOST_LETTERS = 60, 40
"""Maximum number of points of a line that shows a mark at each point, and of letters of a name in the legend."""

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM = 500.0, 250.0, 58.0, 14.0, 46.0

Ends = tuple[float, float]
_Map = Callable[[float], float]


@dataclass(frozen=True)
class Figure:
    """Chart or table with a heading, a caption, and a key that is unique on its page."""

    key: str
    title: str
    caption: str
    body: Markup
    wide: bool = False


@dataclass(frozen=True)
class Series:
    """Line of a chart; ``low`` and ``high`` are the ends of an interval at each x, if there are intervals."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Ranked:
    """Entry of a ranked list: a name, a value, and the ends of an interval if there is one."""

    name: str
    value: float
    lo: float | None = None
    hi: float | None = None
    note: str = ""


def line_chart(key: str, title: str, caption: str, series: Sequence[Series], x_label: str, y_label: str) -> Figure:
    """Render a line chart with a legend; each line has its own colour and dash."""
    styles = [f"s{k % 8 + 1} dash{min(k // 8, 4)}" for k in range(len(series))]
    shapes, left, top = list[str](), 8.0, 14.0
    for each, style in zip(series, styles, strict=True):
        name = each.name if len(each.name) <= _MOST_LETTERS else each.name[: _MOST_LETTERS - 1] + "…"
        needed = 44 + _LETTER * len(name)
        if left + needed > _WIDTH and left > 8:
            left, top = 8.0, top + 18
        shapes.append(_element("path", d=_path([(left, top - 4), (left + 22, top - 4)]), class_=f"line {style}"))
        shapes.append(_text(left + 27, top, name))
        left += needed
    x, y, frame = _axes(series, x_label, y_label, top + 14)
    shapes += frame
    for each, style in zip(series, styles, strict=True):
        marks = [(x(a), y(b)) for a, b in zip(each.x, each.y, strict=True) if isfinite(b)]
        shapes += [_element("path", d=_path(marks), class_=f"line {style}")] if marks else []
        for a, low, high in zip(each.x, each.low, each.high, strict=False):
            if isfinite(low + high):
                shapes.append(_element("path", d=_path([(x(a), y(low)), (x(a), y(high))]), class_=f"whisker {style}"))
        if len(marks) <= _MOST_MARKS:
            shapes += [_element("circle", cx=a, cy=b, r=2.5, class_=f"dot {style}") for a, b in marks]
    size, ids = (_WIDTH, top + 14 + _HEIGHT + _BOTTOM), f"{key}-title {key}-description"
    box = {"viewBox": f"0 0 {_number(size[0])} {_number(size[1])}", "width": size[0], "height": size[1]}
    about = f"{y_label} against {x_label} for {', '.join(each.name for each in series)}. {caption}"
    named = _element("title", str(escape(title)), id=f"{key}-title")
    named += _element("desc", str(escape(about)), id=f"{key}-description")
    drawn = _element("svg", named + "".join(shapes), class_="drawing", **box, role="img", aria_labelledby=ids)
    return Figure(key, title, caption, Markup(drawn))


def heat_map(
    key: str,
    title: str,
    caption: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    triangle: bool = False,
) -> Figure:
    """Render values between -1 and 1 as a coloured table: blue if positive, orange if negative.

    With ``triangle``, the cells above the diagonal are left out.
    """
    cell, head = Markup('<td class="{}" style="--share:{:.0f}%">{}</td>').format, Markup("<th>{}</th>").format
    lines = [Markup("<td></td>") + Markup("").join(map(head, columns))]
    for i, (name, row) in enumerate(zip(rows, values, strict=True)):
        cells = [head(name)]
        for value in row[: i + 1] if triangle else row:
            known = value is not None and isfinite(value)
            number = value if value is not None and known else 0.0
            mark = f"{number:+z.2f}" if known else "–"
            cells.append(cell("positive" if number >= 0 else "negative", 65 * min(abs(number), 1.0), mark))
        lines.append(Markup("").join(cells))
    body = Markup('<table class="heat">{}</table>').format(Markup("").join(map(Markup("<tr>{}</tr>").format, lines)))
    return Figure(key, title, caption, body, wide=True)


def ranked_list(rows: Sequence[Ranked], meaning: str, ends: Ends | None = None) -> Markup:
    """Render a list of names with values and intervals in the order of ``rows``; ``meaning`` describes the values."""
    low, high = ends or domain(rows)
    soft = Markup(' <span class="soft {}">{}</span>').format
    drawn: list[Markup] = []
    for row in rows:
        note = soft("", row.note) if row.note else ""
        ends_of_row = "" if row.lo is None or row.hi is None else soft("range", f"{row.lo:.3f} … {row.hi:.3f}")
        line = Markup('<li><span class="name">{}{}</span>{}<span class="value">{:.3f}{}</span></li>')
        drawn.append(line.format(row.name, note, interval(row, low, high, meaning), row.value, ends_of_row))
    return Markup('<ol class="ranks">{}</ol>').format(Markup("").join(drawn))


def domain(rows: Sequence[Ranked]) -> Ends:
    """Return the ends of an axis that covers all values and intervals; a low end just above zero becomes zero."""
    values = [v for row in rows for v in (row.value, row.lo, row.hi) if v is not None and isfinite(v)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if 0 < low < high - low:
        low = 0.0
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def interval(row: Ranked, low: float, high: float, meaning: str) -> Markup:
    """Render a value and its interval on a line from ``low`` to ``high``, as SVG."""

    def at(value: float) -> str:
        return f"{2 + 96 * min(max((value - low) / (high - low), 0.0), 1.0):.2f}%"

    about = f"{row.name}: {meaning} {row.value:.3f}"
    shapes = [_element("line", x1="2%", x2="98%", y1=8.0, y2=8.0, class_="track")]
    if low < 0 < high:
        shapes.append(_element("line", x1=at(0), x2=at(0), y1=1.0, y2=15.0, class_="zero"))
    if row.lo is not None and row.hi is not None:
        about += f", interval {row.lo:.3f} to {row.hi:.3f}"
        shapes.append(_element("line", x1=at(row.lo), x2=at(row.hi), y1=8.0, y2=8.0, class_="range s1"))
    shapes.append(_element("circle", cx=at(row.value), cy=8.0, r=4.5, class_="dot s1"))
    named = _element("title", str(escape(about)))
    return Markup(_element("svg", named + "".join(shapes), class_="interval", height=16.0, role="img"))


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers from ``low`` to ``high`` as axis ticks; ``about`` is the approximate number of ticks."""
    raw = (high - low) / about
    power = 10.0 ** floor(log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    return [round(k * step, 12) for k in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _scale(values: Iterable[float], begin: float, end: float) -> tuple[_Map, list[float]]:
    known = [value for value in values if isfinite(value)]
    low, high = min(known, default=1.0), max(known, default=10.0)
    margin = 0.04 * (high - low) or max(abs(low), 1.0) / 2
    span = high - low + 2 * margin
    return lambda value: begin + (value - low + margin) / span * (end - begin), ticks(low - margin, high + margin)


def _axes(series: Sequence[Series], x_label: str, y_label: str, top: float) -> tuple[_Map, _Map, list[str]]:
    bottom, right = top + _HEIGHT, _WIDTH - _RIGHT
    x, x_ticks = _scale((v for s in series for v in s.x), _LEFT, right)
    y, y_ticks = _scale((v for s in series for v in (*s.y, *s.low, *s.high)), bottom, top)
    shapes: list[str] = []
    for tick in y_ticks:
        shapes.append(_element("path", d=_path([(_LEFT, y(tick)), (right, y(tick))]), class_="grid"))
        shapes.append(_text(_LEFT - 6, y(tick) + 4, _tick(tick), "t soft", "end"))
    shapes += [_text(x(tick), bottom + 17, _tick(tick), "t soft", "middle") for tick in x_ticks]
    shapes.append(_element("path", d=_path([(_LEFT, bottom), (right, bottom)]), class_="axis"))
    shapes.append(_text((_LEFT + right) / 2, bottom + _BOTTOM - 8, x_label, "t soft", "middle"))
    turned = f"rotate(-90 14 {(top + bottom) / 2:.1f})"
    return x, y, [*shapes, _text(14.0, (top + bottom) / 2, y_label, "t soft", "middle", transform=turned)]


def _element(tag: str, content: str = "", **attributes: str | float) -> str:
    """Return one SVG element; underscores in attribute names become hyphens, and ``class_`` becomes ``class``."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(v) if isinstance(v, str) else _number(v)}"'
        for name, v in attributes.items()
    )
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def _text(x: float, y: float, words: str, class_: str = "t", align: str = "start", **more: str) -> str:
    return _element("text", str(escape(words)), x=x, y=y, class_=class_, text_anchor=align, **more)


def _path(points: Iterable[Ends]) -> str:
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)


def _tick(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.6g}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
