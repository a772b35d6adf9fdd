"""Fit result that the Python interface returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten, wrap
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from assets.fit.stages import recommended
from assets.report.page import card, write_page
from assets.table.files import aggregates_table, judges_table, make_folder, write_files
from assets.table.fitting import TableFit
from assets.table.rows import aggregate_rows, agreement_with_gold
from care_ops.errors import InputError
from care_ops.labels import Drawn
from care_ops.records import Aggregate, Certificate
from care_ops.results.verdict import Verdict
from care_ops.scores import Array
from warehouse.fits import nullable

FrameKind = Literal["arrow", "pandas", "polars"]

_LINE = 96
"""Maximum length of a line in the ``repr`` of a result; ten lines then have fewer than a thousand characters."""


def frame_kind(source: object) -> FrameKind:
    """Return ``pandas`` or ``polars`` for a data frame of that library, otherwise ``arrow``.

    For the path of a file, the result is ``pandas`` if pandas is installed, otherwise ``arrow``.
    """
    package = type(source).__module__.partition(".")[0]
    if isinstance(source, str | Path):
        return "pandas" if find_spec("pandas") else "arrow"
    return "pandas" if package == "pandas" else "polars" if package == "polars" else "arrow"


@dataclass(frozen=True, repr=False, eq=False)
class FitResult:
    """Result of a fit: scores, verdict, judge weights and metrics. Arrays are read-only.

    Attributes
    ----------
    table : TableFit
        Complete result of the fit; the properties of this class read from it.
    kind : {"arrow", "pandas", "polars"}
        Library of the data frames that the methods return.
    """

    table: TableFit
    kind: FrameKind = "arrow"

    def __post_init__(self) -> None:
        """Make the arrays read-only, to keep data frames, files and the report page consistent."""
        for values in (value for aggregate in self.aggregates.values() for value in vars(aggregate).values()):
            if isinstance(values, np.ndarray):
                values.setflags(write=False)

    @property
    def items(self) -> tuple[str, ...]:
        """Item ids, in the same order as the items in all arrays."""
        return self.table.fit.scores.item_ids

    @property
    def judges(self) -> tuple[str, ...]:
        """Names of the judges on the panel, in the same order as the judges in all arrays."""
        return self.table.fit.scores.judges

    @property
    def recommended(self) -> str:
        """Name of the recommended aggregator."""
        return recommended(self.table.fit.aggregates)

    @property
    def aggregates(self) -> Mapping[str, Aggregate]:
        """Complete result of each aggregator, by name."""
        return self.table.fit.aggregates

    @property
    def estimate(self) -> Array:
        """Each item's estimate by the recommended aggregator, shape (items,); NaN for an item without scores."""
        return self.aggregates[self.recommended].estimate

    @property
    def verdict(self) -> Verdict:
        """Verdict: whether to use the scores, the reasons, and the next steps."""
        return self.table.verdict

    @property
    def to_label(self) -> Mapping[str, Drawn]:
        """Items that CARE suggests labelling, as a mapping from each item to how it was drawn."""
        return self.table.to_label

    @property
    def certificate(self) -> Certificate | None:
        """Duality gap of the sparse plus low-rank decomposition; None if the fit has no such decomposition."""
        structure = self.table.fit.structure
        return None if structure is None else structure.certificate

    def to_frame(self, aggregator: str | None = None) -> Any:
        """Return the estimates as a data frame with a row for each item.

        Ids are text. Before you join a pandas frame with numeric ids, convert them: ``frame["item_id"].astype(str)``.

        Parameters
        ----------
        aggregator : str, optional
            If given, the columns are ``item_id, estimate, sd, p_quality`` of this aggregator. By default, the columns
            are ``item_id`` and the estimates of each aggregator, the recommended aggregator first.

        Raises
        ------
        InputError
            The fit has no such aggregator.
        """
        if aggregator is None:
            names = sorted(self.aggregates, key=lambda name: name != self.recommended)
            columns = {name: nullable(self.aggregates[name].estimate) for name in names}
            return in_kind(pa.table({"item_id": pa.array(self.items, pa.string()), **columns}), self.kind)
        if aggregator not in self.aggregates:
            raise InputError(f"the fit has no aggregator {aggregator!r}; choose from {', '.join(self.aggregates)}")
        rows = aggregates_table(self.table.fit).filter(pc.field("aggregator") == aggregator)
        return in_kind(rows.drop_columns(["aggregator"]), self.kind)

    def judges_frame(self) -> Any:
        """Return a data frame of weights, intervals, loadings and flags, with a row for each judge and aggregator."""
        return in_kind(judges_table(self.table.page), self.kind)

    def metrics_frame(self) -> Any:
        """Return a data frame of mean, standard deviation and agreement with gold of each aggregator's estimates."""
        return in_kind(pa.Table.from_pylist(aggregate_rows(self.table.page)), self.kind)

    def report(self, path: str | Path) -> Path:
        """Write the report page, an HTML file that needs no network, and return its path.

        Raises
        ------
        InputError
            The path does not end in ``.html``.
        """
        path = Path(path)
        if path.suffix.lower() != ".html":
            raise InputError(f"{path}: the page is saved as HTML; use a name that ends in .html")
        make_folder(path.parent)
        write_page(self.table.page, path, self.verdict)
        return path

    def save(self, folder: str | Path) -> Path:
        """Write the output files of ``care fit``, such as ``fit.json`` and the report page, to a folder."""
        write_files(self.table, Path(folder))
        return Path(folder)

    def __repr__(self) -> str:
        more = "see .verdict, .to_frame(), .judges_frame(), .metrics_frame(), .report('report.html')"
        verdict = wrap(self.verdict.headline, _LINE, max_lines=2, placeholder=" ...")
        lines = [*self._head()[: 9 - len(verdict)], more]
        return "\n".join([*verdict, *(shorten(line, _LINE, placeholder=" ...") for line in lines)])

    def _repr_html_(self) -> str:
        """Return HTML that shows the card in an iframe, where the styles of the card cannot affect the notebook."""
        frame = '<iframe srcdoc="{}" title="CARE fit of {}" style="width:100%; height:720px; border:0"></iframe>'
        return str(Markup(frame).format(card(self.table.page, self.verdict), self.table.page.title))

    def _head(self) -> list[str]:
        page, name = self.table.page, self.recommended
        known = self.estimate[~np.isnan(self.estimate)]
        left_out = [check.judge for check in page.checks if not check.admitted]
        return [
            f"CARE fit of {page.title}: {len(self.items):,} items, {len(self.judges)} of {len(page.checks)} judges, "
            f"{page.missing_share:.1%} of their scores missing",
            f"{name}, the recommended score: mean {known.mean():.3f}, standard deviation {known.std():.3f}",
            *agreement_with_gold(page, page.evaluations),
            *([f"not admitted: {', '.join(left_out)}"] if left_out else []),
        ]


def in_kind(table: pa.Table, kind: FrameKind) -> Any:
    """Convert an Arrow table to a data frame of a library, such as pandas or polars."""
    if kind == "pandas":
        return table.to_pandas()
    return import_module("polars").from_arrow(table) if kind == "polars" else table
