"""Tables and tiny plots that Dagster's UI shows beside a materialisation."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from warehouse.sources.reading import Reading


def table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as a metadata table; numbers are rounded to four digits."""
    return dg.MetadataValue.table(
        records=[dg.TableRecord({k: _cell(v) for k, v in row.items()}) for row in rows],
        schema=dg.TableSchema([dg.TableColumn(name) for name in rows[0]]) if rows else dg.TableSchema([]),
    )


_WHY = "why"


def failure(reasons: Mapping[str, str]) -> dg.Failure:
    """The failure of a run over several partitions: why each of those failed that did, in words and as a table."""
    rows = [{"partition": partition, _WHY: why} for partition, why in reasons.items()]
    return dg.Failure("; ".join(f"{row['partition']}: {row[_WHY]}" for row in rows), metadata={_WHY: table(rows)})


def reasons_of(failed: dg.StepFailureData) -> dict[str, str]:
    """Why each partition failed, of a failure that ``failure`` made; empty of any other."""
    data = failed.user_failure_data
    found = data.metadata.get(_WHY) if data is not None else None
    rows = found.records if isinstance(found, dg.TableMetadataValue) else []
    return {str(row.data["partition"]): str(row.data[_WHY]) for row in rows}


def as_read(readings: Mapping[str, Reading]) -> dict[str, Any]:
    """What each file was taken to be, as metadata; nothing where no file was read."""
    lines = [f"{name}: {sentence}" for name, reading in readings.items() for sentence in reading.sentences()]
    return {"as_read": bullets(lines)} if lines else {}


def bullets(lines: Iterable[str]) -> Any:
    """Sentences as a list in Markdown, which shows them as they are."""
    return dg.MetadataValue.md("".join(f"- {as_text(line)}\n" for line in lines) or "nothing to add")


def bars(title: str, values: Mapping[str, float]) -> Any:
    """A horizontal bar chart as an image in Markdown, drawn for light and dark pages alike."""
    if not values:
        return dg.MetadataValue.md(f"*{as_text(title)}: nothing to draw*")
    height, label, width = 18, 190, 260
    largest = max(max(abs(v) for v in values.values()), 1e-12)
    zero = label + (width / 2 if min(values.values()) < 0 else 0)
    reach = width / 2 if min(values.values()) < 0 else width
    rows: list[str] = []
    for k, (name, value) in enumerate(values.items()):
        y, length = 26 + k * height, reach * abs(value) / largest
        x = zero if value >= 0 else zero - length
        rows.append(
            f'<text x="{label - 6}" y="{y + 12}" text-anchor="end">{_escape(name[:28])}</text>'
            f'<rect x="{x:.1f}" y="{y + 2}" width="{max(length, 0.5):.1f}" height="13" fill="#3b7dd8"/>'
            f'<text x="{label + width + 6}" y="{y + 12}">{value:.3g}</text>'
        )
    total = 34 + height * len(values)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{label + width + 60}" height="{total}" '
        f'font-family="sans-serif" font-size="11" fill="#777">'
        f'<text x="4" y="15" font-weight="bold">{_escape(title)}</text>{"".join(rows)}</svg>'
    )
    encoded = base64.b64encode(svg.encode()).decode()
    return dg.MetadataValue.md(f"![{as_text(title)}](data:image/svg+xml;base64,{encoded})")


def histogram(title: str, values: Sequence[float], most: int = 10) -> Any:
    """How often each value occurs, or each of ``most`` equal ranges where there are more values."""
    distinct = sorted(Counter(values).items())
    if len(distinct) <= most:
        return bars(title, {f"{value:g}": float(count) for value, count in distinct})
    low, width = distinct[0][0], (distinct[-1][0] - distinct[0][0]) / most
    counts = [0] * most
    for value, count in distinct:
        counts[min(int((value - low) / width), most - 1)] += count
    ranges = [f"{low + k * width:.4g} to {low + (k + 1) * width:.4g}" for k in range(most)]
    return bars(title, {name: float(count) for name, count in zip(ranges, counts, strict=True)})


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return round(value, 4) if value == value else ""
    return value


def as_text(text: str) -> str:
    """A text as Markdown that shows it as it is: no link, image or tag that a file may hold comes to life."""
    return re.sub(r"([\\`*_{}\[\]()<>#!|~&])", r"\\\1", " ".join(text.split()))


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
