"""Tests of alerts about failed and late nightly runs, and of a second daemon."""

import json
import socketserver
from dataclasses import asdict
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from zoneinfo import ZoneInfo

import dagster as dg
import pytest

from assets.judging.bill import latest_bill_message
from assets.report.names import page_name
from care_ops.errors import InputError, WarehouseError
from orchestration.alert_causes import _LOST, failure_cause, report_conditions, report_failures
from orchestration.alerts import KINDS, Alert, AlertError, Notifier, opened, post, write_line
from orchestration.definitions import build_defs
from orchestration.instance import workspace_instance
from orchestration.locks import hold_daemon_lock
from orchestration.workspace import AlertSettings, NightlySettings, load_workspace
from tests.support.servers import LocalServer, QuietHandler
from tests.support.workspaces import QUICK, care, make


@pytest.fixture
def hook():
    """Start a server that accepts POST requests at any path, except the first ``refuse``."""
    taken: list[dict] = []
    state = {"refuse": 0}

    class Handler(QuietHandler, BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state["refuse"] -= 1
            if state["refuse"] < 0:  # before the answer: who sent it does not wait for what follows
                taken.append({**body, "path": self.path})
            self.send_content(b"", 503 if state["refuse"] >= 0 else 200)

    with LocalServer(Handler) as server:
        yield f"http://127.0.0.1:{server.server_port}/secret", taken, state


ALERT = opened(Alert("night late", "The last night ended 30 hours ago."), "ws")


def test_an_alert_reaches_webhook_and_file_after_a_refused_attempt(hook, tmp_path, monkeypatch):
    address, taken, state = hook
    monkeypatch.setenv("CARE_TEST_HOOK", address)
    settings = AlertSettings(webhook="${CARE_TEST_HOOK}", file="alerts.jsonl")
    state["refuse"] = 1
    post(settings, ALERT)
    write_line(settings, tmp_path, ALERT)
    assert taken == [{**json.loads(json.dumps(asdict(ALERT))), "text": ALERT.text, "path": "/secret"}]
    assert json.loads((tmp_path / "alerts.jsonl").read_text())["text"] == ALERT.text
    state["refuse"] = 99
    with pytest.raises(AlertError, match=r"alerts\.webhook") as caught:
        post(settings, ALERT)
    assert "secret" not in str(caught.value), "an address is a secret"


CAUSES = (
    Alert("night late", "The last night ended 30 hours ago."),
    failure_cause("panel", "one", _LOST, "run lost"),
    failure_cause("items", "one", "one.csv: no such file"),
    failure_cause("judge_inference", "sonnet", "the server refuses the key"),
    failure_cause("scores", "haiku|one", "3 of 40 items have no score yet"),
    failure_cause("structure", "two", "the solver did not converge"),
    failure_cause("report", "one", "the disk is full"),
    Alert("held back", "one: Waiting. A new fit waits for your review.", "one", what_to_do="Look at it.", asset="e1"),
    Alert("model changed", "gpt: 5 items moved by 30.0% of the scale", judge="gpt"),
    failure_cause("ledger", None, "a table is gone"),
)


def test_each_kind_of_alert_is_sent_once_and_resolved_once(hook, tmp_path):
    address, taken, _ = hook
    settings = AlertSettings(webhook=address)
    notifier = Notifier(settings, tmp_path, tmp_path / "data")
    page = tmp_path / "data" / "report" / page_name("one")
    page.parent.mkdir(parents=True)
    page.write_text("one")
    assert [notifier.report(cause) for cause in CAUSES] == [True] * 10
    notifier.send()
    assert len({each["kind"] for each in taken}) == len({each["key"] for each in taken}) == 10
    for each, cause in zip(taken, CAUSES, strict=True):
        assert each["state"] == "open"
        assert each["workspace"] == tmp_path.name
        assert each["severity"] == KINDS[cause.kind][0]
        assert (each["what"], each["testset"], each["judge"]) == (cause.what, cause.testset, cause.judge)
        assert each["link"] == (page.as_uri() if cause.testset == "one" else None)
        assert each["what_to_do"] == (cause.what_to_do or KINDS[cause.kind][1])
        assert datetime.fromisoformat(each["since"]) <= datetime.now(UTC)
        assert (
            each["text"] == f"CARE: {tmp_path.name} needs attention. {each['what'].rstrip('.')}. {each['what_to_do']}"
        )
    again = Notifier(settings, tmp_path, tmp_path / "data")  # another process, later
    assert [again.report(cause) for cause in CAUSES] == [False] * 10
    again.send()
    assert len(taken) == 10
    again.resolve(lambda alert: alert.kind in ("judge failed", "held back"))
    again.send()
    assert [(each["kind"], each["state"]) for each in taken[10:]] == [
        ("judge failed", "resolved"),
        ("held back", "resolved"),
    ]
    assert [each["key"] for each in taken[10:]] == [taken[3]["key"], taken[7]["key"]]
    assert taken[10]["since"] == taken[3]["since"], "an alert that is over says since when it was there"
    assert again.report(CAUSES[3]), "what comes back is a cause anew"


def test_a_rejected_alert_does_not_block_the_file_or_other_alerts(hook, tmp_path):
    address, taken, state = hook
    notifier = Notifier(AlertSettings(webhook=address, file="alerts.jsonl"), tmp_path, tmp_path / "data")
    state["refuse"] = 4  # the first cause three times, and the second one once
    notifier.resolve(lambda _: True)
    for cause in CAUSES:
        notifier.report(cause)
    with pytest.raises(AlertError, match=r"alerts\.webhook"):
        notifier.send()
    lines = [json.loads(line)["kind"] for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    assert lines == [cause.kind for cause in CAUSES]
    assert [each["kind"] for each in taken] == lines[1:], "one that it refuses keeps no other from it"
    notifier.send()
    assert [each["kind"] for each in taken[9:]] == lines[:1]


def test_an_unreachable_webhook_is_tried_for_one_alert_only(tmp_path, monkeypatch):
    with socketserver.TCPServer(("127.0.0.1", 0), None) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
    tried = []
    monkeypatch.setattr("orchestration.alerts.post", lambda *printed: (tried.append(printed), post(*printed)))
    notifier = Notifier(AlertSettings(webhook=address), tmp_path, tmp_path / "data")
    for cause in CAUSES:
        notifier.report(cause)
    with pytest.raises(AlertError, match="ConnectError"):
        notifier.send()
    assert len(tried) == 1


def test_the_alert_file_is_written_while_the_webhook_is_down(hook, tmp_path):
    address, taken, state = hook
    settings = AlertSettings(webhook=address, file="alerts.jsonl")

    def notifier():
        return Notifier(settings, tmp_path, tmp_path / "data")  # of the next tick, in a process of its own

    def lines():
        return [json.loads(line)["state"] for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]

    def look(*, fails):
        now = notifier()
        now.report(CAUSES[0]) if fails else now.resolve(lambda _: True)
        now.send()

    state["refuse"] = 1000
    for _ in range(3):
        with pytest.raises(AlertError):
            look(fails=True)
    assert lines() == ["open"]
    state["refuse"] = 0
    for _ in range(2):
        look(fails=True)
    assert [each["state"] for each in taken] == lines() == ["open"], "told as soon as somebody takes it"
    state["refuse"] = 1000
    for _ in range(3):
        with pytest.raises(AlertError):
            look(fails=False)
    assert lines() == ["open", "resolved"]
    state["refuse"] = 0
    look(fails=False)
    assert [each["state"] for each in taken] == lines() == ["open", "resolved"]
    state["refuse"] = 1000
    with pytest.raises(AlertError):
        look(fails=True)
    state["refuse"] = 0
    for _ in range(2):
        look(fails=False)
    assert lines() == ["open", "resolved"] * 2, "what came again is a cause anew"
    assert len(taken) == 2, "nobody is told of the end of what he never heard of"


def test_slack_gets_its_format(hook, tmp_path):
    address, taken, _ = hook
    notifier = Notifier(AlertSettings(webhook=f"slack+{address}"), tmp_path, tmp_path / "data")
    notifier.report(Alert("model changed", "gpt: <3 & more", judge="gpt"))
    notifier.send()
    notifier.resolve(lambda _: True)
    notifier.send()
    assert [each.keys() for each in taken] == [{"text", "path"}] * 2
    assert "gpt: &lt;3 &amp; more" in taken[0]["text"], "as Slack has it written"
    assert "resolved" in taken[1]["text"]


def test_missing_scores_of_a_failed_judge_send_no_second_alert(hook, tmp_path):
    address, taken, _ = hook
    notifier = Notifier(AlertSettings(webhook=address), tmp_path, tmp_path / "data")
    lacking = failure_cause("scores", "sonnet|one", "40 of 40 items have no score yet")
    report_failures(notifier, [lacking, failure_cause("judge_inference", "sonnet", "refused"), CAUSES[4]])
    notifier.send()
    assert [(each["kind"], each["judge"]) for each in taken] == [("judge failed", "sonnet"), ("scores failed", "haiku")]


@pytest.mark.parametrize("items", ["one.csv: no such file; correct the path", None])
def test_a_missing_score_file_sends_one_alert_for_all_its_judges(tmp_path, items):
    notifier = Notifier(AlertSettings(file="alerts.jsonl"), tmp_path, tmp_path / "data")
    failed = [failure_cause("judge_inference", f"j{k}", "one: one.csv: no such file") for k in range(8)]
    failed += [] if items is None else [failure_cause("items", "one", items)]
    report_failures(notifier, failed)
    (cause,) = notifier.open.values()
    assert cause.kind == ("judge failed" if items is None else "source failed")
    report_failures(notifier, [failure_cause("judge_inference", "sonnet", "the server refuses the key")])
    assert len(notifier.open) == 2


KEY = "judge {!r}: the endpoint returned HTTP {} for model {!r} ({}); check base_url, model and the key"


def test_the_same_failure_of_six_judges_sends_one_alert_with_the_latest_reason(hook, tmp_path):
    address, taken, _ = hook
    names = [f"j{k}" for k in range(6)]

    def fail(code, message, judges=names):
        notifier = Notifier(AlertSettings(webhook=address), tmp_path, tmp_path / "data")
        for some in judges if isinstance(judges[0], list) else [judges]:
            why = {name: KEY.format(name, code, f"m-{name}", message) for name in some}
            report_failures(notifier, [failure_cause("judge_inference", name, why[name]) for name in some])
        notifier.send()
        return [*Notifier(AlertSettings(webhook=address), tmp_path, tmp_path / "data").open.values()]

    (alert,) = fail(401, "incorrect key, request 17")
    assert all(name in alert.what for name in names)
    fail(401, "incorrect key, request 18", [[name] for name in names])  # as runs of the daemon fail one by one
    assert len(taken) == 1
    (alert,) = fail(503, "overloaded")
    assert "HTTP 503" in alert.what
    assert [each["state"] for each in taken] == ["open", "open"]
    assert "overloaded" in taken[1]["text"]
    assert (taken[1]["key"], taken[1]["since"]) == (taken[0]["key"], taken[0]["since"])


@pytest.mark.parametrize("one_by_one", [False, True])
def test_an_alert_of_several_judges_is_open_until_each_is_fixed(tmp_path, monkeypatch, one_by_one):
    workspace = load_workspace(make(tmp_path / "ws"))
    settings = AlertSettings(file="alerts.jsonl")
    notifier = Notifier(settings, workspace.root, workspace.data)
    failed = [failure_cause("judge_inference", name, KEY.format(name, 401, name, "no key")) for name in "abc"]
    for causes in [[each] for each in failed] if one_by_one else [failed]:
        report_failures(notifier, causes)
    for stale in ("bc", "c", ""):
        monkeypatch.setattr("orchestration.plan.find_stale", lambda _, s=stale: [("judge_inference", x) for x in s])
        later = Notifier(settings, workspace.root, workspace.data)
        report_conditions(later, workspace, dg.DagsterInstance.ephemeral(), {}, None)
        report_failures(later, [failure_cause("scores", f"{name}|one", "no score yet") for name in stale])
        assert [alert.judge for alert in later.open.values()] == (["a"] if stale else [])


def test_the_alert_of_an_experiment_is_resolved_once_it_is_materialised(hook, tmp_path):
    """Staleness is not relevant, because nightly runs do not run experiments."""
    address, taken, _ = hook
    workspace = load_workspace(make(tmp_path / "ws"))
    notifier = Notifier(AlertSettings(webhook=address), workspace.root, workspace.data)
    report_failures(notifier, [failure_cause("theory_rates", None, "a table is gone")])
    notifier.send()
    with dg.DagsterInstance.ephemeral() as instance:

        def look():
            report_conditions(notifier, workspace, instance, {}, None)
            notifier.send()

        look()
        assert [each["state"] for each in taken] == ["open"]
        instance.report_runless_asset_event(dg.AssetMaterialization("ledger"))
        look()
        assert len(taken) == 1, "that another one has been made says nothing of it"
        instance.report_runless_asset_event(dg.AssetMaterialization("theory_rates"))
        look()
    assert [(each["kind"], each["state"]) for each in taken[1:]] == [("experiment failed", "resolved")]


def test_two_notifiers_keep_each_others_alerts(tmp_path):
    settings = AlertSettings(file="told.jsonl")
    first, second = (Notifier(settings, tmp_path, tmp_path / "data") for _ in range(2))
    assert first.report(CAUSES[0])
    assert second.report(CAUSES[1])
    later = Notifier(settings, tmp_path, tmp_path / "data")
    assert [alert.kind for alert in later.open.values()] == ["night late", "run lost"]


def test_a_late_nightly_run_is_not_resolved_by_care_run(hook, tmp_path):
    address, taken, _ = hook
    workspace = load_workspace(make(tmp_path / "ws"))
    notifier = Notifier(AlertSettings(webhook=address), workspace.root, workspace.data)
    nightly = NightlySettings(at="02:00", deadline_hours=1)
    with dg.DagsterInstance.ephemeral() as instance:
        nightly_run = instance.report_runless_asset_event

        def look():
            report_conditions(notifier, workspace, instance, {}, nightly)
            notifier.send()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("orchestration.instance.last_nightly_run", lambda *_: 0.0)
            look()
            look()
        assert [(each["kind"], each["state"]) for each in taken] == [("night late", "open")]
        nightly_run(dg.AssetMaterialization("night"))
        look()
    assert [(each["kind"], each["state"]) for each in taken[1:]] == [("night late", "resolved")]


def test_the_heartbeat_is_sent_once_and_only_without_failures(hook, tmp_path):
    address, taken, _ = hook
    settings = AlertSettings(heartbeat=f"{address}/beat", webhook=address)
    notifier = Notifier(settings, tmp_path, tmp_path / "data")
    notifier.report(CAUSES[3])
    assert not notifier.needs_heartbeat(7.0), "a judge has failed"
    notifier.resolve(lambda _: True)
    notifier.report(CAUSES[7])
    assert not notifier.needs_heartbeat(7.0), "an answer waits for a person, who may not have seen the alert"
    notifier.resolve(lambda _: True)
    notifier.report(CAUSES[8])
    notifier.send()
    assert notifier.needs_heartbeat(7.0), "a warning is no failure"
    notifier.send_heartbeat(7.0, "Judges took US $ 1.")
    printed = {"workspace": tmp_path.name, "night": 7.0, "bill": "Judges took US $ 1.", "path": "/secret/beat"}
    assert taken[-1] == printed
    later = Notifier(settings, tmp_path, tmp_path / "data")
    assert not later.needs_heartbeat(7.0)
    assert later.needs_heartbeat(8.0)


def test_a_webhook_url_from_the_environment_is_stripped_and_validated(hook, tmp_path, monkeypatch):
    address, taken, _ = hook
    settings = AlertSettings(webhook="${CARE_TEST_HOOK}")
    monkeypatch.setenv("CARE_TEST_HOOK", f"{address}\n")
    post(settings, ALERT)
    assert [each["what"] for each in taken] == [ALERT.what]
    monkeypatch.setenv("CARE_TEST_HOOK", "a secret that is no address")
    with pytest.raises(InputError, match="CARE_TEST_HOOK does not hold an https URL") as caught:
        post(settings, ALERT)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("last", "deadline"),
    [
        ("2026-11-24 02:10", "2026-11-25 08:00"),
        ("2026-11-22 01:00", "2026-11-22 08:00"),  # `care run` by hand, before the nightly run
        ("2026-10-24 02:10", "2026-10-25 07:00"),  # the clock goes back: six hours are five on it
    ],
)
def test_the_deadline_depends_on_the_hour_of_the_nightly_run(last, deadline):
    berlin = ZoneInfo("Europe/Berlin")
    nightly = NightlySettings(at="02:00", zone="Europe/Berlin")
    ended = datetime.fromisoformat(last).replace(tzinfo=berlin).timestamp()
    due = datetime.fromtimestamp(nightly.deadline_after(ended), berlin)
    assert f"{due:%Y-%m-%d %H:%M}" == deadline


def test_the_schedule_requests_one_run_of_the_job_night(workspace_after_run):
    (workspace_after_run / "care.yaml").write_text(QUICK + "nightly: {at: '03:15', zone: Europe/Berlin}\n")
    definitions = build_defs(workspace_after_run)
    schedule = definitions.resolve_schedule_def("nightly")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("15 3 * * *", "Europe/Berlin")
    assert (schedule.default_status, schedule.job_name) == (dg.DefaultScheduleStatus.RUNNING, "night")
    with workspace_instance(load_workspace(workspace_after_run)) as instance:
        repository, now = definitions.get_repository_def(), datetime.now(UTC)
        context = dg.build_schedule_context(instance, repository_def=repository, scheduled_execution_time=now)
        assert len(schedule.evaluate_tick(context).run_requests or []) == 1


def test_the_asset_night_lists_stale_partitions(workspace_after_run):
    folder = workspace_after_run
    (folder / "care.yaml").write_text(QUICK + "nightly: {at: '03:15'}\n")
    loaded = load_workspace(folder)
    definitions = build_defs(folder)
    with workspace_instance(loaded) as instance:
        job = definitions.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey("night")])
        metadata = result.asset_materializations_for_node("what_is_missing")[0].metadata
    assert metadata["missing"].value == 0
    assert metadata["held_back"].value == "none"


def test_a_second_daemon_is_refused(tmp_path):
    folder = make(tmp_path / "ws")
    hold_daemon_lock(load_workspace(folder))
    with pytest.raises(WarehouseError, match="has a daemon already"):
        hold_daemon_lock(load_workspace(folder))
    assert "has a daemon already; stop that" in " ".join(care(folder, "admin", "daemon", code=1).split())


@pytest.mark.slow
def test_care_run_alerts_once_resolves_and_then_sends_the_heartbeat(hook, tmp_path):
    address, taken, _ = hook
    folder = make(tmp_path / "ws", care=QUICK + f"alerts: {{webhook: '{address}', heartbeat: '{address}/beat'}}\n")
    (folder / "judges" / "oracle.yaml").write_text("engine: {kind: program, program: oracle}\n")
    for _ in range(2):
        care(folder, "run", code=1)
    (alert,) = taken
    assert (alert["kind"], alert["judge"], alert["state"]) == ("judge failed", "oracle", "open")
    assert "no program judge 'oracle'" in alert["what"]
    (folder / "judges" / "oracle.yaml").unlink()
    care(folder, "run")
    over, beat = taken[1:]
    assert (over["key"], over["state"]) == (alert["key"], "resolved")
    assert beat["path"] == "/secret/beat"
    assert beat["bill"] == latest_bill_message(load_workspace(folder))
