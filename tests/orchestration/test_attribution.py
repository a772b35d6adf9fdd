"""Tests that a changed judge is in the verdict, and blocks the gate until another revision has scored all items."""

from datetime import date

import pytest

from assets.judge_keys import keys_of_judges
from assets.judging.retests import Retest, changed_judges, record_retest
from orchestration.workspace import load_workspace
from tests.support.openai_server import Server, answer
from tests.support.workspaces import JUDGES, QUICK, care, make, run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Create a workspace of two systems, with programs and a judge behind an API."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    server = Server(lambda text, _: answer(str(len(text) % 10)))
    folder = make(tmp_path / "ws", care=QUICK)
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


def test_a_changed_judge_blocks_the_gate_until_another_revision(folder):
    workspace = load_workspace(folder)
    keys = [row["item_key"] for row in workspace.parts.read_scores("api", "one").to_pylist()]
    for day in range(1, 24):
        asked, moved = ((12 * day + k) % len(keys) for k in range(12)), 0.3 * (day >= 9)
        rows = [Retest(day, "one", keys[k], 0.5, 0.5 + moved + 0.01 * (-1) ** k) for k in asked]
        record_retest(workspace, "api", 1, rows, day)
    (found,) = changed_judges(workspace, "one").values()
    assert date.fromordinal(found.run_date).day == 9
    assert "Judge api changed" in care(folder, "status")
    assert "Judge api changed" in care(folder, "gate", "one", "new", "--against", "old", code=6)
    file = folder / "judges" / "api.yaml"
    file.write_text(file.read_text().replace("}", ", revision: b}"))
    assert changed_judges(load_workspace(folder), "one") == {}
    assert set(JUDGES) < set(keys_of_judges(load_workspace(folder), "one"))
