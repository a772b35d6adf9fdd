"""Sphinx settings of the documentation, which ``make docs`` builds in build/docs.

Functions in this module generate the reference pages from the code. The other pages are ``docs/*.md``.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from orchestration.template import template

project = "CARE"
copyright = "the authors of CARE, Apache-2.0"
html_title = "CARE"
html_theme = "furo"
html_theme_options = {"source_repository": "", "footer_icons": []}
html_show_sourcelink = False

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
exclude_patterns = ["pictures.py"]

autodoc_typehints = "none"  # docstrings give shapes, which annotations cannot
autodoc_class_signature = "separated"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "exclude-members": "__init__, __new__"}
napoleon_google_docstring = False
napoleon_use_ivar = True
suppress_warnings = ["ref.python"]  # words of a docstring's types (n, tau) that happen to be names of attributes

_PRINTED = Path(__file__).parent / "reference"

_RESULTS = "benchmarks/results"

_MODULES = {
    "Scores": "scores",
    "Settings": "config",
    "Fits": "fit",
    "Aggregates": "aggregators.base",
    "Choosing penalties and judges by labels": "selection",
    "Rates of systems": "results.rates",
    "Gates": "results.gate",
    "Rates and gates for many looks": "results.sequential",
    "Sparse and low-rank structure": "structure.program",
    "Bounds of the theory": "structure.bounds",
    "Order and scale against gold": "metrics",
    "Draws from the paper's models": "simulate",
}
"""Modules of ``care_ops`` on the Python reference page, by heading."""


def _commands() -> str:
    typer = [sys.executable, "-m", "typer", "orchestration.cli.app", "utils", "docs", "--name", "care"]
    printed = subprocess.run(typer, capture_output=True, text=True, check=True).stdout
    without_lists = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+\n", "", html.unescape(printed))
    return without_lists.replace("# `care`", "# Commands", 1)


def _settings() -> str:
    return f"# Settings: care.yaml\n\nEvery setting with its meaning and its default.\n\n```yaml\n{template()}\n```\n"


def _python() -> str:
    head = (
        "# The mathematics in Python\n\nThe package `care_ops` takes arrays and gives arrays. It reads no files (but"
        " the shards of `care_ops.moments.sharded`) and\nuses no global state. Shapes, units, errors and sources stand"
        " with each name.\n"
    )
    parts = [
        f"\n## {title}\n\n```{{eval-rst}}\n.. automodule:: care_ops.{name}\n```\n" for title, name in _MODULES.items()
    ]
    return "".join([head, *parts])


def print_reference(_: Sphinx) -> None:
    """Write the reference pages, which are generated from the code."""
    _PRINTED.mkdir(exist_ok=True)
    (_PRINTED / "commands.md").write_text(_commands())
    (_PRINTED / "settings.md").write_text(_settings())
    (_PRINTED / "python.md").write_text(_python())


def bring_results(_: Sphinx) -> None:
    """Copy the pages of benchmark results from ``benchmarks/results`` to ``docs/results``."""
    copies = Path(__file__).parent / "results"
    shutil.rmtree(copies, ignore_errors=True)
    copies.mkdir()
    for page in (Path(__file__).parents[1] / _RESULTS).glob("*.md"):
        (copies / page.name).write_text(page.read_text().replace("](../../docs/", "](../"))


def link_results(_app: Sphinx, _name: str, source: list[str]) -> None:
    """Change links to pages of benchmark results into links to their copies."""
    source[0] = source[0].replace(f"](../{_RESULTS}/", "](results/")


def leave_out_the_plan(
    _app: Sphinx, _what: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Remove the paragraph for maintainers, which begins with "Belongs here:", from a module's docstring."""
    for k, line in enumerate(lines):
        if line.startswith("Belongs here:"):
            end = lines.index("", k) if "" in lines[k:] else len(lines)
            lines[k:end] = []
            return


def setup(app: Sphinx) -> None:
    """Connect the functions of this module to Sphinx's events."""
    app.connect("builder-inited", print_reference)
    app.connect("builder-inited", bring_results)
    app.connect("source-read", link_results)
    app.connect("autodoc-process-docstring", leave_out_the_plan)
    app.add_lexer("mermaid", TextLexer)  # a diagram that GitHub draws, and that is text here
