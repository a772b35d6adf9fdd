"""`experiments: {when: changed}` under the daemon: what it asks for, one after the other, and when it keeps quiet."""

from dataclasses import replace

import pytest

from assets.experiments.base import ExperimentFindings
from assets.experiments.registry import KEYS, LEDGER, experiments, outdated, reads_now
from orchestration.dagster_internals import IMPLICIT_ASSET_JOB
from orchestration.definitions import build_defs
from orchestration.instance import workspace_instance
from orchestration.plan import Seen, Tried, experiment_of_the_day, look
from orchestration.workspace import load_workspace
from tests.support.workspaces import QUICK, make

NOON, DAY = 1_800_000_000.0, 86_400.0


@pytest.fixture
def folder(tmp_path):
    folder = make(tmp_path / "ws", n=20)
    with (folder / "care.yaml").open("a") as settings:
        settings.write("experiments: {when: changed}\n")
    return folder


def make_one(workspace, key, seconds=1.0):
    """Keep an experiment as its run does, made from what is there now."""
    findings = ExperimentFindings(["made"])
    experiments()[key].keep(workspace, findings, reads_now(workspace, [key]).get(key), seconds=seconds)


def asked_for(workspace, seen, now, *, killed=(), seconds=1.0):
    """Look until nothing is asked for; what is asked for is made, unless it is killed."""
    asked, tried = [], Tried(2, dict(seen.tried))
    while True:
        found, seen = experiment_of_the_day(workspace, tried, replace(seen, looked_at=now))
        if not found:
            return asked, replace(seen, tried=tried.asked)
        (one,) = found
        tried.note(found)
        asked.append(one.asset)
        if one.asset not in killed:
            make_one(workspace, one.asset, seconds)


def test_everything_is_made_once_and_nothing_where_nothing_has_changed(folder):
    workspace = load_workspace(folder)
    asked, seen = asked_for(workspace, Seen(), NOON)
    assert sorted(asked) == sorted(KEYS)
    assert asked[-1] == LEDGER
    assert outdated(workspace) == []
    assert asked_for(workspace, seen, NOON) == ([], replace(seen, looked_at=NOON))

    workspace.experiment_file("orthogonality").unlink()
    asked, _ = asked_for(workspace, replace(seen, tried={}), NOON)
    assert asked == ["orthogonality"], "it came out as before, so that the ledger, which reads it, has not changed"


def test_what_was_killed_is_asked_for_once_more_and_what_was_made_is_not(folder):
    workspace = load_workspace(folder)
    asked, seen = asked_for(workspace, Seen(), NOON, killed=("theory_rates",))
    assert asked.count("theory_rates") == 2
    assert all(asked.count(key) == 1 for key in KEYS if key not in ("theory_rates", LEDGER))
    assert asked_for(workspace, seen, NOON + DAY)[0] == [], "it failed as often as the daemon tries"

    resumed, _ = asked_for(workspace, Seen(), NOON + DAY)
    assert resumed == ["theory_rates", LEDGER]


def test_the_minutes_of_a_day_are_held_and_the_next_day_goes_on(folder):
    workspace = load_workspace(folder)
    _, seen = asked_for(workspace, Seen(), NOON, seconds=700.0)
    with (folder / "testsets" / "one.yaml").open("a") as sheet:
        sheet.write("description: changed\n")
    for key in ("orthogonality", "theory_rates"):
        experiments()[key].keep(workspace, ExperimentFindings(["old"]), {"made": "from something else"}, seconds=700.0)
    workspace, late = load_workspace(folder), NOON + 2 * DAY
    assert [key for key in outdated(workspace) if key != LEDGER] == ["orthogonality", "theory_rates"]
    tried = Tried(2, dict(seen.tried))
    (first,), seen = experiment_of_the_day(workspace, tried, replace(seen, looked_at=late))
    assert first.asset == "orthogonality"
    make_one(workspace, "orthogonality", seconds=700.0)
    none, seen = experiment_of_the_day(workspace, tried, replace(seen, looked_at=late + 700))
    assert none == [], "seven hundred seconds more do not fit into twelve hundred"
    (then,), _ = experiment_of_the_day(workspace, tried, replace(seen, looked_at=late + DAY))
    assert then.asset == "theory_rates"


def test_the_sensor_asks_only_where_care_yaml_wants_it_and_nothing_is_under_way(after_a_night):
    with workspace_instance(load_workspace(after_a_night)) as instance:
        assert look(load_workspace(after_a_night), instance, Seen(looked_at=NOON))[0] == []
        (after_a_night / "care.yaml").write_text(QUICK + "experiments: {when: changed}\n")
        (request,), seen = look(load_workspace(after_a_night), instance, Seen(looked_at=NOON))
        (key,) = request.asset_selection
        assert key.to_user_string() in KEYS
        (again,), _ = look(load_workspace(after_a_night), instance, replace(seen, looked_at=NOON + 60))
        assert again.asset_selection == request.asset_selection, "it was not made"
        instance.create_run_for_job(
            build_defs(after_a_night).resolve_job_def(IMPLICIT_ASSET_JOB), asset_selection={key}
        )
        assert look(load_workspace(after_a_night), instance, seen)[0] == []
