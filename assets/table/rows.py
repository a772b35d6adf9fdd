"""Rows of Python values that describe the aggregates and judges of a fit."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from assets.report.data import ReportData


def aggregate_rows(page: ReportData) -> list[dict[str, Any]]:
    """Return a row for each aggregator; the column ``with gold`` is the number of evaluated items."""
    rows: list[dict[str, Any]] = []
    for name, aggregate in page.aggregates.items():
        metrics = asdict(page.evaluations[name]) if name in page.evaluations else {}
        known = aggregate.estimate[~np.isnan(aggregate.estimate)]
        of_some = {"with gold": metrics["n"]} if metrics and metrics["n"] < len(known) else {}
        rows.append(
            {
                "aggregator": name,
                "labels": aggregate.labels_used,
                "items": len(known),
                "mean": float(known.mean()),
                "sd": float(known.std()),
                **of_some,
                **{metric: value for metric, value in metrics.items() if value is not None and metric != "n"},
            }
        )
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return [{column: row.get(column) for column in columns} for row in rows]


def in_words(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove the column ``tau`` if any row has an AUC, because both metrics measure the ranking."""
    has_auc = any(row.get("auc") is not None for row in rows)
    return [{column: value for column, value in row.items() if not (has_auc and column == "tau")} for row in rows]


def agreement_with_gold(page: ReportData, names: Iterable[str]) -> list[str]:
    """Return one line that describes the agreement of aggregates with gold, or no line if there is no gold."""
    found = {name: page.evaluations[name] for name in names if name in page.evaluations}
    found = {name: one for name, one in found.items() if one.order is not None}
    metric = "Kendall's tau" if all(one.auc is None for one in found.values()) else "AUC"
    orders = ", ".join(f"{name} {one.order:.2f}" for name, one in found.items())
    return [f"agreement with gold ({metric}): {orders}"] if found else []


def judge_rows(page: ReportData) -> list[dict[str, Any]]:
    """Return a row for each judge, sorted by weight in the recommended aggregate; judges not admitted are last."""
    return [
        {
            "judge": check.judge,
            "family": page.scores.families.get(check.judge),
            **asdict(page.weight_cell(page.lead, check.judge)),
            "agreement": check.agreement,
            "missing": check.missing_rate,
            "note": check.reason or check.notes,
        }
        for check in page.ordered_checks
    ]
