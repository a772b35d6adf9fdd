"""Tests of the report on judges that the verdict of a table recommends."""

import random

from tests.support.workspaces import typed_line, write_table


def write(path, scored, labelled=30):
    """Write a column of scores for each judge, and ``labels.csv`` with random labels of the first items."""
    rng = random.Random(5)
    quality = [rng.gauss(0, 1) for _ in range(120)]
    rows = [[f"q{k}", *(score(q + rng.gauss(0, 0.5)) for score in scored.values())] for k, q in enumerate(quality)]
    labels = [[f"q{k}", int(q > 0), "random"] for k, q in enumerate(quality[:labelled])]
    write_table(path, ["item_id", *scored], rows)
    write_table(path.parent / "labels.csv", ["item_id", "label", "drawn"], labels)


def test_one_cut_reports_on_the_judges_of_its_scale(tmp_path, monkeypatch):
    """At a cut of 3, almost all percentages would pass, and no share."""
    monkeypatch.chdir(tmp_path)
    percent, grade, share = (
        lambda q: min(max(round(60 + 20 * q), 0), 100),
        lambda q: min(max(round(3 + q), 1), 5),
        lambda q: round(1 / (1 + 2.72**-q), 3),
    )
    write(tmp_path / "scores.csv", {"ann": grade, "bob": grade, "two words": percent, "dan": share, "eve": share})
    assert "--cut VALUE --of JUDGE`; JUDGE is the name of a judge" in typed_line("fit", "scores.csv", "--intervals", 0)
    report = ("judges", "report", "scores.csv", "--labels", "labels.csv")
    printed = typed_line(*report, "--cut", 3)
    assert [f"can {name} approve" in printed for name in ("ann", "bob", "dan", "two words", "panel")] == [1, 1, 0, 0, 0]
    assert "no report on panel: the judges use different scales" in printed
    assert "do not fit the cut 3; report on this judge with --of 'two words' --cut VALUE" in printed
    assert "can two words approve" in typed_line(*report, "--of", "two words", "--cut", 60)
