"""Tests of SIGKILL while judges are paid: the limit holds, all charges are billed, and answers are stored."""

from __future__ import annotations

import multiprocessing
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from functools import partial

import pytest

from care_ops.errors import JudgeError
from judges.pool import BATCHES_AHEAD, Pool
from orchestration.workspace import load_workspace
from tests.support.endpoints import PRICE_IN, PRICE_OUT, Vendor, number_of
from tests.support.workspaces import QUICK, care, make, query, run, score_rows, write_api_judge, write_distinct_items

N, CONCURRENCY = 240, 4
TOKENS = 100, 2


class Till(Vendor):
    """Server that charges each request on arrival, and answers a little later."""

    def __init__(self):
        self.charged, self.asked, self.draw = 0.0, Counter(), random.Random(5)
        super().__init__(self._behave)

    def _behave(self, handler, body):
        with self.lock:
            self.asked[body["messages"][0]["content"]] += 1
            self.charged += (TOKENS[0] * PRICE_IN + TOKENS[1] * PRICE_OUT) / 1e6
            pause = self.draw.uniform(0.002, 0.03)
        time.sleep(pause)
        with suppress(OSError):
            handler.answer(str(1 + number_of(body) % 8), tokens=TOKENS)


def judge_once(folder):
    """Judge as `care run` does, without Dagster."""
    from assets.judging.bill import Account, purses
    from assets.judging.journal import recover
    from assets.judging.judge_inference import score_pending
    from assets.judging.stored_items import StoredItems

    workspace = load_workspace(folder)
    recover(workspace)
    with closing(Account(workspace, "paid", purses(workspace))) as account, Pool(workspace.pool).session() as session:
        score_pending(workspace, "paid", partial(StoredItems, workspace.parts), session, account)


def started_here(folder):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "assets.judging.judge_inference"])
    process = context.Process(target=judge_once, args=(folder,))
    process.start()
    return process.kill, process.join, process.is_alive


def started_by_the_command(folder):
    command = [sys.executable, "-m", "orchestration.cli", "run", "--judge", "paid", "--workspace", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    return partial(process.send_signal, signal.SIGKILL), process.wait, lambda: process.poll() is None


def limited(folder, dollars):
    (folder / "care.yaml").write_text(f"{QUICK}judging: {{spend_limit: {dollars}}}\n")


def on_the_bill(folder):
    """Return the paid dollars, and the reserved or unknown dollars."""
    rows = load_workspace(folder).bills.read().to_pylist()
    return sum(row["dollars"] for row in rows), sum(row["dollars_unknown"] + row["dollars_reserved"] for row in rows)


@pytest.fixture
def paid(tmp_path):
    folder = make(tmp_path / "ws", ("length",), N)
    write_distinct_items(folder, N)
    options = {"scoring": "text", "api_key_env": None, "concurrency": CONCURRENCY}
    prices = {"price_in": PRICE_IN, "price_out": PRICE_OUT}
    with Till() as server:
        write_api_judge(folder, server.url, "paid", "batch_size: 64\n", **options, **prices)
        run(folder, selection="items")
        yield folder, server


@pytest.mark.parametrize(
    ("kills", "start"),
    [(2, started_here), pytest.param(20, started_by_the_command, marks=pytest.mark.slow)],
    ids=["two kills", "twenty kills of care run"],
)
def test_a_kill_at_any_point_keeps_costs_recorded_and_within_the_limit(paid, kills, start):
    folder, server = paid
    draw = random.Random(11)
    limited(folder, 1.0)
    in_flight = CONCURRENCY + BATCHES_AHEAD
    for number in range(1, kills + 1):
        kill, wait, is_alive = start(folder)
        until = server.asked.total() + draw.randint(1, int(0.7 * N / kills))
        deadline = time.monotonic() + 60
        while server.asked.total() < until and is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.02))
        kill()
        wait()
        while server.open:
            time.sleep(0.005)
        paid_for, reserved = on_the_bill(folder)
        assert paid_for <= server.charged + 1e-12
        assert server.charged <= paid_for + reserved + 1e-12
        assert server.asked.total() - len(server.asked) <= number * in_flight
    assert reserved > 0
    reported = " ".join(care(folder, "status").split())
    assert "were under way when CARE was killed" in reported

    charged = server.charged
    limited(folder, round(paid_for + reserved + 0.01, 4))
    with pytest.raises(JudgeError, match=r"judging\.spend_limit"):
        judge_once(folder)
    paid_for, reserved = on_the_bill(folder)
    limit = load_workspace(folder).pool.spend_limit
    assert charged <= server.charged <= paid_for + reserved <= limit

    limited(folder, 10.0)
    judge_once(folder)
    answered = Counter(row[1] for row in score_rows(folder) if "paid" in row[0])
    assert len(answered) == N
    assert max(answered.values()) == 1
    assert server.asked.total() - N <= kills * in_flight, "only what was under way at a kill is asked twice"
    assert query(folder, "SELECT sum(dollars) FROM bills")[0][0] == pytest.approx(on_the_bill(folder)[0])
    assert not [*(folder / "data" / "journals").glob("*")]
