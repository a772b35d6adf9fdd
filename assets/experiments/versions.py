"""Judges on versions of the same answers: those that a test set has, and those that can be made and scored here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assets.experiments.panels import ExperimentPanel, every_panel, program_of, scored_by
from assets.judge_keys import judge_item
from assets.workspace import Workspace
from care_ops.config import FitConfig
from care_ops.fit import fit_panel
from care_ops.least import LEAST_JUDGES
from care_ops.records import Aggregate
from care_ops.scores import Array, ScoreMatrix
from judges.programs import find, names
from warehouse.items import ItemRecord
from warehouse.testsets import VersionColumns
from warehouse.versions import ORIGINAL, TRANSFORMATIONS, TRIGGERS, versions_of


@dataclass(frozen=True)
class JudgesSorted:
    """The judges of a comparison, sorted by whether they can be in its fit.

    Attributes
    ----------
    unscored : tuple of str
        They leave more unscored than admission lets pass.
    constant : tuple of str
        They score all alike.
    """

    used: tuple[str, ...]
    unscored: tuple[str, ...]
    constant: tuple[str, ...]


@dataclass(frozen=True)
class Versions:
    """Scores of the same judges on answers and on what was made of them.

    Attributes
    ----------
    judges : tuple of p str
    families : mapping judge -> family
    asked_here : bool
        Whether the judges are programs that the experiment itself asked. Otherwise they are the test set's panel.
    originals : (n, p) array
        NaN where a judge gave no score.
    changed : dict change -> ((m,) array of int, (m, p) array)
        Row of the original that each version was made from, and the version's scores.
    max_missing : float
        Share of its scores that a judge may leave out.
    """

    testset: str
    judges: tuple[str, ...]
    families: Mapping[str, str]
    asked_here: bool
    originals: Array
    changed: Mapping[str, tuple[NDArray[np.intp], Array]]
    config: FitConfig
    max_missing: float = 0.10

    @property
    def asked(self) -> str:
        """How the scores came about, as words for a title."""
        n = len(self.judges)
        return f"{n} program judges, asked here" if self.asked_here else f"the panel's {n} judges"

    def judges_sorted(self, change: str) -> JudgesSorted:
        """Who can be in the fit of the originals and these versions, and who cannot."""
        used, unscored, constant = list[str](), list[str](), list[str]()
        for judge, column in zip(self.judges, np.vstack([self.originals, self.changed[change][1]]).T, strict=True):
            scores = column[~np.isnan(column)]
            if len(scores) < (1 - self.max_missing) * len(column):
                unscored.append(judge)
            else:
                (used if np.ptp(scores) > 0 else constant).append(judge)
        return JudgesSorted(tuple(used), tuple(unscored), tuple(constant))

    def fitted(self, change: str, aggregators: Sequence[str]) -> dict[str, Aggregate]:
        """Aggregates of the originals and, after them, the versions.

        One fit of both, so that scales agree. Judges that score all alike stay out, and those that leave more
        unscored than admission lets pass.

        Raises ``FitError`` where fewer than two judges are left.
        """
        values, names = np.vstack([self.originals, self.changed[change][1]]), self.judges_sorted(change).used
        ids = tuple(f"i{k:06}" for k in range(len(values)))
        families = {judge: self.families[judge] for judge in names if judge in self.families}
        columns = [self.judges.index(judge) for judge in names]
        scores = ScoreMatrix(values[:, columns], ids, names, families)
        return fit_panel(scores, replace(self.config, aggregators=tuple(aggregators))).aggregates


def dressed(workspace: Workspace) -> tuple[list[Versions], list[str]]:
    """Answers that say the same in another dress; and why other test sets have none."""
    return _versions(workspace, tuple(TRANSFORMATIONS), lambda change: change not in TRIGGERS, references=False)


def triggered(workspace: Workspace) -> tuple[list[Versions], list[str]]:
    """Openings that answer nothing, where a reference says what is right; and why other test sets have none."""
    return _versions(workspace, tuple(TRIGGERS), lambda change: change in TRIGGERS, references=True)


def _versions(
    workspace: Workspace, changes: tuple[str, ...], wanted: Callable[[str], bool], *, references: bool
) -> tuple[list[Versions], list[str]]:
    """Test sets with versions of their answers, and why the others have none.

    A test set that says which of its items are versions is read as its judges scored it, or, where it has fewer than
    three, as the built-in programs do here. Of any other with texts versions are made, and its program judges asked.
    """
    with_versions, reasons = list[Versions](), list[str]()
    with_panel = {panel.testset: panel for panel in every_panel(workspace)}
    for testset in sorted(workspace.testsets):
        columns, panel = workspace.testset(testset).version_columns, with_panel.get(testset)
        if not workspace.parts.items_file(testset).exists():
            reasons.append(f"{testset}: not run, its items are not there yet.")
            continue
        records = workspace.parts.read_items(testset)
        if columns is None:
            mute = "responses" if all(not r.response for r in records) else ""
            mute = "references" if not mute and references and all(not r.reference for r in records) else mute
            judges = () if panel is None else panel.scores.judges
            programs = {judge: program for judge in judges if (program := program_of(workspace, judge)) is not None}
            if mute or len(programs) < LEAST_JUDGES:
                reasons.append(
                    f"{testset}: not run, its items carry no {mute}."
                    if mute
                    else f"{testset}: not run, {len(programs)} of its judges are built-in programs, which can be asked "
                    f"again here. For others add a test set with `source: {{kind: versions, of: {testset}}}` to what "
                    "they score, and the night asks them."
                )
                continue
            records, columns, panel = versions_of(records, changes, None), VersionColumns(), None
        else:
            programs = {name: name for name in names()}
            panel = panel if panel is not None and len(panel.scores.judges) >= LEAST_JUDGES else None
        compared = _compared(workspace, testset, records, columns, wanted, programs, panel)
        if compared is not None and compared.changed:
            with_versions.append(compared)
    return with_versions, reasons


def _compared(
    workspace: Workspace,
    testset: str,
    records: Sequence[ItemRecord],
    columns: VersionColumns,
    wanted: Callable[[str], bool],
    programs: Mapping[str, str],
    panel: ExperimentPanel | None,
) -> Versions | None:
    """Records sorted into originals and versions, scored by the panel, or by programs (judge -> program).

    None where no version is wanted: then nobody is asked.
    """
    originals: dict[str, ItemRecord] = {}
    versions: list[tuple[str, str, ItemRecord]] = []
    for record in records:
        pair, change = columns.told(record.metadata) or ("", "")
        if change == ORIGINAL:
            originals[pair] = record
        elif change and wanted(change):
            versions.append((pair, change, record))
    if not versions:
        return None
    if panel is None:
        names = tuple(programs)
        families = {judge: find(program).family for judge, program in programs.items()}
        items = [judge_item(record) for record in (*originals.values(), *(record for *_, record in versions))]
        values = np.column_stack([scored_by(program, items) for program in programs.values()])
        scores_of = {item.item_id: row_of for item, row_of in zip(items, values, strict=True)}
    else:
        names, families = panel.scores.judges, dict(panel.scores.families)
        scores_of = dict(zip(panel.scores.item_ids, panel.scores.values, strict=True))
    pairs = [pair for pair, record in originals.items() if record.item_id in scores_of]
    row_of = {pair: k for k, pair in enumerate(pairs)}
    by_change: dict[str, list[tuple[int, Array]]] = {}
    for pair, change, record in versions:
        if pair in row_of and record.item_id in scores_of:
            by_change.setdefault(change, []).append((row_of[pair], scores_of[record.item_id]))
    return Versions(
        testset,
        names,
        families,
        panel is None,
        np.array([scores_of[originals[pair].item_id] for pair in pairs]).reshape(-1, len(names)),
        {c: (np.array([k for k, _ in of]), np.array([v for _, v in of])) for c, of in by_change.items()},
        workspace.fit_config(testset),
        workspace.admission.max_missing,
    )
