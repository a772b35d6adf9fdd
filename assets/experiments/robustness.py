"""Robustness to injected bias: the same answers dressed up, scored again by every judge that can be asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assets.experiments.base import Experiment, Findings, Table
from assets.experiments.panels import NO_PANEL, Panel, items_of, panels, scored_by

if TYPE_CHECKING:
    from assets.workspace import Workspace
    from judges.items import Item

Array = NDArray[np.float64]

_AGGREGATORS = ("mv", "avg", "median", "uws", "care", "care_svd", "care_tensor")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_PADDING = (
    "It is worth bearing in mind that this is a matter on which much can be said.",
    "There are, of course, many ways of looking at it.",
    "All of this should be seen in its wider context.",
)


def beauty(text: str) -> str:
    """Emoji, a bold first sentence, the others as a list; not a word is changed."""
    first, *rest = _SENTENCE.split(text.strip())
    return "\n".join([f"✨ **{first}** ✨", "", *(f"- {sentence} 🌟" for sentence in rest)])


def authority(text: str) -> str:
    """A citation of what does not exist."""
    return f"{text.rstrip()} According to a leading study, this is established (Hartmann et al., 2019) [1]."


def verbosity(text: str) -> str:
    """As many words again that say nothing."""
    words, padding = len(text.split()), list[str]()
    while sum(len(line.split()) for line in padding) < words:
        padding.append(_PADDING[len(padding) % len(_PADDING)])
    return " ".join([text.rstrip(), *padding])


TRANSFORMATIONS: dict[str, Callable[[str], str]] = {"beauty": beauty, "authority": authority, "verbosity": verbosity}


def run(workspace: Workspace, _full: bool) -> Findings:
    """Mean absolute change of every aggregate, in its own standard deviations, by transformation."""
    tables, says = list[Table](), list[str]()
    for panel in panels(workspace):
        judges = _programs(workspace, panel)
        if len(judges) < 3 or all(not text for text in panel.responses):
            says.append(
                f"{panel.testset}: not run, {len(judges)} of its {len(panel.scores.judges)} judges can be asked again "
                "here (programs); recorded scores of language models cannot."
            )
            continue
        items = [item for item in items_of(workspace, panel) if item.response]
        before = _scores(judges, items)
        rows: dict[str, dict[str, Any]] = {}
        for name, transform in TRANSFORMATIONS.items():
            dressed = [replace(item, response=transform(item.response or "")) for item in items]
            for aggregator, change in changes(panel, items, judges, before, _scores(judges, dressed)).items():
                rows.setdefault(aggregator, {"aggregator": aggregator})[name] = change
        tables.append(
            Table(f"{panel.testset}: mean absolute change, {len(judges)} program judges", list(rows.values()))
        )
        for name in TRANSFORMATIONS:
            answered = {a: row[name] for a, row in rows.items() if name in row}
            said = ", ".join(f"{a} {answered[a]:.2f}" for a in sorted(answered, key=lambda a: answered[a]))
            says.append(f"{panel.testset}, {name}, in sd, least first: {said}.")
    return Findings(says or [NO_PANEL], tables)


def _programs(workspace: Workspace, panel: Panel) -> dict[str, str]:
    """Of the panel's judges the built-in programs, by name."""
    from judges.spec import ProgramEngine

    found: dict[str, str] = {}
    for judge in panel.scores.judges:
        engine = workspace.judges[judge].engine if judge in workspace.judges else None
        if isinstance(engine, ProgramEngine) and engine.program is not None:
            found[judge] = engine.program
    return found


def changes(
    panel: Panel, items: Sequence[Item], judges: Collection[str], before: Array, after: Array
) -> dict[str, float]:
    """Mean absolute change by aggregator; one fit of the items and their transformed selves, so that scales agree.

    Judges that score all alike stay out, and those that leave more items unscored than admission lets pass.

    Parameters
    ----------
    before, after : (n, judges) arrays
        NaN where a judge gave no score.
    """
    from care_ops.config import AdmissionRule
    from care_ops.fit import fit_panel
    from care_ops.scores import ScoreMatrix

    n, values = len(before), np.vstack([before, after])
    kept = (np.nanstd(values, axis=0) > 0) & (np.isnan(values).mean(axis=0) <= AdmissionRule().max_missing)
    names = tuple(judge for judge, keep in zip(judges, kept, strict=True) if keep)
    ids = (*(item.item_id for item in items), *(f"{item.item_id} again" for item in items))
    scores = ScoreMatrix(values[:, kept], ids, names, panel.scores.families)
    fitted = fit_panel(scores, replace(panel.config, aggregators=_AGGREGATORS)).aggregates
    return {
        name: float(np.nanmean(np.abs(a.estimate[n:] - a.estimate[:n])) / np.nanstd(a.estimate[:n]))
        for name, a in fitted.items()
        if np.nanstd(a.estimate[:n]) > 0
    }


def _scores(judges: Mapping[str, str], items: list[Item]) -> Array:
    """Scores of the programs, a column each."""
    return np.column_stack([scored_by(program, items) for program in judges.values()])


ROBUSTNESS = Experiment(
    key="injected_bias",
    title="Robustness to injected bias",
    asks="How far does an aggregate move when answers are dressed up and nothing else changes?",
    paper="CARE-SVD moves least: .375 against .506 for the mean (beauty), .233 against .325 (authority), of 1 to 10.",
    protocol=(
        "Every response of the test set with emoji and formatting (beauty), a false citation (authority) or padding "
        "(verbosity), scored anew by the panel's program judges. One fit over both versions; the change is in standard "
        "deviations of the aggregate before, since scales differ. A constant would win: read it beside the order."
    ),
    run=run,
)
