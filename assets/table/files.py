"""Output files of a fitted table: aggregates, judges, fit.json, the page and the items to label."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from assets.report.data import ReportData
from assets.report.page import write_page
from assets.report.to_label import FILE as TO_LABEL
from assets.report.to_label import write_items_to_label
from assets.table.fitting import TableFit
from care_ops.errors import InputError
from care_ops.fit import Fit
from care_ops.records import Aggregate
from warehouse.documents import document_of
from warehouse.fits import table_of
from warehouse.storage import write_bytes, write_table

PAGE = "report.html"

_JUDGES = pa.schema(
    [
        ("judge", pa.string()),
        ("aggregator", pa.string()),
        ("weight", pa.float64()),
        ("lo", pa.float64()),
        ("hi", pa.float64()),
        ("loadings", pa.list_(pa.float64())),
        ("flags", pa.string()),
    ]
)


def write_files(result: TableFit, out: Path) -> tuple[list[str], int]:
    """Write the files of a fitted table to a folder, each atomically.

    Returns the items whose label in ``to_label.csv`` differs from the fit's label, and the number of items that were
    added if this file already existed.
    """
    fit, page = result.fit, result.page
    make_folder(out)
    write_table(out / "aggregates.parquet", aggregates_table(fit))
    write_table(out / "judges.parquet", judges_table(page))
    text = json.dumps(fit_document(result), indent=1, sort_keys=True, default=str)
    write_bytes(out / "fit.json", text.encode())
    write_page(page, out / PAGE, result.verdict)
    return write_items_to_label(out / TO_LABEL, result.to_label, result.items, result.labels)


def make_folder(path: Path) -> None:
    """Create an output folder and its parents; raise ``InputError`` if a file exists at one of these paths."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError, FileNotFoundError) as error:
        raise InputError(f"{path}: the folder cannot be created ({error.strerror}); name another folder") from error


def fit_document(result: TableFit) -> dict[str, Any]:
    """Return the content of fit.json: all results except per-item values and judge weights."""
    fit, page = result.fit, result.page
    return {
        "verdict": {"headline": result.verdict.headline, **asdict(result.verdict)},
        "provenance": page.provenance,
        "failures": page.failures,
        "judges": [asdict(check) for check in page.checks],
        "aggregates": {
            name: {"threshold": one.threshold, "labels_used": one.labels_used, "details": one.details}
            for name, one in page.aggregates.items()
        },
        "evaluation": {name: asdict(found) for name, found in page.evaluations.items()},
        "factors": {} if fit.structure is None else document_of(page.factors),
        "systems": {name: value for name, value in document_of(page.systems).items() if value},
    }


def aggregates_table(fit: Fit) -> pa.Table:
    """Return a table with a row for each item and aggregator."""
    count = len(fit.scores.item_ids)
    tables = [
        table_of(fit.scores.item_ids, aggregate).add_column(1, "aggregator", pa.array([name] * count, pa.string()))
        for name, aggregate in fit.aggregates.items()
    ]
    return pa.concat_tables(tables)


def judges_table(page: ReportData) -> pa.Table:
    """Return a table with a row for each judge and aggregator, including judges that were not admitted."""
    position = {judge: j for j, judge in enumerate(page.scores.judges)}
    rows = [
        {
            "judge": check.judge,
            "aggregator": name,
            **asdict(page.weight_cell(name, check.judge)),
            "loadings": _loadings(aggregate, position.get(check.judge)),
            "flags": check.reason or check.notes,
        }
        for name, aggregate in page.aggregates.items()
        for check in page.checks
    ]
    return pa.Table.from_pylist(rows, _JUDGES)


def _loadings(aggregate: Aggregate, j: int | None) -> list[float] | None:
    return None if j is None or aggregate.loadings is None else aggregate.loadings[j].tolist()
