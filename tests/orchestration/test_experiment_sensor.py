"""`experiments: {when: changed}` under the daemon: what it asks for, one after the other, and when it keeps quiet."""

import pytest
from dagster import DagsterInstance, RunRequest, SkipReason, build_sensor_context

from assets.experiments.base import ExperimentFindings
from assets.experiments.registry import KEYS, LEDGER, experiments, outdated, reads_now
from orchestration.definitions import build_defs
from orchestration.experiment_sensor import Seen, look
from orchestration.workspace import load_workspace
from tests.support.workspaces import make

NOON, DAY = 1_800_000_000.0, 86_400.0


@pytest.fixture
def folder(tmp_path):
    folder = make(tmp_path / "ws", n=20)
    with (folder / "care.yaml").open("a") as settings:
        settings.write("experiments: {when: changed, minutes: 20}\n")
    return folder


def make_one(workspace, key, seconds=1.0):
    """Keep an experiment as its run does, made from what is there now."""
    findings = ExperimentFindings(["made"])
    experiments()[key].keep(workspace, findings, reads_now(workspace, [key]).get(key), seconds=seconds)


def asked_for(workspace, seen, now, *, killed=(), seconds=1.0):
    """Look until nothing is asked for while the inputs stand still; what is asked for is made, unless it is killed."""
    asked, quiet = [], 0
    while quiet < 2:
        looked = look(workspace, seen, now)
        seen, quiet = looked.seen, 0 if looked.experiment else quiet + 1
        if looked.experiment:
            asked.append(looked.experiment)
            if looked.experiment not in killed:
                make_one(workspace, looked.experiment, seconds)
    return asked, seen


def test_everything_is_made_once_and_nothing_where_nothing_has_changed(folder):
    workspace = load_workspace(folder)
    first = look(workspace, Seen(), NOON)
    assert first.experiment is None
    assert "stands still" in first.why_none, "a night that is still at work changes more"
    asked, seen = asked_for(workspace, first.seen, NOON)
    assert sorted(asked) == sorted(KEYS)
    assert asked[-1] == LEDGER
    assert outdated(workspace) == []
    assert look(workspace, seen, NOON).why_none == "nothing that experiments are made from has changed"

    experiments()["orthogonality"].file(workspace).unlink()
    asked, _ = asked_for(workspace, seen, NOON)
    assert asked == ["orthogonality"], "it came out as before, so that the ledger, which reads it, has not changed"


def test_what_was_killed_is_asked_for_once_more_and_what_was_made_is_not(folder):
    workspace = load_workspace(folder)
    asked, seen = asked_for(workspace, Seen(), NOON, killed=("theory_rates",))
    assert asked.count("theory_rates") >= 2
    assert all(asked.count(key) == 1 for key in KEYS if key not in ("theory_rates", LEDGER))
    assert asked_for(workspace, seen, NOON + DAY)[0] == [], "it failed as often as the daemon tries"

    resumed, seen = asked_for(workspace, Seen(), NOON + DAY)
    assert resumed == ["theory_rates", LEDGER]


def test_the_minutes_of_a_day_are_held_and_the_next_day_goes_on(folder):
    workspace = load_workspace(folder)
    _, seen = asked_for(workspace, Seen(), NOON, seconds=700.0)
    with (folder / "testsets" / "one.yaml").open("a") as sheet:
        sheet.write("description: changed\n")
    for key in ("orthogonality", "theory_rates"):
        experiments()[key].keep(workspace, ExperimentFindings(["old"]), {"made": "from something else"}, seconds=700.0)
    workspace = load_workspace(folder)
    due = [key for key in outdated(workspace) if key != LEDGER]
    assert due == ["orthogonality", "theory_rates"]
    late = NOON + 2 * DAY
    waited = look(workspace, seen, late).seen
    first = look(workspace, waited, late)
    assert first.experiment == "orthogonality"
    make_one(workspace, "orthogonality", seconds=700.0)
    after = look(workspace, first.seen, late + 700)
    assert after.experiment not in due, "seven hundred seconds more do not fit into twelve hundred"
    assert look(workspace, after.seen, late + DAY).experiment == "theory_rates"


def test_the_sensor_asks_only_where_care_yaml_wants_it_and_nothing_is_under_way(folder):
    sensor = build_defs(folder).get_sensor_def("experiments_sensor")
    with DagsterInstance.ephemeral() as instance:

        def evaluate(cursor=None):
            context = build_sensor_context(instance=instance, cursor=cursor)
            return sensor(context), context.cursor

        first, cursor = evaluate()
        assert isinstance(first, SkipReason)
        second, _ = evaluate(cursor)
        assert isinstance(second, RunRequest)
        (key,) = second.asset_selection
        assert key.to_user_string() in KEYS

        instance.create_run_for_job(build_defs(folder).get_implicit_global_asset_job_def())
        busy, _ = evaluate(cursor)
        assert busy.skip_message == "runs are under way"

    (folder / "care.yaml").write_text("experiments: {when: asked}\n")
    with DagsterInstance.ephemeral() as instance:
        assert "only where they are selected" in evaluate(cursor)[0].skip_message
