"""The documentation's site: it is built without a warning, and the tutorial's commands run as they stand there."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.orchestration.test_readme import environment

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """The page's fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", tmp_path / "cache"]
    done = subprocess.run([*sphinx, DOCS, tmp_path / "html"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    commands = (tmp_path / "html" / "reference" / "commands.html").read_text()
    assert 'id="care-fit"' in commands
    assert "--anchors" in commands
    assert "care_ops.fit.fit_panel" in (tmp_path / "html" / "reference" / "python.html").read_text()


@pytest.mark.slow
def test_the_first_panel_is_fitted_as_the_tutorial_says(tmp_path):
    (script,) = blocks("first-panel.md", "python")
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    lines = [line for block in blocks("first-panel.md", "sh") for line in block.splitlines() if line]
    assert sum(line.startswith("care fit") for line in lines) == 3
    for line in lines:
        shell = ["bash", "-c", line] if line.startswith("printf") else shlex.split(line)
        done = subprocess.run(shell, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}:\n{done.stdout}\n{done.stderr}"
    for folder in ("out", "declared", "labelled"):
        assert (tmp_path / folder / "report.html").is_file()
