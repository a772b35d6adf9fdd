"""Tests of Ctrl-C during ``care run``: no further questions, and paid answers are stored and billed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections import defaultdict

import pytest

from tests.support.endpoints import PRICE_IN, PRICE_OUT, Vendor, number_of
from tests.support.servers import wait_until
from tests.support.workspaces import QUICK, care, make, query, run, score_rows, write_api_judge, write_distinct_items
from warehouse.parts import PartStore

N = 40
ANSWERED = 14
TOLD = "interrupted: all scores so far are kept; run the same command to continue"


class Gate(Vendor):
    """Server that answers some requests of each model at once, and the others after the gate is opened."""

    def __init__(self, at_once=ANSWERED):
        self.left, self.gate = defaultdict(lambda: at_once), threading.Event()
        super().__init__(self._behave)

    def _behave(self, handler, body):
        with self.lock:
            self.left[body["model"]] -= 1
            waits = self.left[body["model"]] < 0
        if waits:
            assert self.gate.wait(120)
        handler.answer(str(1 + number_of(body) % 8))

    def __exit__(self, *exc):
        self.gate.set()
        super().__exit__(*exc)


def paid_judge(folder, name, server, concurrency=1, size=8):
    options = {"scoring": "text", "api_key_env": None, "concurrency": concurrency}
    prices = {"price_in": PRICE_IN, "price_out": PRICE_OUT}
    write_api_judge(folder, server.url, name, f"batch_size: {size}\n", model=name, **options, **prices)


@pytest.mark.slow
@pytest.mark.parametrize(("judges", "concurrency", "size"), [(["only"], 1, 8), (["left", "right"], 3, 20)])
def test_an_interrupt_stops_asking_and_keeps_all_scores(tmp_path, judges, concurrency, size):
    care_yaml = QUICK + f"judging: {{side_by_side: {len(judges)}}}\n"

    def wait(seen):
        wait_until(lambda: seen() or process.poll() is not None, log.read_text, 120)
        assert process.poll() is None, f"it ended with {process.returncode}:\n{log.read_text()}"

    folder, log = make(tmp_path / "ws", ("length", "thoroughness", "conciseness"), N, care_yaml), tmp_path / "log.txt"
    write_distinct_items(folder, N)
    with Gate() as server, log.open("w") as file:
        for judge in judges:
            paid_judge(folder, judge, server, concurrency, size)
        answered, under_way = len(judges) * ANSWERED, len(judges) * concurrency
        command = [sys.executable, "-m", "orchestration.cli", "run", "-v", "--workspace", folder]
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        try:
            wait(lambda: len(server.bodies) == answered + under_way and server.open == under_way)
            os.killpg(process.pid, signal.SIGINT)
            wait(lambda: "sends no further requests" in log.read_text())
            server.gate.set()
            assert process.wait(120) == 130
        finally:
            process.kill()
        assert len(server.bodies) == answered + under_way, "what was under way is paid for, and nothing else"
        printed = log.read_text()
        assert [line for line in printed.splitlines() if not re.match(r"\d\d:\d\d:\d\d [\w.]+: ", line)] == [TOLD]
        stored = [row for row in score_rows(folder) if any(judge in row[0] for judge in judges)]
        assert len(stored) == len(server.bodies), printed
        reported = query(folder, f"SELECT sum(requests), sum(dollars) FROM bills WHERE judge IN ({str(judges)[1:-1]})")
        assert reported == [(len(server.bodies), pytest.approx(server.dollars))]
        assert f"US $ {server.dollars:,.4f}" in care(folder, "status")
        assert query(folder, "SELECT count(*) FROM latest_fits") == [(0,)]
        assert not list((folder / "data" / "fits").rglob("fit_version*"))

        outcome = run(folder, selection="key:judge_inference")
        assert not outcome.failures
        assert len(server.bodies) == N * len(judges), "nobody is asked twice"


def test_costs_of_other_judges_are_complete_when_one_judge_fails(tmp_path, monkeypatch):
    """After an unexpected error, such as a disk error, the other judges stop, and their costs are billed."""
    folder = make(tmp_path / "ws", ("length", "thoroughness"), N, QUICK + "judging: {side_by_side: 2}\n")
    write_distinct_items(folder, N)
    store = PartStore.write_scores
    with Gate() as server, Gate() as breaking:
        paid_judge(folder, "breaks", breaking)
        paid_judge(folder, "sound", server)

        def write(parts, judge, *words):
            if judge == "breaks":
                wait_until(lambda: server.open and len(server.bodies) > ANSWERED)
                server.gate.set()
                raise RuntimeError("nobody foresaw this")
            return store(parts, judge, *words)

        monkeypatch.setattr(PartStore, "write_scores", write)
        begun, bills = [], []

        def progress(label, *_):  # called before each run of Dagster
            if "judge_inference" in begun and not bills:
                bills.append(query(folder, "SELECT judge, requests FROM bills WHERE judge IN ('breaks', 'sound')"))
                bills.append(len(server.bodies))
            begun.append(label.split()[0])

        outcome = run(folder, progress=progress)
        assert "nobody foresaw this" in outcome.failures["judge_inference", "breaks"]
        reported = dict(bills[0])
        assert reported["sound"] == bills[1] <= N
        assert reported["breaks"] == len(breaking.bodies)
