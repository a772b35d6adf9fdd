"""The daemon's part in `experiments: {when: changed}`: which experiment it asks for next.

One at a time and the quickest first, as ``care run`` does, within the minutes of a day (UTC) from the first one on.
What a killed run did not make is still out of date at the next look and is asked for again, once.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime

import dagster as dg

from assets.experiments.due import cheapest_first, inputs_version, is_settled, settle
from assets.experiments.registry import outdated
from assets.workspace import Workspace
from orchestration.launches import NO_RETRY

_ATTEMPTS = 2
"""How often an experiment is tried, like any asset: once, and once more where that failed."""


@dataclass(frozen=True)
class Seen:
    """What the sensor knows from its last look.

    Attributes
    ----------
    inputs : str
        Version of what experiments are made from.
    tried : dict experiment -> count
        How often each was asked for since the inputs have this version.
    day : str
        On which an experiment was last asked for.
    until : float
        When the minutes of that day end, in seconds since 1970.
    quiet_on : str
        Day on which nothing more is to be asked for unless the inputs change.
    """

    inputs: str = ""
    tried: dict[str, int] = field(default_factory=dict[str, int])
    day: str = ""
    until: float = 0.0
    quiet_on: str = ""


@dataclass(frozen=True)
class Look:
    """What follows from one look: an experiment to ask for, or else why there is none; and what is remembered."""

    experiment: str | None
    why_none: str
    seen: Seen


def look(workspace: Workspace, seen: Seen, now: float) -> Look:
    """Decide which experiment is to be asked for, while nothing else is at work.

    Parameters
    ----------
    now : float
        Seconds since 1970.
    """
    if is_settled(workspace):
        return Look(None, "nothing that experiments are made from has changed", seen)
    inputs, day = inputs_version(workspace), datetime.fromtimestamp(now, UTC).date().isoformat()
    if inputs != seen.inputs:
        why = "what experiments are made from has changed since the last look; they wait until it stands still"
        return Look(None, why, replace(seen, inputs=inputs, tried={}, quiet_on=""))
    if seen.quiet_on == day:
        return Look(None, "what is still out of date does not fit into the day's minutes, or failed twice", seen)
    allowed = 60.0 * workspace.experiment_minutes
    if seen.day != day:
        seen = replace(seen, day=day, until=now + allowed)
    due = cheapest_first(workspace, outdated(workspace))
    for key, seconds in due:
        times = seen.tried.get(key, 0)
        if times < _ATTEMPTS and now + seconds <= seen.until:
            return Look(key, "", replace(seen, tried={**seen.tried, key: times + 1}))
    if all(seconds > allowed for _, seconds in due):
        settle(workspace)
    left = ", ".join(key for key, _ in due) or "none"
    return Look(None, f"experiments that stay out of date: {left}", replace(seen, quiet_on=day))


def experiment_sensor(load: Callable[[], Workspace], watch_seconds: int) -> dg.SensorDefinition:
    """The sensor that asks for experiments which are out of date, where care.yaml wants them after changes."""

    @dg.sensor(
        name="experiments_sensor",
        target=dg.AssetSelection.groups("experiments"),
        minimum_interval_seconds=watch_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for experiments that are out of date, one at a time, where care.yaml says `when: changed`.",
    )
    def experiments_sensor(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        from orchestration.instance import under_way

        workspace = load()
        if workspace.experiments_when != "changed":
            return dg.SkipReason("care.yaml has experiments made only where they are selected")
        if under_way(context.instance):
            return dg.SkipReason("runs are under way")
        looked = look(workspace, Seen(**json.loads(context.cursor or "{}")), time.time())
        context.update_cursor(json.dumps(asdict(looked.seen)))
        if looked.experiment is None:
            return dg.SkipReason(looked.why_none)
        return dg.RunRequest(asset_selection=[dg.AssetKey(looked.experiment)], tags=NO_RETRY)

    return experiments_sensor
