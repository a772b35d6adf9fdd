"""Tell a system whose answers got worse from a judge that changed, over runs of one workspace."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest

import warehouse.parts
from assets.judge_keys import keys_of_judges
from assets.judging.retests import Retest, record_retest, retests
from assets.results.attribution import changed_systems, changes
from assets.results.documents import SystemsDocument
from orchestration.workspace import load_workspace
from tests.support.openai_server import Server, answer
from tests.support.workspaces import JUDGES, QUICK, care, make, run
from warehouse.fits import Publication

DAYS, CAME = 24, 9


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """A workspace of two systems, of which programs and a judge behind an API have scored every answer once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-secret")
        server = Server(lambda text, _: answer(str(len(text) % 10)))
        folder = make(tmp_path_factory.mktemp("systems") / "ws", care=QUICK + "alerts: {file: alerts.jsonl}\n")
        lines = (folder / "one.csv").read_text().splitlines()
        named = [f"{line},{'new' if k % 2 else 'old'}" for k, line in enumerate(lines[1:])]
        (folder / "one.csv").write_text("\n".join([f"{lines[0]},model", *named]) + "\n")
        testset = folder / "testsets" / "one.yaml"
        testset.write_text(testset.read_text() + "systems: [model]\n")
        engine = f"{{kind: openai, base_url: '{server.url}', model: judge-1, template: quality}}"
        (folder / "judges" / "api.yaml").write_text(f"engine: {engine}\nscale: [0, 10]\n")
        assert not run(folder).failures
        yield folder
        server.shutdown()
        server.server_close()


@pytest.fixture
def live(first_run, tmp_path, monkeypatch):
    """Lives on in a copy: each night six answers of either system are other ones; returns who has changed."""
    import shutil

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    folder = tmp_path / "ws"
    shutil.copytree(first_run, folder)

    def live_on(*, system=0.0, judge=0.0, asked=True):
        workspace, rng = load_workspace(folder), np.random.default_rng(6)
        keys = keys_of_judges(workspace, "one")
        scored = {j: workspace.parts.read_scores(j, "one").to_pylist() for j in keys}
        began = scored["api"][0]["created_at"].toordinal()
        then = {j: {row["item_id"]: row["score"] or 0.0 for row in rows} for j, rows in scored.items()}
        keys_of = {row["item_id"]: row["item_key"] for row in scored["api"]}
        for day in range(1, DAYS):
            late, at = day >= CAME, (began - 719163 + day) * 86400.0 + 7200
            monkeypatch.setattr(warehouse.parts, "time", SimpleNamespace(time=lambda at=at: at))
            printed = rng.permutation(40)[:12].tolist()
            for j, key in keys.items():
                moved = late * judge if j == "api" else 0.0
                scores = [then[j][f"i{k}"] + 0.4 * rng.normal() + moved + late * system * (k % 2) for k in printed]
                rows = [
                    {"item_id": f"i{k}", "item_key": f"{day} {k}", "score": score, "status": "ok"}
                    for k, score in zip(printed, scores, strict=True)
                ]
                workspace.parts.write_scores(j, "one", key, "openai judge-1", rows)
            again = [f"i{k}" for k in (np.arange(12) + 12 * day) % 40]
            drawn = 0.02 * rng.normal(size=12) + late * judge / 10
            if asked:
                rows = zip(again, drawn.tolist(), strict=True)
                again = [Retest(began + day, "one", keys_of[i], 0.5, 0.5 + d) for i, d in rows]
                record_retest(workspace, "api", 1, again, began + day)
        loaded = load_workspace(folder)
        return folder, began, retests(loaded, "api").changed, changed_systems(loaded, "one")

    return live_on


def test_a_system_that_fell_is_named_everywhere_until_a_person_accepts_its_answers(live):
    folder, began, judge, systems = live(system=-2.0)
    assert judge is None
    assert list(systems) == ["new"]
    assert abs(systems["new"].run_date - (began + CAME)) <= 1
    assert systems["new"].shift == pytest.approx(-0.2, abs=0.08)
    workspace = load_workspace(folder)
    kept = workspace.fit_folder("one")
    kept.write(replace(kept.find(SystemsDocument), changed=systems))
    printed = f"System new fell {systems['new']}."
    care(folder, "run")
    for text in (care(folder, "status"), (folder / "alerts.jsonl").read_text()):
        assert printed in " ".join(text.split())
    assert changes(workspace, "one") == ({}, systems)
    _, version = workspace.fits.published("one")
    on = datetime.fromordinal(systems["new"].detected).replace(tzinfo=UTC).isoformat()
    workspace.fits.publish(Publication("one", version.fit_version, "accept", "as it is to be", published_at=on))
    assert changes(workspace, "one") == ({}, {})
    assert changed_systems(workspace, "one") == {}, "later answers are compared with those of that day"


def test_a_judge_that_nobody_asks_again_is_not_counted_among_those_that_show_a_system(live):
    """Programs cannot change unnoticed and go on to tell; the judge behind an API has no part in it."""
    _, _, judge, systems = live(judge=9.0, asked=False)
    assert judge is None
    assert systems == {}


def test_a_changed_judge_holds_back_the_verdict_on_a_changed_system(live):
    folder, _, judge, systems = live(system=-2.0, judge=2.0)
    assert judge is not None
    assert list(systems) == ["new"]
    workspace = load_workspace(folder)
    kept = workspace.fit_folder("one")
    kept.write(replace(kept.find(SystemsDocument), changed=systems))
    printed = care(folder, "status")
    assert "Judge api changed" in printed
    assert "This is held until api has new reference scores." in " ".join(printed.split())
    assert "Judge api changed" in care(folder, "gate", "one", "new", "--against", "old", code=6)
    file = folder / "judges" / "api.yaml"
    file.write_text(file.read_text().replace("}", ", revision: b}"))
    assert changes(load_workspace(folder), "one")[0] == {}, "another revision has everything scored anew"
    assert set(JUDGES) < set(keys_of_judges(load_workspace(folder), "one"))
