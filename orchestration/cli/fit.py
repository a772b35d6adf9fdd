"""``care fit``: aggregate a file of scores; no workspace needed."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.output import console, errors, show, speaking_errors, system_table

if TYPE_CHECKING:
    from assets.report.data import ReportData
    from care_ops.admission import JudgeCheck
    from care_ops.anchors import Anchors
    from care_ops.fit import Fit, FitConfig
    from care_ops.results.uncertainty import Interval
    from care_ops.scores import ScoreMatrix
    from warehouse.items import ItemRecord

_ITEM_FIELDS = ("prompt", "response", "response_2", "reference", "aspect", "gold", "split_unit")


@speaking_errors
def fit(
    scores: Annotated[Path, typer.Argument(help="Long (item_id, judge, score) or wide; .csv, .parquet, .jsonl.")],
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    items: Annotated[Path | None, typer.Option(help="item_id and any of response, gold, split_unit.")] = None,
    judges: Annotated[Path | None, typer.Option(help="judge, family.")] = None,
    anchors: Annotated[Path | None, typer.Option(help="item_id, label: what the fit may see.")] = None,
    aggregator: Annotated[
        list[str] | None, typer.Option(help="Which aggregators, in order; repeat it. By default the recommended ones.")
    ] = None,
    cut: Annotated[float | None, typer.Option(help="A score above it is a vote for Q = 1.")] = None,
    admit: Annotated[str, typer.Option(help="'rule' or 'all'.")] = "rule",
    scale: Annotated[
        tuple[float, float] | None, typer.Option(help="Lowest and highest score; others are missing.")
    ] = None,
    calibrate: Annotated[
        str, typer.Option(help="Declared scale of quality: own, uniform (needs --scale), judge:NAME, anchors.")
    ] = "own",
    prevalence: Annotated[float | None, typer.Option(help="Declared share of items with Q = 1.")] = None,
    intervals: Annotated[int, typer.Option(help="Resamples for intervals of weights, 20 or more; 0 for none.")] = 60,
    systems: Annotated[
        list[str] | None,
        typer.Option(help="Column of --items that names the item's system; twice for pairs, left and right."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of random starts.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Aggregate recorded scores and write aggregates, judges, fit.json and a report page."""
    from care_ops.admission import check_panel
    from care_ops.anchors import NO_ANCHORS, Anchors
    from care_ops.config import DEFAULT_AGGREGATORS, AdmissionRule, Calibration, FitConfig
    from care_ops.errors import FitError, InputError
    from care_ops.fit import fit_panel
    from care_ops.results.uncertainty import weight_intervals
    from warehouse.sources.files import read_labels, read_scores

    if admit not in ("rule", "all"):
        raise InputError(f"--admit is {admit!r}; use 'rule' or 'all'")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; give a folder to write to")
    matrix, out_of_range = _within(_with_families(read_scores(scores).scores, judges), scale)
    if matrix.shape[1] < 2:
        raise InputError(f"{scores}: there is one judge, {matrix.judges[0]!r}; a panel needs at least two")
    records = _read_items(items, matrix) if items else {}
    seen = Anchors(read_labels(anchors)) if anchors else NO_ANCHORS
    seen.rows(matrix.item_ids)
    config = FitConfig(
        aggregators=tuple(aggregator) if aggregator else DEFAULT_AGGREGATORS,
        cut=cut,
        scale=scale,
        calibration=Calibration(calibrate, prevalence),
        seed=seed,
    )
    checks = check_panel(matrix, AdmissionRule(admit="all" if admit == "all" else "rule"), out_of_range=out_of_range)
    admitted = [check.judge for check in checks if check.admitted]
    if len(admitted) < 2:
        refused = "; ".join(f"{c.judge}: {c.reason}" for c in checks if not c.admitted)
        raise FitError(f"{scores}: {len(admitted)} judge(s) admitted, a panel needs two ({refused}); see --admit all")
    named, units = _named(matrix.item_ids, records, tuple(systems or ())), _units(matrix.item_ids, records)
    pairs = {i: (*n, u) for i, n, u in zip(matrix.item_ids, named, units, strict=True) if n and len(n) == 2}
    found = fit_panel(matrix.select_judges(admitted), config, seen, pairs=pairs)
    bounds = {}
    if intervals:
        bounds = weight_intervals(found.scores, config, seen, units, whole=found.aggregates, resamples=intervals)
    compared = _compare(found, named, units, seen, scale) if systems else {}
    data = _report_data(scores, found, checks, records, seen, config, scale, bounds, compared)
    _write(out, found, data)
    _print(data, out, as_json=json)


def _with_families(matrix: ScoreMatrix, judges: Path | None) -> ScoreMatrix:
    from care_ops.errors import InputError
    from care_ops.scores import ScoreMatrix
    from warehouse.sources.files import read_families

    if judges is None:
        return matrix
    families = read_families(judges)
    unknown = [judge for judge in families if judge not in matrix.judges]
    if unknown:
        raise InputError(f"{judges}: judge {unknown[0]!r} has no scores; there are {', '.join(matrix.judges)}")
    return ScoreMatrix(matrix.values, matrix.item_ids, matrix.judges, families)


def _within(matrix: ScoreMatrix, scale: tuple[float, float] | None) -> tuple[ScoreMatrix, dict[str, int]]:
    """Scores outside the scale become missing; counted by judge."""
    import numpy as np

    from care_ops.errors import InputError
    from care_ops.scores import ScoreMatrix

    if scale is None:
        return matrix, {}
    if not scale[0] < scale[1]:
        raise InputError(f"--scale is {scale[0]} {scale[1]}; the lowest score comes first")
    outside = (matrix.values < scale[0]) | (matrix.values > scale[1])
    counts = {judge: int(c) for judge, c in zip(matrix.judges, outside.sum(axis=0), strict=True) if c}
    values = np.where(outside, np.nan, matrix.values)
    return ScoreMatrix(values, matrix.item_ids, matrix.judges, matrix.families), counts


def _read_items(path: Path, matrix: ScoreMatrix) -> dict[str, ItemRecord]:
    from care_ops.errors import InputError
    from warehouse.sources.files import read_items, read_table
    from warehouse.testsets import ItemColumns

    present = set(read_table(path, ("item_id",)).column_names)
    named = {field: field for field in _ITEM_FIELDS if field in present}
    records = {r.item_id: r for r in read_items(path, ItemColumns(**named))}
    missing = [item_id for item_id in matrix.item_ids if item_id not in records]
    if missing:
        raise InputError(
            f"{path}: {len(missing)} scored item(s) are not in it, the first is {missing[0]!r}; add them, or "
            "correct the item ids"
        )
    return records


def _named(
    item_ids: Sequence[str], records: dict[str, ItemRecord], columns: tuple[str, ...]
) -> list[tuple[str, ...] | None]:
    """The systems of each item, as ``--systems`` names their columns; None where one is empty."""
    from care_ops.errors import InputError
    from warehouse.items import named_in

    if len(columns) > 2:
        raise InputError(f"--systems is given {len(columns)} times; once for items of a system, twice for pairs")
    metadata = [records[item].metadata if item in records else {} for item in item_ids]
    return named_in(metadata, columns, "--systems")


def _units(item_ids: Sequence[str], records: dict[str, ItemRecord]) -> list[str]:
    """Split units; an item without one is its own."""
    return [(records[item].split_unit if item in records else None) or item for item in item_ids]


def _compare(
    found: Fit,
    named: list[tuple[str, ...] | None],
    units: list[str],
    seen: Anchors,
    scale: tuple[float, float] | None,
) -> dict[str, Any]:
    from assets.results.systems import compare
    from care_ops.results.systems import anchors_as_labels

    name, aggregate = next(iter(found.aggregates.items()))
    labels = anchors_as_labels(found.scores.item_ids, seen)
    return {"aggregator": name, **compare(aggregate.estimate, named, units, labels, scale)}


def _report_data(
    path: Path,
    found: Fit,
    checks: list[JudgeCheck],
    records: dict[str, ItemRecord],
    seen: Anchors,
    config: FitConfig,
    scale: tuple[float, float] | None,
    bounds: dict[str, Interval],
    compared: dict[str, Any],
) -> ReportData:
    import numpy as np

    from assets.fit.stages import fit_code
    from assets.report.data import ReportData
    from assets.report.gather import correlation_of
    from assets.results.factors import describe
    from assets.results.gold import held_out_gold
    from care_ops.metrics import evaluate

    ids = found.scores.item_ids
    labels = [records[i].gold if i in records else None for i in ids]
    gold = np.array([np.nan if label is None else label for label in labels], dtype=np.float64)
    units = [records[i].split_unit if i in records else None for i in ids]
    gold = held_out_gold(ids, gold, units, seen)
    texts = [records[i].response if i in records else None for i in ids]
    range_ = scale or (float(np.nanmin(found.scores.values)), float(np.nanmax(found.scores.values)))
    features: dict[str, Any] = {}
    if found.structure is not None:
        features = describe(found.scores, found.moments, found.structure, texts)
    return ReportData(
        title=path.name,
        description="Recorded scores, aggregated by care fit.",
        scores=found.scores,
        correlation=correlation_of(found.scores, found.moments),
        aggregates=found.aggregates,
        failures=found.failures,
        checks=checks,
        evaluations={
            name: evaluate(a.estimate, gold, threshold=a.threshold, scale=range_, sd=a.sd, p_quality=a.p_quality)
            for name, a in found.aggregates.items()
            if not np.isnan(gold).all()
        },
        gold=gold,
        responses=texts,
        factor_features=features,
        intervals={name: (b.lo, b.hi) for name, b in bounds.items()},
        systems=compared,
        provenance={
            "scores": str(path),
            "fingerprint": found.scores.fingerprint(),
            "items": found.scores.shape[0],
            "missing_scores": float(np.isnan(found.scores.values).mean()),
            "labels_seen": len(seen),
            "config": asdict(config),
            "structure": found.structure_details,
            "scale_for_mae_filled": range_,
            "code": {"fit": fit_code()},
        },
    )


def _write(out: Path, found: Fit, data: ReportData) -> None:
    """Aggregates, judges, fit.json and the page; each appears whole or not at all."""
    from assets.report.page import write_page
    from warehouse.storage import write_bytes, write_table

    write_table(out / "aggregates.parquet", _aggregates_table(found))
    write_table(out / "judges.parquet", _judges_table(found, data))
    document = {
        "provenance": data.provenance,
        "failures": data.failures,
        "judges": [_plain(asdict(check)) for check in data.checks],
        "aggregates": {
            name: {"threshold": a.threshold, "labels_used": a.labels_used, "details": a.details}
            for name, a in found.aggregates.items()
        },
        "evaluation": {name: e.as_dict() for name, e in data.evaluations.items()},
        "factors": data.factor_features,
        "systems": data.systems,
    }
    write_bytes(out / "fit.json", json_module.dumps(document, indent=1, sort_keys=True, default=str).encode())
    write_page(data, out / "report.html")


def _aggregates_table(found: Fit) -> Any:
    import pyarrow as pa

    from assets.fit.aggregates import nullable

    n = len(found.scores.item_ids)
    tables = [
        pa.table(
            {
                "item_id": pa.array(found.scores.item_ids, pa.string()),
                "aggregator": pa.array([name] * n, pa.string()),
                "estimate": nullable(a.estimate),
                "sd": nullable(a.sd, n),
                "p_quality": nullable(a.p_quality, n),
            }
        )
        for name, a in found.aggregates.items()
    ]
    return pa.concat_tables(tables)


def _judges_table(found: Fit, data: ReportData) -> Any:
    import pyarrow as pa

    index = {judge: j for j, judge in enumerate(found.scores.judges)}
    rows = [
        {
            "judge": check.judge,
            "aggregator": name,
            "weight": None if a.weights is None or check.judge not in index else float(a.weights[index[check.judge]]),
            **_bounds_of(data, name, index.get(check.judge)),
            "loadings": None
            if a.loadings is None or check.judge not in index
            else [float(x) for x in a.loadings[index[check.judge]]],
            "flags": check.reason or check.notes,
        }
        for name, a in found.aggregates.items()
        for check in data.checks
    ]
    schema = pa.schema(
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
    return pa.Table.from_pylist(rows, schema)


def _bounds_of(data: ReportData, name: str, j: int | None) -> dict[str, float | None]:
    if j is None or name not in data.intervals:
        return {"lo": None, "hi": None}
    lo, hi = data.intervals[name]
    return {"lo": float(lo[j]), "hi": float(hi[j])}


def _print(data: ReportData, out: Path, *, as_json: bool) -> None:
    import numpy as np

    rows: list[dict[str, Any]] = []
    for name, a in data.aggregates.items():
        metrics = data.evaluations[name].as_dict() if name in data.evaluations else {}
        known = a.estimate[~np.isnan(a.estimate)]
        rows.append(
            {
                "aggregator": name,
                "labels": a.labels_used,
                "items": len(known),
                "mean": float(known.mean()),
                "sd": float(known.std()),
                **{k: v for k, v in metrics.items() if v is not None and k != "n"},
            }
        )
    every = list(dict.fromkeys(key for row in rows for key in row))
    show([{key: row.get(key) for key in every} for row in rows], data.title, as_json=as_json)
    if data.systems and not as_json:
        show(system_table(data.system_rows()), f"systems, by {data.systems['aggregator']}", as_json=False)
    for check in data.checks:
        if not check.admitted:
            errors.print(f"not admitted: {check.judge}: {check.reason}", markup=False, highlight=False)
    for warning in data.warnings():
        errors.print(f"warning: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    for name, why in data.failures.items():
        errors.print(f"could not answer: {name}: {why}", style="yellow", markup=False, highlight=False)
    if not as_json:
        console.print(f"written to {out}", highlight=False, soft_wrap=True)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and v != v else v for k, v in row.items()}
