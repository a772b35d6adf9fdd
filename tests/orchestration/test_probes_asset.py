"""Probes in the pipeline: asked once a judge, kept apart from items, and what runs again when something changes."""

import pytest

from assets.fit.kept import read_responses
from orchestration.workspace import load_workspace
from tests.support.workspaces import JUDGES, care, care_json, make, query, ran, run, write_judge, write_testset
from warehouse.parts import PartStore
from warehouse.storage import DAMAGED

KINDS = ("padding", "citation", "compliment", "sentences", "negation")
FIT = ("panel", "probes", "moments", "structure", "aggregates", "report")


def declare(folder, kinds=KINDS, items=20) -> None:
    write_testset(folder)
    path = folder / "testsets" / "one.yaml"
    path.write_text(f"{path.read_text()}probes: {{kinds: [{', '.join(kinds)}], items: {items}}}\n")


def several_questions(folder) -> None:
    """Every answer is to a question of its own, so that sentences of others are there to be lent."""
    path = folder / "one.csv"
    lines = path.read_text().splitlines()
    changed = [line.replace("the capital?", f"the capital of {k}?") for k, line in enumerate(lines)]
    path.write_text("\n".join(changed) + "\n")


def asked(folder) -> dict[str, int]:
    """Rows of scores of probes by judge."""
    parts = PartStore(folder / "data" / "parts" / "probes")
    return {judge: parts.read_scores(judge, "one").num_rows for judge in parts.judges()}


@pytest.mark.slow
def test_each_event_asks_only_what_it_must(tmp_path):
    folder = make(tmp_path / "ws")
    several_questions(folder)
    assert not run(folder).failures
    assert asked(folder) == {}
    before = query(folder, "SELECT * FROM latest_aggregates ORDER BY ALL")

    declare(folder)
    outcome = run(folder)
    assert not outcome.failures
    count = len(KINDS) * 20
    assert asked(folder) == dict.fromkeys(JUDGES, count)
    assert ran(outcome, "moments") == ran(outcome, "structure") == [], "probes are items of no panel"
    responses = read_responses(load_workspace(folder).fit_folder("one"))
    assert responses.judges == tuple(sorted(JUDGES))
    assert dict(responses.spoils) == {kind: kind in ("sentences", "negation") for kind in KINDS}
    _, padded = responses.by_item("padding")
    assert (padded[:, responses.judges.index("length")] > 0).all(), "who counts words rises where an answer is padded"
    assert ran(outcome, "probes") == ran(outcome, "aggregates") == ran(outcome, "report") == ["one"]
    assert query(folder, "SELECT count(*) FROM items") == [(40,)]
    assert len(query(folder, "SELECT * FROM latest_aggregates ORDER BY ALL")) == len(before)

    assert run(folder).materialised == [], "nothing changed: no probe is asked again"

    write_judge(folder, "readability")
    outcome = run(folder)
    assert ran(outcome, "judge_inference") == ["readability"]
    assert ran(outcome, "scores") == ["readability|one"]
    assert asked(folder) == dict.fromkeys((*JUDGES, "readability"), count), "its probes and scores only"
    assert all(ran(outcome, asset) == ["one"] for asset in FIT)

    declare(folder, items=30)
    outcome = run(folder)
    assert not outcome.failures
    assert ran(outcome, "moments") == []
    assert asked(folder) == dict.fromkeys((*JUDGES, "readability"), len(KINDS) * 30), (
        "the larger sample holds the first"
    )

    (folder / "data" / "care.duckdb").unlink()
    outcome = run(folder)
    assert ran(outcome, "judge_inference") == []
    assert run(folder).materialised == []

    write_testset(folder)
    outcome = run(folder)
    assert not outcome.failures
    assert not len(read_responses(load_workspace(folder).fit_folder("one")))
    assert run(folder).materialised == []


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ("{}", "no kind is declared; name those that are true here"),
        ("{own: {padding: {effect: keeps, template: x}}}", "'padding' is built in"),
        ("{own: {gilded: {effect: improves, template: x}}}", "keeps"),
        ("{own: {gilded: {effect: keeps}}}", "give either a template or a program"),
    ],
)
def test_a_wrong_declaration_is_refused_in_a_sentence(tmp_path, declared, says):
    folder = make(tmp_path / "ws")
    path = folder / "testsets" / "one.yaml"
    path.write_text(f"{path.read_text()}probes: {declared}\n")
    assert says in care(folder, "status", code=2)


@pytest.mark.slow
def test_a_judge_that_was_recorded_has_no_probes_and_the_panel_may_be_mixed(tmp_path):
    folder = make(tmp_path / "ws")
    several_questions(folder)
    declare(folder)
    rows = "".join(f"i{k},{k % 9}\n" for k in range(40))
    (folder / "people.csv").write_text(f"item_id,recorded\n{rows}")
    path = folder / "testsets" / "one.yaml"
    path.write_text(path.read_text().replace("\nscale", "\n  scores: {path: people.csv}\nscale", 1))
    outcome = run(folder)
    assert not outcome.failures, outcome.failures
    assert "recorded" in {row["judge"] for row in care_json(folder, "judges", "list")}
    assert "recorded" not in asked(folder)
    assert "recorded" not in read_responses(load_workspace(folder).fit_folder("one")).judges


@pytest.mark.slow
def test_forgetting_an_item_forgets_its_versions(tmp_path):
    folder = make(tmp_path / "ws")
    several_questions(folder)
    declare(folder, items=40)
    assert not run(folder).failures
    probes = folder / "data" / "parts" / "probes"
    for part in [*probes.rglob("*.parquet")]:
        (part.parent / DAMAGED).mkdir(exist_ok=True)
        (part.parent / DAMAGED / part.name).write_bytes(part.read_bytes())
    care(folder, "admin", "forget", "i7", "--testset", "one")
    assert [*probes.rglob("*.parquet")]
    for path in probes.rglob("*.parquet"):
        assert DAMAGED not in path.parts, "nobody can tell what it holds"
        assert b"i7 probe" not in path.read_bytes()
