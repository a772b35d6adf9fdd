"""Commands of ``care fits``, which list, compare and publish the stored fits of a test set."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from care_ops.errors import InputError
from orchestration.cli.commands import Commands
from orchestration.cli.output import Json, Root, console, errors, print_failures, print_verdict, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from assets.workspace import Workspace
    from orchestration.runner import Outcome
    from warehouse.fits import FitVersion

fits = Commands(help="Compare, publish and roll back the stored fits of a test set.", no_args_is_help=True)

Fit = Annotated[str, typer.Argument(help="Fit version, from `care fits list TESTSET`.")]
ByAggregator = Annotated[str, typer.Option("--aggregator", help="Aggregator whose estimates are compared.")]
Why = Annotated[str, typer.Option(help="Reason for publishing the fit; CARE stores it.")]

_JUDGES_SHOWN = 10


def _update(loaded: Workspace, testset: str) -> Outcome:
    from orchestration.instance import workspace_instance
    from orchestration.runner import run_stale

    with workspace_instance(loaded) as instance:
        return run_stale(loaded, instance, testset=testset, again=[("review", testset)])


def _end(outcome: Outcome, published: str) -> None:
    from assets.fit.made import FIT

    console.print(published)
    pages = any(asset in (*FIT, "report_index") for asset, _ in outcome.failures)
    print_failures(outcome)
    if pages and outcome.left_to_daemon:
        errors.print("the pages show the previous fit until a Dagster run in progress updates them", style="yellow")
    elif pages:
        errors.print(
            "the fit is published, but the pages show the previous fit; fix the failure above, then run `care run`",
            style="red",
        )
        raise typer.Exit(1)


def _publish(
    command: str,
    publish: Callable[[Workspace, str, str], FitVersion],
    workspace: Path,
    testset: str,
    why: str,
    end: str,
) -> None:
    from orchestration.locks import locked_workspace

    with locked_workspace(workspace, command) as loaded:
        version = publish(loaded, loaded.testset(testset).name, why)
        outcome = _update(loaded, testset)
    _end(outcome, f"{testset}: {version.fit_version} is {end}")


@fits.command("list")
def list_fits(
    testset: Annotated[str, typer.Argument(help="Name of a test set.")], workspace: Root = Path(), json: Json = False
) -> None:
    """List a test set's stored fits with their states, and the changes from each fit to the next."""
    from assets.publication.fit_versions import history as rows_of
    from assets.report.verdicts import current_verdicts
    from orchestration.stores import read_workspace

    loaded = read_workspace(workspace)
    show(rows_of(loaded, testset), f"{testset}: fits, newest first", as_json=json)
    verdict = None if json else current_verdicts(loaded).get(testset)
    if verdict is not None and verdict.state == "held back":
        print_verdict(verdict, console, testset)


@fits.command()
def diff(
    before: Annotated[str, typer.Argument(help="Earlier fit version; or a test set, to compare its latest two fits.")],
    after: Annotated[
        str | None, typer.Argument(help="Later fit version; leave it out if the first argument is a test set.")
    ] = None,
    workspace: Root = Path(),
    aggregator: ByAggregator = "care",
    json: Json = False,
) -> None:
    """Show which judges' weights and which items' scores changed most between two fits, and why."""
    from assets.publication.differences import difference
    from assets.publication.fit_versions import find
    from orchestration.stores import read_workspace

    loaded = read_workspace(workspace)
    pair = (find(loaded, before), find(loaded, after)) if after is not None else _last_two(loaded, before)
    changes = difference(loaded, *pair, aggregator)
    if json:
        show([asdict(changes)], "", as_json=True)
        return
    title = f"{pair[0].testset}: {pair[0].fit_version} -> {pair[1].fit_version}, {aggregator}"
    console.print(f"{title}\nreasons: {'; '.join(changes.why)}\neffects: {'; '.join(changes.moves())}")
    show([asdict(move) for move in changes.judges[:_JUDGES_SHOWN]], "weights that changed most", as_json=False)
    show([asdict(move) for move in changes.items], "largest estimate changes, in standard deviations", as_json=False)


def _last_two(loaded: Workspace, testset: str) -> tuple[FitVersion, FitVersion]:
    """Return the published fit and the latest fit or, if these are the same fit, the latest two fits."""
    from assets.publication.fit_versions import latest

    versions, now = loaded.fits.fit_versions(loaded.testset(testset).name), latest(loaded, testset)
    published = loaded.fits.published(testset)
    if len(versions) < 2 or now is None:
        raise InputError(
            f"test set {testset!r} needs two fits for a comparison, but has {len(versions)}; run `care run` after "
            "a change of judges, items or labels"
        )
    if published is not None and published[1].fit_version != now.fit_version:
        return published[1], now
    return next(other for other in reversed(versions) if other.fit_version != now.fit_version), now


@fits.command()
def accept(
    testset: Annotated[
        str,
        typer.Argument(help="Test set whose latest fit is blocked, or not published because another fit is pinned."),
    ],
    why: Why = "",
    workspace: Root = Path(),
) -> None:
    """Publish the latest fit of a test set, even if the review blocked it or another fit is pinned."""
    from assets.publication.fit_versions import accept as publish_latest

    _publish("care fits accept", publish_latest, workspace, testset, why, "published")


@fits.command()
def promote(fit: Fit, why: Why = "", workspace: Root = Path()) -> None:
    """Publish and pin a stored fit: later fits are not published, and the pinned fit scores new items."""
    from assets.publication.fit_versions import extend, find
    from assets.publication.fit_versions import promote as publish
    from orchestration.locks import locked_workspace

    with locked_workspace(workspace, "care fits promote") as loaded:
        version = find(loaded, fit)
        publish(loaded, version, by="promote", why=why, pinned=True)
        added = extend(loaded, version)
        outcome = _update(loaded, version.testset)
    more = f"; {added} newer items were scored with it" if added else ""
    _end(outcome, f"{version.testset}: {version.fit_version} is published and pinned{more}")


@fits.command()
def rollback(
    testset: Annotated[str, typer.Argument(help="Name of a test set.")], why: Why = "", workspace: Root = Path()
) -> None:
    """Publish and pin the fit that was published before the current one."""
    from assets.publication.fit_versions import rollback as publish_previous

    _publish("care fits rollback", publish_previous, workspace, testset, why, "published again, and pinned")
