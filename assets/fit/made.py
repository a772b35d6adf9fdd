"""Stored input versions of a fit's assets; a changed version makes an asset stale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from assets.fit.stages import STAGES, fit_code, result_code
from assets.hashing import content_hash
from assets.versions import settings_version

if TYPE_CHECKING:
    import dagster as dg

    from assets.workspace import Workspace
    from warehouse.artifacts import FitFolder

    Make = Callable[[dg.AssetExecutionContext, Workspace], dg.MaterializeResult]
    Deps = Sequence[str | dg.AssetDep]

SOLVED = ("moments", "structure")
"""Stages of a fit that depend only on the panel, the settings and the code."""

RESULTS = ("evaluation", "intervals", "systems", "factors")
"""Assets that are computed from a fit."""

FIT = (*STAGES, "review", *RESULTS, "report")
"""Assets of a test set's fit, review, results and page, in the order of computation."""


@dataclass(frozen=True)
class MadeDocument:
    """Version of a result's inputs, and hash of the result's content.

    Attributes
    ----------
    version : str
        Hash of the result's code and the versions of all inputs.
    content : str
        Hash of the result if another asset depends on it; otherwise empty.
    """

    version: str
    content: str = ""


def built_from(folder: FitFolder, asset: str) -> MadeDocument:
    """Read the stored version of an asset's inputs; the version is empty if the asset was never built."""
    return folder.find(MadeDocument, f"made.{asset}") or MadeDocument("")


def note(folder: FitFolder, asset: str, version: str, content: str = "") -> None:
    """Store the version of an asset's inputs."""
    folder.write(MadeDocument(version, content), f"made.{asset}")


def asset_of_testsets(deps: Deps, description: str, **more: Any) -> Callable[[Make], dg.AssetsDefinition]:
    """Return a decorator that builds an asset with a partition per test set and stores the asset's input version."""
    import dagster as dg  # half of the time of `care status`

    from assets.partitions import TESTSETS

    def asset(make: Make) -> dg.AssetsDefinition:
        group = make.__module__.split(".")[-2]
        more.update(group_name=group, code_version=fit_code() if group == "fit" else result_code())
        return dg.asset(partitions_def=TESTSETS, deps=deps, description=description, **more)(_store_inputs(make))

    return asset


def _store_inputs(make: Make) -> Make:
    @wraps(make)
    def making(context: dg.AssetExecutionContext, workspace: Workspace) -> dg.MaterializeResult:
        asset, testset = make.__name__, context.partition_key
        # Without selected assets, only checks run. Panel and aggregates store their inputs in their own documents.
        if not context.selected_asset_keys or asset in ("panel", "aggregates"):
            return make(context, workspace)
        version = result_version(workspace, testset, asset)
        result = make(context, workspace)
        note(workspace.fit_folder(testset), asset, version)
        return result

    return making


def result_version(workspace: Workspace, testset: str, asset: str) -> str:
    """Hash the current versions of a result's code, fit and other inputs."""
    from assets.fit.documents import FitDocument, PanelDocument

    folder = workspace.fit_folder(testset)
    if asset in SOLVED:
        panel = folder.find(PanelDocument)
        return content_hash([fit_code(), None if panel is None else panel.panel, settings_version(workspace, testset)])
    if asset == "report":
        latest = workspace.fits.publications(testset)[-1:]
        shown = [(publication.fit_version, publication.published_by, publication.pinned) for publication in latest]
        inputs = [result_code(), shown, [built_from(folder, each).version for each in (*RESULTS, "review")]]
        absent = workspace.admission.absent  # the panel may stay the same, but not the sentence about missing scores
        return content_hash(inputs if absent == "auto" else [*inputs, absent])
    fit = folder.find(FitDocument)
    made_of: list[object] = [result_code(), None if fit is None else fit.fit_version]
    if asset != "factors":
        made_of.append(workspace.parts.items_version(testset, "gold_version"))
    if asset == "systems":
        systems = workspace.testset(testset).systems
        made_of.append(systems[::-1] if workspace.higher_is_right(testset) else systems)
    if asset == "review":
        made_of.append(asdict(workspace.review))
    return content_hash(made_of)
