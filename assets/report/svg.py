"""Inline SVG: elements, text, ticks and the frame that every drawing shares.

A drawing has no colours of its own. Its shapes carry classes, and ``templates/base.html`` gives the classes their
colours in the light and the dark scheme, so that a page prints, mails and reads without a script.
"""

from collections.abc import Iterable
from math import ceil, floor, log10

from markupsafe import Markup, escape

LETTER = 6.7
"""Average width of a letter in the 12 pixel type of drawings."""


def element(tag: str, content: str = "", **attributes: str | float) -> str:
    """One element; attribute names are written with underscores, and ``class_`` is ``class``."""
    written = "".join(f' {name.rstrip("_").replace("_", "-")}="{_value(v)}"' for name, v in attributes.items())
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def text(x: float | str, y: float, words: str, class_: str = "t", anchor: str = "start") -> str:
    """Words at a place."""
    return element("text", str(escape(words)), x=x, y=y, class_=class_, text_anchor=anchor)


def drawing(key: str, size: tuple[float, float], title: str, description: str, shapes: Iterable[str]) -> Markup:
    """An image with a title and a description that readers of screens are told.

    Parameters
    ----------
    key : str
        Unique on its page.
    size : (width, height)
        In pixels; the page may draw it smaller.
    """
    width, height = size
    named = element("title", str(escape(title)), id=f"{key}-title") + element(
        "desc", str(escape(description)), id=f"{key}-description"
    )
    return Markup(
        element(
            "svg",
            named + "".join(shapes),
            class_="drawing",
            viewBox=f"0 0 {_number(width)} {_number(height)}",
            width=width,
            height=height,
            role="img",
            aria_labelledby=f"{key}-title {key}-description",
        )
    )


def path(points: Iterable[tuple[float, float]]) -> str:
    """The ``d`` of a line through points."""
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)


def shortened(words: str, most: int) -> str:
    """At most this many letters, with an ellipsis where some are left out."""
    return words if len(words) <= most else words[: most - 1] + "…"


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two ends, about so many."""
    if high <= low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** floor(log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    first = ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, floor(high / step + 1e-9) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten between two positive ends, or round numbers where there are fewer than two."""
    powers = [10.0**k for k in range(ceil(log10(low) - 1e-9), floor(log10(high) + 1e-9) + 1)]
    return powers if len(powers) >= 2 else [tick for tick in ticks(low, high) if tick > 0]


def number(value: float) -> str:
    """A tick's label."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.6g}"


def _value(value: str | float) -> str:
    return str(escape(value)) if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
