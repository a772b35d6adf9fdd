"""Tests that the documentation builds without a warning, and that its commands and figures are right."""

import html
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestration.template import template
from tests.orchestration.test_readme import environment

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """Return the page's fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", tmp_path / "cache"]
    done = subprocess.run([*sphinx, DOCS, tmp_path / "html"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    commands = (tmp_path / "html" / "reference" / "commands.html").read_text()
    assert 'id="care-fit"' in commands
    assert "--labels" in commands
    assert "care_ops.fit.fit_panel" in (tmp_path / "html" / "reference" / "python.html").read_text()
    settings = (tmp_path / "html" / "reference" / "settings.html").read_text()
    assert template() in html.unescape(re.sub(r"<[^>]+>", "", settings)), "care.yaml as `care init` writes it"
    measured = (DOCS.parent / "benchmarks" / "results" / "panels.md").read_text()
    shown = (tmp_path / "html" / "results" / "panels.html").read_text()
    assert set(re.findall(r"[+-]\d\.\d{3}", measured)) <= set(re.findall(r"[+-]\d\.\d{3}", shown)), "measurements"


def test_the_documentation_keeps_its_limit_of_words():
    """Generated pages and tables of measurements are not counted."""
    tracked = subprocess.run(["git", "ls-files", "docs"], cwd=DOCS.parent, capture_output=True, text=True, check=True)
    pages = [DOCS.parent / name for name in tracked.stdout.split("\n") if name.endswith(".md")]
    assert len((DOCS.parent / "README.md").read_text().splitlines()) <= 80
    assert len(pages) <= 12, "a new page takes the place of another one"
    assert sum(len(page.read_text().split()) for page in pages) <= 28_000


def rows_of(text: str) -> list[list[str]]:
    """Return the cells of the table rows of a text."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]


def test_figures_in_the_readme_match_the_recorded_panels():
    """For each panel without families and texts: the plain average, and the gain of `care` with 0 and 20 labels."""
    real = (DOCS.parent / "benchmarks" / "results" / "real.md").read_text()
    plain = {row[0]: row[3:5] for row in rows_of(real) if row[1:3] == ["no", "no"]}
    labelled = {row[0]: row[2] for row in rows_of(real) if row[1] == "20" and "±" in row[2]}
    shown = {
        name[1]: row[1:]
        for row in rows_of((DOCS.parent / "README.md").read_text())
        if (name := re.search(r"`([^`]+)`", row[0])) and name[1] in plain
    }
    assert len(shown) == 3
    for panel, cells in shown.items():
        measured = [number_of(cell) for cell in (*plain[panel], labelled[panel])]
        assert [number_of(cell) for cell in cells] == pytest.approx(measured, abs=0.00051), panel


def number_of(cell: str) -> float:
    found = re.search(r"[+-]?\d*\.\d+", cell.replace("−", "-"))
    assert found is not None, cell
    return float(found[0])


def printed_in(block: str) -> list[str]:
    """Return the lines of a command's output in a block."""
    return [" ".join(line.split()) for line in block.strip().splitlines()]


@pytest.mark.slow
def test_the_tutorial_and_the_readme_show_the_current_output(tmp_path):
    tmp_path = shutil.copytree(DOCS.parent / "examples" / "quickstart", tmp_path / "quickstart")
    lines = [line for block in blocks("index.md", "sh") for line in block.splitlines() if line]
    assert sum(line.startswith("care fit") for line in lines) == 3
    typed = [line for block in blocks("../README.md", "") for line in block.splitlines()]
    lines += [line for line in typed if line.startswith("care fit")]
    shown = [*blocks("index.md", "text"), *blocks("../README.md", "text")]
    for line, block in zip(lines, shown, strict=True):
        done = subprocess.run(
            shlex.split(line), cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}:\n{done.stdout}\n{done.stderr}"
        printed = " ".join(done.stdout.split())
        assert [part for part in printed_in(block) if part not in printed] == [], line
    for folder in ("scores-fit", "informed", "labelled"):
        assert (tmp_path / folder / "report.html").is_file()
