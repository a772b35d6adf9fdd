"""Tests of published, blocked, pinned, rolled back and deleted fits, with the commands that people type."""

import shutil
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from assets.fit.documents import FitDocument, PanelDocument
from assets.publication.documents import ReviewDocument
from care_ops.errors import CareError
from orchestration.workspace import load_workspace
from tests.support.workspaces import (
    JUDGES,
    care,
    care_json,
    make,
    query,
    read_table,
    run,
    score_rows,
    write_items,
    write_judge,
    write_table,
)
from warehouse.documents import plain
from warehouse.storage import write_document

STRICT = (
    "fit: {resamples: 0, aggregators: [care, avg, care_svd, mv]}\nreview: {max_psi: 0.0, min_rank_correlation: 1.0}\n"
)


def published(folder):
    sql = "SELECT fit_version, published_by, pinned FROM published"
    return query(folder, sql)


def estimates(folder, aggregator="care"):
    sql = f"SELECT item_id, estimate FROM latest_aggregates WHERE aggregator = '{aggregator}' ORDER BY item_id"
    return query(folder, sql)


@pytest.fixture
def nightly_runs(made_once, tmp_path):
    """Run a workspace twice; the second run has one more judge and is blocked."""

    def run_both(shared):
        folder = make(shared / "ws", care=STRICT)
        assert not run(folder).failures
        write_judge(folder, "readability")
        assert not run(folder).failures
        review = load_workspace(folder).fit_folder("one").read(ReviewDocument)
        assert review.state == "held back"
        assert "rank correlation below 1" in str([finding.message for finding in review.findings if finding.blocks])

    return shutil.copytree(made_once("two_nights", run_both) / "ws", tmp_path / "ws")


@pytest.mark.slow
def test_accept_exits_with_one_if_the_page_cannot_be_built(workspace_after_run, monkeypatch):
    page = workspace_after_run / "data" / "report" / "testset-one.html"
    page.unlink()

    def refuse(*_: object) -> None:
        raise CareError("the page cannot be drawn today")

    monkeypatch.setattr("assets.report.page.write_page", refuse)
    printed = " ".join(care(workspace_after_run, "fits", "accept", "one", code=1).split())
    assert "is published" in printed
    assert "failed: report one: the page cannot be drawn today" in printed
    assert "the pages show the previous fit; fix the failure above" in printed
    monkeypatch.undo()
    care(workspace_after_run, "fits", "accept", "one")
    assert page.exists()


@pytest.mark.slow
def test_a_blocked_fit_is_accepted_pinned_and_rolled_back(nightly_runs):
    folder = nightly_runs
    rows = care_json(folder, "fits", "list", "one")
    assert [(r["state"], r["judges"], r["why"]) for r in rows] == [
        ("held back", len(JUDGES) + 1, "1 judge added: readability"),
        ("published", len(JUDGES), "the first fit"),
    ]
    second, first = (row["fit_version"] for row in rows)
    assert published(folder) == [(first, "review", False)]
    old = estimates(folder)
    warned = care(folder, "run")
    assert "A new fit waits for your review: 1 judge added: readability." in warned
    assert "nothing to do" in warned

    moved = care_json(folder, "fits", "diff", "one")[0]
    assert moved["why"] == ["1 judge added: readability"]
    assert {row["judge"] for row in moved["judges"]} == {*JUDGES, "readability"}
    assert moved["items"][0]["moved"] != 0

    care(folder, "fits", "accept", "one", "--why", "a better panel")
    assert published(folder) == [(second, "accept", False)]
    assert estimates(folder) != old

    care(folder, "fits", "rollback", "one")
    assert published(folder) == [(first, "rollback", True)]
    assert estimates(folder) == old

    (folder / "data" / "care.duckdb").unlink()
    run(folder)
    assert published(folder) == [(first, "rollback", True)], "the files are the record of publication too"
    assert estimates(folder) == old

    write_items(folder, n=44)
    run(folder)
    assert published(folder) == [(first, "rollback", True)]
    extended = estimates(folder)
    assert [row for row in extended if row in old] == old, "published scores do not move"
    assert len(extended) == 44
    assert all(e is not None for _, e in extended)
    assert load_workspace(folder).fit_folder("one").read(ReviewDocument).state == "held back", "yet scored"
    latest = care_json(folder, "fits", "list", "one")[0]["fit_version"]
    why = care_json(folder, "fits", "diff", second, latest)[0]["why"]
    assert why[-1] == "4 items added"
    assert not [each for each in why if "items were added, removed or changed" in each]
    care(folder, "fits", "promote", first[:6], "--why", "again")
    assert published(folder) == [(first, "promote", True)]
    care(folder, "fits", "accept", "one")
    assert published(folder) == [(latest, "accept", False)]
    assert "the id 'zzz' matches no stored fit" in care(folder, "fits", "promote", "zzz", code=2)


@pytest.mark.slow
def test_a_rebuilt_fit_keeps_its_time_order_and_state(nightly_runs):
    """After a judge was added and removed, the first fit is current again, also after a rebuild of the database."""
    folder = nightly_runs
    second, first = care_json(folder, "fits", "list", "one")
    (folder / "judges" / "readability.yaml").unlink()
    again = [{**second, "state": "was held back"}, first]
    assert not run(folder).failures
    assert care_json(folder, "fits", "list", "one") == again
    assert care_json(folder, "fits", "diff", "one")[0]["why"] == ["1 judge removed: readability"]
    (folder / "data" / "care.duckdb").unlink()
    run(folder)
    panel = query(folder, "SELECT judge FROM panels WHERE testset = 'one'")
    assert sorted(judge for (judge,) in panel) == sorted(JUDGES)
    care(folder, "admin", "gc", "--yes", "--fit-versions", "1", "--days", "0")
    care(folder, "fits", "accept", "one")
    assert published(folder) == [(first["fit_version"], "accept", False)]
    assert first in care_json(folder, "fits", "list", "one")

    write_judge(folder, "readability")
    run(folder)
    assert care_json(folder, "fits", "list", "one") == [second, first]


def in_files(folder, version, aggregator="care"):
    """Return the estimates in the files of a fit version."""
    fits = load_workspace(folder).fits
    kept = next(e for e in fits.fit_versions("one") if e.fit_version == version)
    fit = fits.read_fit("one", kept.fits[aggregator])
    return sorted(zip(fit.item_ids, plain(fit.answer.estimate), strict=True))


@pytest.mark.slow
def test_the_database_matches_the_files_of_a_published_older_fit(workspace_after_run):
    """Items that were missing in a run have other numbers, for which the older fit has no rows."""
    folder = workspace_after_run
    first = care_json(folder, "fits", "list", "one")[0]["fit_version"]
    write_items(folder, n=36)
    run(folder)
    second = care_json(folder, "fits", "list", "one")[0]["fit_version"]
    write_items(folder, n=40, edited=39)
    run(folder)
    assert len(care_json(folder, "fits", "list", "one")) == 3
    care(folder, "fits", "promote", first, "--why", "it was better")
    assert len(estimates(folder)) == 40
    assert estimates(folder) == in_files(folder, first)
    weights = query(folder, "SELECT judge FROM weights JOIN latest_fits USING (fit_id) WHERE aggregator = 'care'")
    assert sorted(judge for (judge,) in weights) == sorted(JUDGES)
    care(folder, "fits", "promote", second)
    assert estimates(folder) == in_files(folder, second)
    care(folder, "fits", "rollback", "one")
    assert estimates(folder) == in_files(folder, first)


@pytest.mark.slow
def test_a_renamed_test_set_keeps_only_its_items_to_label(workspace_after_run):
    folder, report = workspace_after_run, workspace_after_run / "data" / "report"
    fits, old = query(folder, "SELECT fit_id FROM latest_fits ORDER BY ALL"), estimates(folder)
    assert fits
    assert old
    to_label = report / "to_label-one.csv"
    rows = read_table(to_label)
    write_table(to_label, rows[0], [row.values() for row in ({**rows[0], "label": "1"}, *rows[1:])])
    (folder / "testsets" / "one.yaml").rename(folder / "testsets" / "other.yaml")
    care(folder, "run")
    assert {path.name for path in report.glob("*one*")} == {"to_label-one.csv"}
    for view in ("latest_fits", "latest_aggregates", "verdicts", "published"):
        assert query(folder, f"SELECT DISTINCT testset FROM {view}") == [("other",)], view
    assert "one" in load_workspace(folder).fits.testsets(), "its fits are kept"

    (folder / "testsets" / "other.yaml").rename(folder / "testsets" / "one.yaml")
    care(folder, "run")
    assert query(folder, "SELECT fit_id FROM latest_fits ORDER BY ALL") == fits
    assert estimates(folder) == old
    assert (report / "testset-one.html").is_file()
    assert not list(report.glob("*other*.html"))
    assert [row["label"] for row in read_table(to_label) if row["item_id"] == rows[0]["item_id"]] == ["1"]


def files_that_name(folder, item):
    """Return the files of the data folder and the tables that contain an item's id."""
    named = set()
    for path in (p for p in (folder / "data").rglob("*") if p.is_file()):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            content = str((table.to_pydict(), table.schema.metadata)).encode()
        if item.encode() in content:
            named.add(path.relative_to(folder / "data").as_posix())
    return named


@pytest.mark.slow
def test_no_file_names_a_forgotten_labelled_item(tmp_path):
    """A fit version stores its labels, and its details list the items to label first."""
    folder, item = make(tmp_path / "ws"), "someone@example.org"
    source = folder / "one.csv"
    source.write_text(source.read_text().replace("\ni3,", f"\n{item},"))
    labelled = "".join(f"i{k},{k % 5}\n" for k in range(4, 30))
    (folder / "people.csv").write_text(f"item_id,label\n{labelled}{item},3\n")
    with (folder / "care.yaml").open("a") as file:
        file.write("labels: {one: people.csv}\n")
    assert not run(folder).failures
    loaded = load_workspace(folder)
    version = loaded.fits.fit_versions("one")[-1]
    fit = loaded.fits.read_fit("one", version.fits["care"])
    answer = replace(fit.answer, details=fit.answer.details | {"items_to_label": ["i5", item]})
    loaded.fits.write_fit(replace(fit, answer=answer))
    notes = {"failed": f"such as {item!r}", "items": [{item: 1.0}]}
    write_document(loaded.fit_folder("one").path / "said.json", notes)
    assert any("fit_version=" in name for name in files_that_name(folder, item))

    output = " ".join(care(folder, "admin", "forget", item, "--testset", "one").split())
    assert f"{folder / 'people.csv'} still has labels of" in output
    assert files_that_name(folder, item) == set()
    kept = load_workspace(folder)
    assert len(kept.fits.fit_versions("one")[-1].inputs.labels) == 26
    assert kept.fits.read_fit("one", version.fits["care"]).answer.details["items_to_label"] == ["i5"]
    assert not run(folder).failures, "the label of an item that is not there is no label"
    assert files_that_name(folder, item) == set()
    assert run(folder).materialised == []


def versions(folder):
    """Return the fit versions in the database."""
    return query(folder, "SELECT fit_version FROM fit_versions ORDER BY made_at")


KEEP = ("--fit-versions", "1", "--days", "0")


def test_gc_lists_files_before_it_deletes_them_and_keeps_published_estimates(workspace_after_run):
    folder = workspace_after_run
    (folder / "judges" / "redundancy.yaml").unlink()
    listed = care(folder, "admin", "gc", *KEEP)
    assert "redundancy on one" in listed and "nothing was deleted" in listed  # noqa: PT018
    assert any("judge=redundancy" in where for where, _, _ in score_rows(folder))
    known = estimates(folder)
    assert "MiB freed" in care(folder, "admin", "gc", *KEEP, "--yes")
    assert not any("judge=redundancy" in where for where, _, _ in score_rows(folder))
    assert estimates(folder) == known


@pytest.mark.slow
def test_gc_keeps_published_fits(workspace_after_run):
    folder = workspace_after_run
    write_judge(folder, "readability")
    run(folder)
    (folder / "judges" / "readability.yaml").unlink()
    run(folder)
    known = estimates(folder)
    care(folder, "admin", "gc", *KEEP, "--yes")
    assert estimates(folder) == known
    verdicts = (folder / "data" / "parts" / "fits" / "testset=one").glob("fit=*.fitfacts.json")
    listed = care_json(folder, "fits", "list", "one")
    assert sorted(path.name[4:].partition(".")[0] for path in verdicts) == sorted(row["fit_version"] for row in listed)
    assert run(folder).materialised == []

    store = load_workspace(folder).fits
    first, *others = store.fit_versions("one")
    own = {first.fit_version, *first.fits.values()} - {fit for other in others for fit in other.fits.values()}
    for path in [store.version_file("one", first.fit_version), *store.folder("one").glob("fit=*")]:
        if (path.suffix == ".json" and path.name.startswith("fit_version")) or path.name[4:].partition(".")[0] in own:
            path.unlink()  # as a deletion does that is killed before it comes to the database
    assert (first.fit_version,) in versions(folder)
    assert "nothing to delete" in care(folder, "admin", "gc", *KEEP, "--yes")
    assert versions(folder) == [(version.fit_version,) for version in others]


@pytest.mark.slow
def test_a_panel_newer_than_the_fit_is_reported_and_fitted_by_the_next_run(workspace_after_run):
    """A command may run between the steps of a run by Dagster's daemon."""
    folder = load_workspace(workspace_after_run).fit_folder("one")
    panel = folder.read(PanelDocument)
    folder.write(replace(panel, panel="made by a run that has not come further"))
    failures = run(workspace_after_run, selection="key:report", again=[("report", "one")]).failures
    assert "the panel was rebuilt later" in failures["report", "one"]
    assert not run(workspace_after_run).failures
    assert folder.read(FitDocument).panel == folder.read(PanelDocument).panel
