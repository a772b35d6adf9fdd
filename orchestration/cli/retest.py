"""``care judges retest``: ask a judge again about a few items that it has scored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from care_ops.errors import InputError
from orchestration.cli.output import Root, console, print_failures

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from orchestration.launches import Launch


def retest(
    name: Annotated[str, typer.Argument(help="Name of the judge.")],
    workspace: Root = Path(),
) -> None:
    """Ask a judge again about a few items that it has scored, and show on its card how far its scores moved."""
    from assets.report.retests import last_retest
    from orchestration.definitions import build_defs
    from orchestration.instance import workspace_instance
    from orchestration.locks import workspace_alone
    from orchestration.runner import run_launches

    with workspace_alone(workspace, "care judges retest") as loaded:
        _must_be_askable(loaded, name)
        with workspace_instance(loaded) as instance:
            outcome = run_launches(build_defs(loaded.root, loaded), loaded, instance, _launches(loaded, name))
            found = last_retest(instance, name)
    print_failures(outcome)
    if outcome.failures:
        raise typer.Exit(1)
    if found is None:
        console.print(f"{name}: it has scored no item yet; `care run` has it score them")
    elif found.moved is None:
        console.print(f"{name}: it answered none of {found.items} items")
    else:
        console.print(
            f"{name}: asked again about {found.items} items, its scores moved by {found.moved:.1%} of the scale on "
            f"average{f'; answered by {found.answered_by}' if found.answered_by else ''}"
        )


def _must_be_askable(loaded: Workspace, name: str) -> None:
    from judges.items import FROM_A_FILE

    if loaded.judge(name).engine.needs.recordings:
        raise InputError(f"judge {name!r}: {FROM_A_FILE}")
    if loaded.canary.items == 0:
        raise InputError("care.yaml: `canary: {items: 0}` lets no judge be asked again; give a number of items")


def _launches(loaded: Workspace, name: str) -> list[Launch]:
    """The canary, then the pages that show what it found; those of a fit that is held back or stale come later."""
    from assets.fit.kept import panel_is_newer
    from assets.publication.editions import held_back
    from assets.report.names import page_name
    from orchestration.launches import Launch

    launches = [Launch(("canary",), (name,), {})]
    for testset in loaded.testsets_of(name):
        is_drawn = (loaded.report_folder / page_name(testset)).is_file()
        if is_drawn and held_back(loaded, testset) is None and not panel_is_newer(loaded.fit_folder(testset)):
            launches.append(Launch(("report",), (testset,), {}))
    return launches
