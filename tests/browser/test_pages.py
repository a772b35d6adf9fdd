"""Tests of the report and of Dagster's UI in a browser."""

import subprocess
import sys
import time

import pytest

from tests.support.dagster_ui import WAIT_MS, choose, see, serving, switch
from tests.support.workspaces import make, query, write_judge

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.slow
def test_a_new_judge_is_materialised_by_clicking_and_the_fit_follows(chromium, tmp_path):
    """The judge is materialised by hand while `stale_assets_sensor` is off; the sensor then builds the rest."""
    quick = "fit: {resamples: 0}\nreview: {hold: false}\n"
    folder = make(tmp_path / "ws", n=120, care=quick)
    command = [sys.executable, "-m", "orchestration.cli", "run", "--workspace", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    fits = query(folder, "SELECT fit_id FROM latest_fits ORDER BY ALL")
    page = chromium.new_page(viewport={"width": 1500, "height": 950})
    with serving(folder, tmp_path / "ui.log") as ui:
        write_judge(folder, "readability")
        see(page, f"{ui}/assets/judge_inference?view=partitions", "readability")
        launch = choose(page, f"{ui}/assets/judge_inference", "Missing", "readability")
        launch.click()
        launch.wait_for(state="detached", timeout=WAIT_MS)
        see(page, f"{ui}/assets/judge_inference?view=partitions&partition=readability", "scored_now")
        assert query(folder, "SELECT count(*) FROM slices WHERE judge = 'readability'") == [(0,)]
        switch(page, ui, "stale_assets_sensor", on=True)
        see(page, f"{ui}/assets/panel?view=partitions&partition=one", "readability")
        deadline = time.monotonic() + WAIT_MS / 1000
        while query(folder, "SELECT fit_id FROM latest_fits ORDER BY ALL") == fits:
            assert time.monotonic() < deadline, "the fit did not follow"
            page.wait_for_timeout(2_000)
        see(page, f"{ui}/assets/review?view=checks", "gold_leakage")
    page.close()
    weighed = "SELECT count(*) FROM weights JOIN latest_fits USING (fit_id) WHERE judge = 'readability'"
    assert query(folder, weighed)[0][0] > 0
