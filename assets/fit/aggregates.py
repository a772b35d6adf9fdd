"""Dagster asset ``aggregates``: the estimates of every aggregator for the items of a panel."""

import hashlib

import dagster as dg

from assets.fit.made import asset_of_testsets
from assets.fit.stages import fit_code
from assets.judge_keys import keys_of_judges
from assets.metadata import table
from assets.versions import settings_version
from assets.workspace import Workspace
from warehouse.items import ITEM_TEXTS


@asset_of_testsets(
    deps=["structure"],
    kinds={"duckdb"},
    pool="warehouse_writer",
    description="One estimate per item from each aggregator, with weights, loadings and provenance.",
)
def aggregates(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> dg.MaterializeResult:
    """Run the aggregators on the stored panel, moments and structure, and store each fit."""
    from assets.fit.documents import FitDocument
    from assets.fit.kept import read_moments, read_structure
    from care_ops.fit import run_aggregators
    from care_ops.frozen import freeze_all
    from warehouse.fit_rows import load_fits
    from warehouse.fits import FitRecord, FitVersion, FitVersionInputs
    from warehouse.matrix import read_admission
    from warehouse.panel_rows import slice_versions

    testset = context.partition_key
    folder = workspace.fit_folder(testset)
    config, labels = workspace.fit_config(testset), workspace.labels_of(testset)
    scores, state = folder.read_panel(), read_moments(folder)
    solved, document = read_structure(folder)
    answers, failures = run_aggregators(scores, state, solved, config, labels)
    settings = settings_version(workspace, testset)
    inputs = f"{scores.fingerprint()}-{settings}"
    code = fit_code()
    fit_ids = {name: _digest(f"{testset}|{name}|{inputs}|{code}")[:16] for name in answers}
    version = _digest("".join(sorted(fit_ids.values())))[:32]
    for name, frozen in freeze_all(scores, {name: a.estimate for name, a in answers.items()}).items():
        workspace.fits.annotate(testset, fit_ids[name], frozen)
    duplicates = share_of_duplicates(workspace, testset)
    with workspace.warehouse.writer() as connection:
        panel, slices = tuple(read_admission(connection, testset)), slice_versions(connection, testset)
        people, judges = dict(labels.labels), keys_of_judges(workspace, testset)
        made_of = FitVersionInputs(slices, panel, duplicates, settings, code, people, judges)
        records: dict[str, FitRecord] = {}
        for name, aggregate in answers.items():
            record = FitRecord(fit_ids[name], testset, inputs, code, scores.item_ids, scores.judges, aggregate)
            workspace.fits.write_fit(record)
            records[record.fit_id] = record
        fit_version = workspace.fits.write_fit_version(FitVersion(version[:16], testset, fit_ids, made_of))
        load_fits(connection, workspace.fits, testset, fits=records)
    failures = {**document.failures, **failures}
    made_from = (scores.fingerprint(), settings, code)
    folder.write(FitDocument(tuple(fit_ids.items()), failures, fit_version.fit_version, *made_from))
    unanswered = [{"aggregator": aggregator, "why": why} for aggregator, why in failures.items()]
    return dg.MaterializeResult(
        data_version=dg.DataVersion(version),
        metadata={
            "aggregators": ", ".join(answers),
            **({"could_not_answer": table(unanswered)} if unanswered else {}),
        },
    )


def share_of_duplicates(workspace: Workspace, testset: str) -> float:
    """Return the share of items that have the same texts as an item of another split unit."""
    items = workspace.parts.read_item_columns(testset, (*ITEM_TEXTS, "split_unit"))
    if items.group_by([*ITEM_TEXTS]).aggregate([]).num_rows == items.num_rows:  # the usual case
        return 0.0
    seen: dict[tuple[str | None, ...], str | None] = {}
    again = 0
    for *text, unit in zip(*(column.to_pylist() for column in items.columns), strict=True):
        key = tuple(text)
        if key not in seen:
            seen[key] = unit
        elif key[:2] != (None, None) and (unit is None or seen[key] != unit):
            again += 1
    return again / items.num_rows


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
