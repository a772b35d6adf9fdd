"""``care history | diff | accept | promote | rollback | score``: fits that are kept, and which is published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import console, errors, show, speaking_errors

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from warehouse.fits import Edition

Root = Annotated[Path, typer.Option("--workspace", help="Folder of care.yaml.")]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
Why = Annotated[str, typer.Option(help="Why; kept with the publication.")]


def _load(workspace: Path) -> Workspace:
    from orchestration.workspace import load_workspace

    return load_workspace(workspace)


def _republish(loaded: Workspace, testset: str) -> None:
    """Let the review look again, so that the page follows."""
    from orchestration.definitions import build_defs
    from orchestration.instance import workspace_instance
    from orchestration.runner import run_stale

    with workspace_instance(loaded) as instance:
        defs = build_defs(loaded.root, {"workspace": loaded})
        outcome = run_stale(defs, loaded, instance, testset=testset, again=("review", testset))
    for (asset, partition), message in outcome.failures.items():
        errors.print(f"failed: {asset} {partition or ''}: {message}", style="red", markup=False, soft_wrap=True)


@speaking_errors
def history(
    testset: Annotated[str, typer.Argument(help="A test set.")], workspace: Root = Path(), json: Json = False
) -> None:
    """Every fit that is kept, what is published, and what changed from one to the next."""
    from assets.publication.editions import history as rows_of

    show(rows_of(_load(workspace), testset), f"{testset}: fits, newest first", as_json=json)


@speaking_errors
def diff(
    before: Annotated[str, typer.Argument(help="A fit (`care history`), or a test set: its last two published.")],
    after: Annotated[str | None, typer.Argument(help="A later fit.")] = None,
    workspace: Root = Path(),
    aggregator: Annotated[str, typer.Option(help="Which aggregate.")] = "care",
    json: Json = False,
) -> None:
    """Judges whose weight moved, items whose score moved most, and why."""
    from assets.publication.editions import difference, find

    loaded = _load(workspace)
    pair = (find(loaded, before), find(loaded, after)) if after is not None else _last_two(loaded, before)
    found = difference(loaded, *pair, aggregator)
    if json:
        show([vars(found)], "", as_json=True)
        return
    title = f"{pair[0].testset}: {pair[0].edition} -> {pair[1].edition}, {aggregator}"
    console.print(f"{title}\nwhy: {'; '.join(found.why)}", markup=False, highlight=False)
    show(found.judges, "weights that moved most", as_json=False)
    show(found.items, "items that moved most, in standard deviations", as_json=False)


def _last_two(loaded: Workspace, testset: str) -> tuple[Edition, Edition]:
    """What is published and the latest fit; where these are one, what was made before it."""
    from care_ops.errors import InputError

    every = loaded.fits.editions(loaded.testset(testset).name)
    published = loaded.fits.published(testset)
    if len(every) < 2:
        raise InputError(f"test set {testset!r} has {len(every)} kept fit(s), two make a difference")
    if published is not None and published[1].edition != every[-1].edition:
        return published[1], every[-1]
    return every[-2], every[-1]


@speaking_errors
def accept(
    testset: Annotated[str, typer.Argument(help="A test set whose latest fit is held back or not published.")],
    why: Why = "",
    workspace: Root = Path(),
) -> None:
    """Publish the latest fit of a test set: although the review held it back, or instead of a pinned one."""
    from assets.publication.editions import promote as publish
    from orchestration.locks import workspace_alone

    with workspace_alone(workspace, "care accept") as loaded:
        edition = _latest(loaded, testset)
        publish(loaded, edition, by="accept", why=why, pinned=False)
        _republish(loaded, testset)
    console.print(f"{testset}: {edition.edition} is published", highlight=False)


@speaking_errors
def promote(
    fit: Annotated[str, typer.Argument(help="A fit (`care history`).")], why: Why = "", workspace: Root = Path()
) -> None:
    """Publish a kept fit and pin it: later nights are kept beside it, new items are scored with it."""
    from assets.publication.editions import extend, find
    from assets.publication.editions import promote as publish
    from orchestration.locks import workspace_alone

    with workspace_alone(workspace, "care promote") as loaded:
        edition = find(loaded, fit)
        publish(loaded, edition, by="promote", why=why, pinned=True)
        added = extend(loaded, edition)
        _republish(loaded, edition.testset)
    more = f"; {added} newer items were scored with it" if added else ""
    console.print(f"{edition.testset}: {edition.edition} is published and pinned{more}", highlight=False)


@speaking_errors
def rollback(
    testset: Annotated[str, typer.Argument(help="A test set.")], why: Why = "", workspace: Root = Path()
) -> None:
    """Publish and pin what was published before."""
    from assets.publication.editions import rollback as back
    from orchestration.locks import workspace_alone

    with workspace_alone(workspace, "care rollback") as loaded:
        edition = back(loaded, loaded.testset(testset).name, why)
        _republish(loaded, testset)
    console.print(f"{testset}: {edition.edition} is published and pinned again", highlight=False)


@speaking_errors
def score(
    scores: Annotated[Path, typer.Argument(help="Long (item_id, judge, score) or wide; .csv, .parquet, .jsonl.")],
    fit: Annotated[str, typer.Option(help="A fit (`care history`).")],
    workspace: Root = Path(),
    aggregator: Annotated[str, typer.Option(help="Which aggregate.")] = "care",
    out: Annotated[Path | None, typer.Option(help="CSV to write; by default a table is printed.")] = None,
    json: Json = False,
) -> None:
    """Score new items with a kept fit; nothing is fitted, no published score moves."""
    import csv

    from assets.publication.editions import find
    from assets.publication.editions import score as score_with
    from warehouse.sources.files import read_scores

    loaded = _load(workspace)
    rows = score_with(loaded, find(loaded, fit), aggregator, read_scores(scores).scores)
    if out is None:
        show(rows, f"{len(rows)} items by {aggregator} of {fit}", as_json=json)
        return
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["item_id", "estimate"])
        writer.writeheader()
        writer.writerows(rows)
    console.print(f"{len(rows)} items: {out}", highlight=False)


def _latest(loaded: Workspace, testset: str) -> Edition:
    from care_ops.errors import InputError

    every = loaded.fits.editions(loaded.testset(testset).name)
    if not every:
        raise InputError(f"test set {testset!r} has no fit yet; run `care run` first")
    return every[-1]
