"""``care run``: ask the conditions what is stale and materialise it, until nothing is.

The workspace's own definitions run in this process on its own Dagster instance, so the UI shows every
run; what is stale is decided by the conditions that the daemon uses.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import dagster as dg

from assets.experiments.due import cheapest_first, is_settled, settle
from assets.experiments.registry import KEYS as EXPERIMENTS
from assets.experiments.registry import experiments, outdated
from assets.fit.kept import panel_is_newer
from assets.metadata import reasons_of
from assets.partitions import JUDGES, SLICES, TESTSETS, slice_key
from assets.state.rebuild import rebuild_warehouse
from assets.state.reconcile import FIT, RESULTS, missing
from assets.state.retention import finish_forgetting, sweep
from assets.workspace import Workspace
from orchestration.alerts import failure_message
from orchestration.dagster_internals import (
    dump_cursor,
    engines_kept,
    evaluated,
    implicit_asset_job,
    load_cursor,
    materialisations,
    runs_of_code_location,
    selected_assets,
    storage_id,
)
from orchestration.instance import (
    CARE_RUN,
    LAUNCHED_BY,
    dagster_home,
    end_abandoned_runs,
    partition_statuses,
    under_way,
)
from orchestration.launches import NO_RETRY, ORDER, Launch, plan, split_partition
from orchestration.observe import observe, report
from warehouse.storage import DamagedError, read_document, write_document

if TYPE_CHECKING:
    from orchestration.dagster_internals import AutomationCursor

_MOST_STEPS = 40
"""A night has about ten steps. One that comes to this many asks for the same work again and again, and is ended."""

_INDEX = ("report_index",)

_CODE_LOCATION = __name__.removesuffix("runner") + "definitions"
"""The code location's name in the UI and the daemon, so that their pages show the runs of ``care run`` as well."""

Requests = dict[str, set[str | None]]
"""Partitions that are asked for, by asset."""

Partition = tuple[str, str | None]
"""An asset, and its partition where it has any."""

Progress = Callable[[Launch, int, int], None]

_logger = logging.getLogger(__name__)


@dataclass
class Outcome:
    """What a ``care run`` did.

    Attributes
    ----------
    materialised : list of (asset, partition)
    left_to_daemon : int
        Runs and backfills of Dagster's daemon or UI that were queued, or waited for the workspace, at the end.
    failures : dict (asset, partition) -> message
        What failed and was not mended by a later run.
    outdated : set of str
        Test sets whose fit is not of the scores, settings and code that are there at the end, and whose fit was asked
        for and did not fail.
    waits_for : str or None
        Where nothing was made: the first stage that what was selected waits for, and that the selection leaves out.
    """

    materialised: list[Partition] = field(default_factory=list[Partition])
    left_to_daemon: int = 0
    failures: dict[Partition, str] = field(default_factory=dict[Partition, str])
    outdated: set[str] = field(default_factory=set[str])
    waits_for: str | None = None


def run_stale(
    defs: dg.Definitions,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    *,
    selection: str | None = None,
    testset: str | None = None,
    judge: str | None = None,
    progress: Progress | None = None,
    again: Partition | None = None,
) -> Outcome:
    """Materialise all that is stale, stage by stage; the caller holds the workspace alone (``locks.alone``).

    Parameters
    ----------
    selection : str, optional
        Dagster's asset selection syntax; only these assets.
    testset, judge : str, optional
        Only partitions of this test set or judge.
    progress : callable, optional
        Called before each run: with the launch, its number, and how many launches this step has.
    again : (asset, partition), optional
        Materialised first, stale or not.
    """
    scope = Scope(selected_assets(defs, selection), testset, judge, by_name=selection is not None)
    with engines_kept(), runs_of_code_location(instance, _CODE_LOCATION):
        _prepare(workspace, instance)
        run = _Run(defs, workspace, instance, scope)
        report(observe(workspace, instance), instance)
        run.requested = _failed_before(instance)
        if again is not None:
            run.requested.setdefault(again[0], set()).add(again[1])
        outcome = Outcome()
        if (workspace.parts.testsets() or not run.is_first) and not workspace.warehouse.usable():
            unreadable = rebuild_warehouse(workspace)
            outcome.failures.update({("judge_inference", name): why for name, why in unreadable.items()})
        for _ in range(_MOST_STEPS):
            launches = run.next()
            for number, launch in enumerate(launches):
                if progress is not None:
                    progress(launch, number, len(launches))
                _execute(defs, instance, launch, outcome)
            run.done(launches)
            if not launches:
                break
        else:
            _logger.warning("After %d steps there is still work; the next `care run` goes on with it.", _MOST_STEPS)
        outcome.left_to_daemon = under_way(instance)
        outcome.outdated = run.outdated(outcome)
        if scope.by_name and not outcome.materialised and not outcome.failures:
            outcome.waits_for = run.waits_for()
        return outcome


def run_launches(
    defs: dg.Definitions, workspace: Workspace, instance: dg.DagsterInstance, launches: Sequence[Launch]
) -> Outcome:
    """Run what a person asked for by name, one launch after the other, up to the first that fails.

    The caller holds the workspace alone (``locks.alone``).
    """
    outcome = Outcome()
    with engines_kept(), runs_of_code_location(instance, _CODE_LOCATION):
        end_abandoned_runs(workspace, instance)
        report(observe(workspace, instance), instance)
        for launch in launches:
            _execute(defs, instance, launch, outcome)
            if outcome.failures:
                break
    return outcome


def _prepare(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    """Finish or clear away what killed processes left behind."""
    end_abandoned_runs(workspace, instance)
    sweep(workspace)
    finish_forgetting(workspace)


class _Run:
    """One ``care run``: asks one source of work after the other for what is to be done next.

    The conditions come first; they act on changes. Once they ask for nothing, the reconciler compares what is there
    with what the workspace asks for. It finds what a change that was lost should have made, and pages that no longer
    say how things stand.
    """

    def __init__(self, defs: dg.Definitions, workspace: Workspace, instance: dg.DagsterInstance, scope: Scope) -> None:
        self._defs, self._workspace, self._instance, self._scope = defs, workspace, instance, scope
        self._cursor_file = CursorFile(workspace, instance)
        cursor = self._cursor_file.load()
        self.is_first = cursor is None
        if cursor is None:
            # The baseline: a first night that is killed must not take what changes meanwhile for the start.
            cursor = evaluated(defs, instance).cursor
            self._cursor_file.save(cursor)
        self._cursor = self._next_cursor = cursor
        self._tried: set[Partition] = set()
        self._asked_once: set[str] = set()
        self._due: list[tuple[str, float]] = []
        self._experiments_end = 0.0
        self._later: Requests = {}
        self._found: Requests = {}
        self.requested: Requests = {}

    def next(self) -> list[Launch]:
        """The runs of the next step; none where nothing is left to do."""
        now, self._later = _scores_first(self._chosen("stale, or to be tried again", self._stale))
        launches = plan(now, self._instance)
        if not launches:
            launches, self._later = plan(self._later, self._instance), {}
        for reason, source in (
            ("without a score of the test set", self._unscored),
            ("missing from what the workspace keeps", self._missing),
            ("experiments that are out of date", self._experiments),
        ):
            launches = launches or plan(self._chosen(reason, source), self._instance)
        return launches

    def done(self, launches: Sequence[Launch]) -> None:
        """Take note that these launches have ended, well or not.

        The cursor is saved only now, so that after a kill the next run sees the same changes again. A narrowed run does
        not save it, because what it leaves out has to be asked for again.
        """
        for launch in launches:
            if launch.assets != _INDEX:
                self._tried.discard((*_INDEX, None))
            self._tried.update((asset, partition) for asset in launch.assets for partition in launch.partitions)
            if launch.assets == ("scores",):  # what was fitted before lacks them
                loaded = {split_partition("scores", str(partition))[1] for partition in launch.partitions}
                self._tried.difference_update((asset, testset) for asset in (*FIT, *RESULTS) for testset in loaded)
        self.requested = self._later
        if not self._scope.is_narrowed:
            self._cursor = self._next_cursor
            self._cursor_file.save(self._cursor)

    def outdated(self, outcome: Outcome) -> set[str]:
        """Test sets in scope whose fit the reconciler still asks for at the end, and of which nothing failed.

        It may ask for each fit once, so that work which comes back outdated every time does not keep a night going.
        What a run of Dagster may be about to make is left to it.
        """
        if "aggregates" not in self._scope.assets or outcome.left_to_daemon:
            return set()
        failed = {split_partition(asset, str(partition))[1] for asset, partition in outcome.failures}
        behind = {str(t) for t in self._found.get("aggregates", ()) if self._scope.has("aggregates", t)}
        return behind - failed

    def waits_for(self) -> str | None:
        """The first stage that was never made and is left out, before a selected one that was never made."""
        unmade = [asset for asset in ORDER if asset not in (*EXPERIMENTS, *_INDEX) and not self._has_made(asset)]
        last = max((place for place, asset in enumerate(unmade) if asset in self._scope.assets), default=0)
        return next((asset for asset in unmade[:last] if asset not in self._scope.assets), None)

    def _has_made(self, asset: str) -> bool:
        statuses = partition_statuses(self._instance, asset, _partitions_of(asset))
        return any(s == "MATERIALIZED" and self._scope.has(asset, partition) for partition, s in statuses.items())

    def _chosen(self, reason: str, source: Callable[[], Requests]) -> Requests:
        """What a source asks for within the scope; only the conditions may ask a second time for the same."""
        may_ask_again = source == self._stale and not self._scope.is_narrowed
        chosen = {
            asset: {
                partition
                for partition in partitions
                if self._scope.has(asset, partition) and (may_ask_again or (asset, partition) not in self._tried)
            }
            for asset, partitions in source().items()
        }
        if not self._scope.by_name:  # a person who selects a result is told why it cannot be made
            self._leave_out_unfitted(chosen)
        for asset, partitions in chosen.items():
            if partitions:
                names = ", ".join(sorted(str(partition) for partition in partitions if partition is not None))
                _logger.info("%s is to be materialised (%s)%s", asset, reason, f": {names}" if names else "")
        return chosen

    def _stale(self) -> Requests:
        """What the conditions ask for, and in the first step what failed last time or was asked for by name."""
        result = evaluated(self._defs, self._instance, self._cursor)
        self._next_cursor = result.cursor
        for asset in ORDER:
            self.requested.setdefault(asset, set()).update(result.get_requested_partitions(dg.AssetKey(asset)))
        return self.requested

    def _leave_out_unfitted(self, chosen: Requests) -> None:
        """Ask for no result of a fit whose panel is newer, or about to be, unless the fit is made too.

        A run of Dagster may be about to make the fit, and wait for this command to end; or this command has made the
        fit, and the panel has changed since. Where nothing else makes the results, they are asked for with the fit.
        """
        asked = {t for asset in RESULTS for t in chosen.get(asset, ()) if t in self._workspace.testsets}
        refitted, made_anew = (chosen.get(asset, set()) for asset in ("aggregates", "panel"))
        newer = {t for t in asked - refitted if panel_is_newer(self._workspace.fit_folder(str(t)))}
        for asset in RESULTS:
            chosen.get(asset, set()).difference_update(newer | (made_anew - refitted))

    def _unscored(self) -> Requests:
        """Judges without scores on the one test set in scope; the conditions would wait for every other test set."""
        testset = self._scope.testset
        if testset is None or not self._once("unscored"):
            return {}
        statuses = partition_statuses(self._instance, "scores", SLICES)
        judges = self._workspace.judges_of(testset)
        return {"judge_inference": {j for j in judges if statuses.get(str(slice_key(j, testset))) != "MATERIALIZED"}}

    def _missing(self) -> Requests:
        """What the reconciler finds missing, whatever happened before."""
        self._found = missing(self._workspace) if self._workspace.warehouse.usable() else {}
        return self._found

    def _experiments(self) -> Requests:
        """Experiments that are out of date, where a person selected them or care.yaml asks for them after changes."""
        if not self._scope.is_narrowed and self._workspace.experiments_when == "changed":
            return self._next_experiment()
        names = self._scope.assets & set(EXPERIMENTS) if self._scope.by_name else set[str]()
        if not names or not self._once("experiments"):
            return {}
        return {key: {None} for key in outdated(self._workspace, names)}

    def _next_experiment(self) -> Requests:
        """The quickest experiment that is out of date and fits into what is left of the night's minutes.

        One at a time, so that the minutes are held; what is done stays done where the night is killed, and what does
        not fit is left to the next night. One that takes longer than all the minutes is only told.
        """
        allowed = 60.0 * self._workspace.experiment_minutes
        if self._once("experiments"):
            if is_settled(self._workspace):
                return {}
            self._due = cheapest_first(self._workspace, outdated(self._workspace))
            self._experiments_end = time.monotonic() + allowed
        self._due = [(key, seconds) for key, seconds in self._due if (key, None) not in self._tried]
        for key, seconds in self._due:
            if time.monotonic() + seconds <= self._experiments_end:
                return {key: {None}}
        if all(seconds > allowed for _, seconds in self._due):
            settle(self._workspace)
        if self._due:
            from assets.experiments.pages import write_experiments

            every = experiments()
            due = [key for key, _ in self._due]
            write_experiments(self._workspace.report_folder, self._workspace, list(every.values()), due)
            _logger.warning(
                "Experiments that stay out of date, because they do not fit into experiments.minutes (%d): %s.",
                self._workspace.experiment_minutes,
                ", ".join(due),
            )
        return {}

    def _once(self, source: str) -> bool:
        is_first_time = source not in self._asked_once
        self._asked_once.add(source)
        return is_first_time


def _scores_first(requested: Mapping[str, set[str | None]]) -> tuple[Requests, Requests]:
    """Part requests into what runs now and what waits for the next step.

    The fit of a test set, and everything computed from it, waits while items or scores of that test set change: a panel
    that is made at once would lack the scores of the new items. Both are asked for in one step where an earlier night
    ended between scores and fit, and items have changed since. A review also waits while the panel is made,
    which the fit follows if it comes out otherwise.
    """
    judging = bool(requested.get("judge_inference"))
    changing = {
        *requested.get("items", ()),
        *(split_partition("scores", str(p))[1] for p in requested.get("scores", ())),
    }
    unfitted = {*requested.get("panel", ())} - {*requested.get("aggregates", ())}
    now: Requests = {}
    later: Requests = {}
    for asset, partitions in requested.items():
        waiting = set[str | None]()
        if asset in (*FIT, *RESULTS):
            waiting = partitions if judging else partitions & changing
        if asset == "review":
            waiting = waiting | (partitions & unfitted)
        now[asset], later[asset] = partitions - waiting, waiting
    return now, later


@dataclass(frozen=True)
class Scope:
    """What a ``care run`` is narrowed to.

    Attributes
    ----------
    by_name : bool
        Whether a person selected the assets.
    """

    assets: set[str]
    testset: str | None
    judge: str | None
    by_name: bool

    @property
    def is_narrowed(self) -> bool:
        """Whether anything is left out."""
        return self.by_name or self.testset is not None or self.judge is not None

    def has(self, asset: str, partition: str | None) -> bool:
        """Whether this partition of this asset is to be run."""
        if asset not in self.assets:
            return False
        if partition is None:
            return True
        judge, testset = split_partition(asset, partition)
        judge_fits = self.judge is None or judge is None or judge == self.judge
        return judge_fits and (self.testset is None or testset is None or testset == self.testset)


class CursorFile:
    """How far ``care run`` has acted on the conditions, kept from one night to the next; the daemon keeps its own.

    A cursor holds numbers of events, so it is read only with the storage of Dagster that numbered them.
    """

    def __init__(self, workspace: Workspace, instance: dg.DagsterInstance) -> None:
        self._path = dagster_home(workspace) / "care_run_cursor.json"
        self._storage = storage_id(instance)

    def load(self) -> AutomationCursor | None:
        """The cursor; None before the first run, and where the file is damaged or of another storage.

        The reconciler then finds what is to be done.
        """
        try:
            document = read_document(self._path)
            if document.get("storage", self._storage) != self._storage:  # earlier releases had one storage only
                return None
            return load_cursor(document["cursor"])
        except FileNotFoundError:
            return None
        except (DamagedError, KeyError, ValueError) as error:  # an earlier release may have written another form
            _logger.warning("%s: cannot be read (%s); it is made anew", self._path, error)
            return None

    def save(self, cursor: AutomationCursor) -> None:
        """Replace the cursor."""
        write_document(self._path, {"cursor": dump_cursor(cursor), "storage": self._storage})


def _execute(defs: dg.Definitions, instance: dg.DagsterInstance, launch: Launch, outcome: Outcome) -> None:
    """Run one launch in this process and add what came of it to the outcome."""
    _logger.info("Running %s.", launch.label)
    result = implicit_asset_job(defs).execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(asset) for asset in launch.assets],
        partition_key=None if launch.tags else launch.partitions[0],
        tags={**launch.tags, LAUNCHED_BY: CARE_RUN, **NO_RETRY},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        raise_on_error=False,
    )
    for asset, partition in materialisations(instance, result.run_id):
        if asset in launch.assets:
            outcome.materialised.append((asset, partition))
            outcome.failures.pop((asset, partition), None)
    materialised = set(outcome.materialised)
    for event in result.all_events:
        if event.is_step_failure and event.step_key is not None:
            message, reasons = failure_message(event), reasons_of(event.step_failure_data)
            for partition in launch.partitions:
                if (event.step_key, partition) not in materialised:
                    why = reasons.get(str(partition), message)
                    outcome.failures[event.step_key, partition] = why
                    _logger.info("%s %s failed: %s", event.step_key, partition or "", why)


def _partitions_of(asset: str) -> dg.PartitionsDefinition:
    return {"judge_inference": JUDGES, "scores": SLICES}.get(asset, TESTSETS)


def _failed_before(instance: dg.DagsterInstance) -> Requests:
    """Partitions whose last run failed, which a person who runs again wants tried again."""
    failed: Requests = {}
    for asset in (asset for asset in ORDER if asset not in _INDEX):
        statuses = partition_statuses(instance, asset, _partitions_of(asset))
        failed[asset] = {p for p, status in statuses.items() if status == "FAILED"}
    for asset, partitions in failed.items():
        if partitions:
            _logger.info("%s failed last time and is tried again: %s", asset, ", ".join(sorted(map(str, partitions))))
    return failed
