"""Tests of the layout of the commands, and of workspaces created from a table of scores."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import typer.main
import yaml

from assets.report.gather import gather
from assets.report.verdicts import stored_verdicts
from assets.sources import recorded_scores
from orchestration.cli.app import app
from orchestration.workspace import load_workspace
from tests.support.workspaces import query, run, typed, typed_json, typed_line, write_table

GROUP = typer.main.get_command(app)


def test_help_shows_at_most_twenty_commands_in_four_panels():
    panels = {command.rich_help_panel for command in GROUP.commands.values()}
    assert panels == {"Everyday", "Workspace", "Publish", "Administer"}
    assert len(GROUP.commands) <= 20
    assert set(GROUP.commands["fits"].commands) == {"list", "diff", "accept", "promote", "rollback"}
    assert set(GROUP.commands["admin"].commands) == {"gc", "forget", "backup", "restore", "daemon"}


def add_settings(folder, **sections):
    """Append sections to ``care.yaml``."""
    with (folder / "care.yaml").open("a") as settings:
        settings.write(yaml.safe_dump(sections))


@pytest.fixture
def tables(tmp_path, rng):
    """Write a wide table with a judge on 0 to 100, its items with gold and systems, and the judges' families."""
    n, quality = 90, rng.normal(size=90)
    judges = {name: 5 + quality + 0.6 * rng.normal(size=n) for name in ("gpt-a", "gpt-b", "claude", "llama", "qwen")}
    judges["hundred"] = np.clip(10 * (5 + quality + 0.6 * rng.normal(size=n)), 0, 100)
    rows = [(f"q{k}", *(f"{column[k]:.2f}" for column in judges.values())) for k in range(n)]
    write_table(tmp_path / "scores.csv", ("id", *judges), rows)
    items = [(f"q{k}", f"What is {k}?", f"It is {'very ' * (k % 9)}{k}.", quality[k], "ab"[k % 2]) for k in range(n)]
    write_table(tmp_path / "items.csv", ("id", "question", "answer", "gold", "model"), items)
    (tmp_path / "judges.csv").write_text("judge,family\ngpt-a,openai\ngpt-b,openai\n")
    return tmp_path


def test_a_workspace_from_a_table_reads_what_care_fit_reads(tables):
    folder = tables / "mine"
    given = ("--items", tables / "items.csv", "--judges", tables / "judges.csv", "--system", "model")
    scale = ("--scale", "0", "10", "--scale", "hundred=0:100")
    printed = typed("init", folder, "--from", tables / "scores.csv", *given, *scale)
    assert "90 items, 6 judges with recorded scores, which `care run` reads" in printed
    assert f"Next: care run --workspace {folder}" in printed
    assert "families" not in printed, "they are declared"
    assert len((folder / "care.yaml").read_text().splitlines()) <= 25
    workspace = load_workspace(folder)
    spec = workspace.testset("scores")
    assert (spec.scale, spec.systems) == ((0, 10), ("model",))
    assert spec.source.items == "../items.csv", "files stay where they are"
    assert spec.source.scores.families == {"gpt-a": "openai", "gpt-b": "openai"}
    read = recorded_scores(workspace, "scores").scores
    assert read.shape == (90, 6)
    assert read.values[:, read.judges.index("hundred")].max() <= 10
    forecast = typed_json("run", "--workspace", folder, "--dry-run")
    assert {row["questions"] for row in forecast} == {0}
    assert "sends no requests to judges" in typed("run", "--workspace", folder, "--dry-run")
    assert "care.yaml exists already" in typed("init", folder, "--from", tables / "scores.csv", code=2)


def test_a_table_of_scores_provides_items_if_no_table_of_items_is_given(tables):
    rows = [(f"q{k}", judge, k % 5 + j, f"text {k}") for k in range(20) for j, judge in enumerate("abc")]
    long = write_table(tables / "long.csv", ("item", "rater", "rating", "answer"), rows)
    folder = tables / "mine"
    assert "Which judges share a base model?" in typed("init", folder, "--from", long)
    items = (folder / "items-long.csv").read_text().splitlines()
    assert len(items) == 21
    assert load_workspace(folder).testset("long").source.items == "items-long.csv"


@pytest.mark.slow
def test_sparse_scores_count_as_not_asked_in_workspace_and_care_fit(tables, rng):
    lines = (tables / "scores.csv").read_text().splitlines()
    holes = [
        ",".join(c if k == 0 or rng.random() > 0.3 else "" for k, c in enumerate(row.split(","))) for row in lines[1:]
    ]
    (tables / "holes.csv").write_text("\n".join([lines[0], *holes]) + "\n")
    typed("init", tables / "mine", "--from", tables / "holes.csv")
    folder = tables / "mine"
    add_settings(folder, fit={"resamples": 0, "aggregators": ["care", "avg"]})
    assert not run(folder).failures
    data = gather(load_workspace(folder), "holes")
    assert data.not_asked
    assert len(data.scores.judges) == 6
    assert load_workspace(folder).fits.published("holes") is not None, "nothing has broken, so nothing waits"
    add_settings(folder, panel={"absent": "failed", "max_missing": 0.9})
    assert not run(folder).failures
    verdict = stored_verdicts(load_workspace(folder))["holes"]
    assert "the judges failed to give them" in str(verdict["reasons"]), "the setting changes the verdict"


def test_a_second_table_is_added_as_another_test_set(tables):
    folder = tables / "mine"
    typed("init", folder, "--from", tables / "scores.csv")
    more = ("--workspace", folder, "--from", tables / "scores.csv")
    advised = typed_line("init", folder, "--from", tables / "scores.csv", code=2)
    assert f"care testsets add --from {tables / 'scores.csv'} --workspace {folder}" in advised
    assert "exists already; delete it" in typed("testsets", "add", *more, code=2)
    assert "test set again, 90 items" in typed("testsets", "add", "again", *more, "--scale", "hundred=0:100")
    workspace = load_workspace(folder)
    assert sorted(workspace.testsets) == ["again", "scores"]
    assert workspace.testset("again").source.items == "items-again.csv"
    read = recorded_scores(workspace, "again").scores
    assert read.values[:, read.judges.index("hundred")].max() <= 10


@pytest.mark.parametrize(
    "idle",
    [["--items", "items.csv"], ["--scale", "0", "10"], ["--separator", ";"]],
)
def test_reading_options_are_refused_without_a_table(tables, idle):
    assert f"{idle[0]} applies to a table of scores" in typed_line("init", tables / "mine", *idle, code=2)
    assert not (tables / "mine").exists()
    typed("init", tables / "mine", "--template", "empty")
    for which in ("asset", "--all"):
        refused = typed("testsets", "add", which, *idle, "--workspace", tables / "mine", code=2)
        assert "name the table with --from" in " ".join(refused.split())
    assert not list((tables / "mine" / "testsets").iterdir())


def test_from_cannot_be_combined_with_another_source(tables):
    given = ("--from", tables / "scores.csv")
    assert "--from and --template cannot be combined" in typed(
        "init", tables / "mine", *given, "--template", "demo", code=2
    )
    assert not (tables / "mine").exists()
    typed("init", tables / "mine", "--template", "empty")
    refused = typed("testsets", "add", "--all", *given, "--workspace", tables / "mine", code=2)
    assert "--all, or your own table" in " ".join(refused.split())


def test_an_unreadable_table_creates_no_workspace(tables):
    (tables / "one.csv").write_text("item_id,gpt\na,1\nb,2\n")
    assert "one judge" in typed("init", tables / "mine", "--from", tables / "one.csv", code=2)
    assert not (tables / "mine").exists()
    named = (tables / "scores.csv").rename(tables / "a,b.csv")
    assert "is not a valid name of a test set" in typed_line("init", tables / "mine", "--from", named, code=2)


@pytest.mark.slow
def test_a_run_on_a_table_gives_the_estimates_of_care_fit(tables):
    given = ("--items", tables / "items.csv", "--judges", tables / "judges.csv")
    folder = tables / "mine"
    typed("init", folder, "--from", tables / "scores.csv", *given, "--system", "model")
    add_settings(folder, fit={"resamples": 0, "aggregators": ["care", "avg"]})
    assert not run(folder).failures
    aggregators = ("--aggregator", "care", "--aggregator", "avg", "--intervals", 0, "--system", "model")
    typed("fit", tables / "scores.csv", *given, *aggregators, "--out", tables / "fit")
    rows = pq.read_table(tables / "fit" / "aggregates.parquet").to_pylist()
    reported = {row["item_id"]: row["estimate"] for row in rows if row["aggregator"] == "care"}
    nightly_run = dict(query(folder, "SELECT item_id, estimate FROM latest_aggregates WHERE aggregator = 'care'"))
    assert nightly_run.keys() == reported.keys()
    assert max(abs(nightly_run[item] - reported[item]) for item in reported) < 1e-8
    assert "has no labels in care.yaml" in typed("rate", "scores", "--workspace", folder, code=2)
    assert "--labels" in typed("rate", tables / "scores.csv", code=2)
    assert len(typed_json("fits", "list", "scores", "--workspace", folder)) == 1


def declare(file, families):
    spec = yaml.safe_load(file.read_text())
    spec["source"]["scores"]["families"] = families
    file.write_text(yaml.safe_dump(spec))


def test_a_table_without_families_prints_where_to_declare_them(tables):
    folder = tables / "mine"
    printed = typed("init", folder, "--from", tables / "scores.csv", "--items", tables / "items.csv")
    file = folder / "testsets" / "scores.yaml"
    assert f"Name the families under `source.scores.families` in {file}" in " ".join(printed.split())
    declare(file, {"gpt-a": "openai", "qwen": "qwen"})
    assert load_workspace(folder).judge("gpt-a").family == "openai"
    file.write_text(file.read_text().replace("qwen:", "qwem:"))
    wrong = "`families` of 'scores' names 'qwem', but the judges are claude, gpt-a"
    assert wrong in typed_line("doctor", "--workspace", folder, code=1)


def test_a_mistake_in_a_cell_is_reported_once(tables):
    folder = tables / "mine"
    typed("init", folder, "--from", tables / "scores.csv", "--items", tables / "items.csv")
    lines = (tables / "scores.csv").read_text().splitlines()
    lines[3] = lines[3].rpartition(",")[0] + ",nought"
    (tables / "scores.csv").write_text("\n".join(lines) + "\n")
    reported = typed("run", "--workspace", folder, code=1)
    assert reported.count("'nought'") == 1
    assert "failed: judge_inference claude, gpt-a, gpt-b, hundred, llama, qwen: " in reported
    assert typed("doctor", "--workspace", folder, code=1).count("'nought'") == 1


ODD = {"claude": "llama, 70b", "llama": "a|b", "qwen": "x/y ... 'z' 100%", "gpt-b": "Qwen\tmini"}
"""Names of judges with characters that a partition key cannot contain."""


@pytest.mark.slow
def test_judges_with_odd_names_are_fitted(tables):
    path = tables / "scores.csv"
    header, rows = path.read_text().split("\n", 1)
    path.write_text(",".join(f'"{ODD.get(name, name)}"' for name in header.split(",")) + f"\n{rows}")
    (tables / "judges.csv").write_text('judge,family\n"llama, 70b",meta\na|b,meta\n')
    given = ("--items", tables / "items.csv", "--judges", tables / "judges.csv")
    folder = tables / "mine"
    typed("init", folder, "--from", path, *given, "--scale", "0:10", "--scale", "a|b=0:12")
    add_settings(folder, fit={"resamples": 0, "aggregators": ["avg"]}, panel={"admit": "all"})
    assert not run(folder).failures
    panel = load_workspace(folder).fit_folder("scores").read_panel()
    assert set(panel.judges) == {"gpt-a", "Qwen mini", "llama 70b", "a b", "x/y 'z' 100%", "hundred"}
    assert panel.families == {"llama 70b": "meta", "a b": "meta"}
    assert not np.isnan(panel.values).any()
    path.write_text(path.read_text().replace("gpt-a", "a, b"))
    refused = typed_line("run", "--workspace", folder, code=2)
    assert "'a, b' and 'a|b' would both get the name 'a b'; rename one" in refused


@pytest.mark.slow
def test_families_declared_after_the_first_run_cause_a_new_fit(tables):
    folder = tables / "mine"
    typed("init", folder, "--from", tables / "scores.csv", "--items", tables / "items.csv")
    add_settings(folder, fit={"resamples": 0, "aggregators": ["avg"]})
    assert not run(folder).failures
    file = folder / "testsets" / "scores.yaml"
    declare(file, {"gpt-a": "openai", "gpt-b": "openai"})
    later = run(folder).materialised
    assert {("panel", "scores"), ("aggregates", "scores")} < set(later)
    assert "judge_inference" not in dict(later), "no score is another"
    families = load_workspace(folder).fit_folder("scores").read_panel().families
    assert families == {"gpt-a": "openai", "gpt-b": "openai"}
    file.write_text(file.read_text().replace("gpt-a: openai", "gpt: openai"))
    assert "names 'gpt', but the judges" in "".join(run(folder).failures.values())
