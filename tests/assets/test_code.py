"""What an asset's code version covers: the modules that it reaches by imports, and nothing that computes nothing."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from assets.code import WITHOUT_EFFECT, code_of, modules_of, read_module
from assets.fit.stages import STAGES
from orchestration.instance import workspace_instance
from orchestration.workspace import load_workspace

ROOT = Path(__file__).parents[2]
PACKAGES = ("care_ops", "judges", "warehouse", "assets", "orchestration")


def test_imports_are_those_that_an_import_graph_finds():
    """Against grimp, which reads the syntax tree; also imports inside functions, without those for types only."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)
    assert len(graph.modules) > 150
    for module in sorted(graph.modules):
        wanted = graph.find_modules_directly_imported_by(module)
        above = {".".join(m.split(".")[:k]) for m in wanted for k in range(1, m.count(".") + 1)}
        assert wanted <= read_module(module).imports <= wanted | above, module


def test_what_is_left_out_is_no_code():
    """Against the syntax tree: without docstrings it is the same before and after."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            # a body that was a docstring and nothing else is none without it
            kept = re.sub(r"^( *)((?:async )?def .*?:|class .*?:)\n(?!\1 )", r"\1\2 ...\n", code_of(text), flags=re.M)
            assert ast.dump(without_docstrings(text)) == ast.dump(without_docstrings(kept)), path
            assert not re.search(r"^ *#", re.sub('""".*?"""', "", kept, flags=re.S), flags=re.M), path


def without_docstrings(text: str) -> ast.Module:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                s
                for s in body
                if not (
                    isinstance(s, ast.Expr)
                    and isinstance(s.value, ast.Constant)
                    and isinstance(s.value.value, str | type(...))
                )
            ]
    return tree


def test_a_fit_covers_what_it_calls_lazily_and_nothing_else():
    found = modules_of("assets.fit.aggregates", "care_ops")
    assert {"care_ops.frozen", "care_ops.aggregators.care", "care_ops.models.label_model"} <= found
    assert not {m for m in found if m.startswith(("care_ops.results", "assets.report", "warehouse", "judges"))}
    assert "care_ops.admission" in modules_of("assets.fit.panel", "care_ops")
    assert "care_ops.structure.program" not in modules_of("assets.fit.panel", "care_ops")
    assert not found & set(WITHOUT_EFFECT)


def test_templates_and_schemas_count_with_their_modules(copied):
    before = versions(copied)
    edit(copied / "assets" / "report" / "templates" / "page.html", lambda text: text + "<p>more</p>")
    after = versions(copied)
    assert {asset for asset in before if before[asset] != after[asset]} == {"report", "report_index"}
    edit(copied / "warehouse" / "schema.sql", lambda text: text + "\n-- more\n")
    last = versions(copied)
    assert {asset for asset in after if after[asset] != last[asset]} == {"items", "gold"}


def test_docstrings_comments_and_layout_are_no_change_and_code_is(copied):
    before = versions(copied)
    for path in (copied / "care_ops").rglob("*.py"):
        edit(path, lambda text: text.replace('"""', '"""Another text. ', 1) + "\n\n# a comment\n")
    assert versions(copied) == before
    edit(copied / "care_ops" / "frozen.py", lambda text: text + "\nMORE = 1\n")
    after = versions(copied)
    assert {a for a in before if before[a] != after[a]} >= {"aggregates", "review"}
    assert all(before[a] == after[a] for a in ("panel", "moments", "structure", "items", "judge_inference"))


@pytest.mark.slow
def test_a_run_after_a_docstring_does_nothing_and_after_code_fits_again(copied, workspace_after_run):
    folder = workspace_after_run
    assert "nothing to do" in run(copied, folder)
    first = last_made(folder)
    assert first.keys() >= {*STAGES, "report"}
    edit(copied / "care_ops" / "results" / "agreement.py", lambda text: text.replace('"""', '"""Another text. ', 1))
    assert "nothing to do" in run(copied, folder)
    edit(copied / "care_ops" / "frozen.py", lambda text: text + "\nMORE = 1\n")
    assert "nothing to do" not in run(copied, folder)
    made = {asset for asset, at in last_made(folder).items() if at > first[asset]}
    assert made >= {"aggregates", "review", "report"}
    assert not made & {*STAGES[:-1], "scores", "judge_inference", "items"}
    assert "nothing to do" in run(copied, folder)


@pytest.fixture
def copied(tmp_path):
    """A copy of the packages, which is imported instead of the installed ones."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / "source" / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "source"


def edit(path: Path, change) -> None:
    path.write_text(change(path.read_text()))


def python(source: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=source,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def versions(source: Path) -> dict[str, str]:
    code = (
        "import json, assets; from orchestration.definitions import ASSETS; "
        "print(json.dumps({s.key.to_user_string(): s.code_version for a in ASSETS for s in a.specs}))"
    )
    return json.loads(python(source, "-c", code).splitlines()[0])


def run(source: Path, folder: Path) -> str:
    return python(source, "-m", "orchestration.cli", "run", "--workspace", str(folder))


def last_made(folder: Path) -> dict[str, float]:
    """When each asset was last materialised."""
    with workspace_instance(load_workspace(folder)) as instance:
        events = {
            key.to_user_string(): instance.get_latest_materialization_event(key) for key in instance.all_asset_keys()
        }
    return {key: event.timestamp for key, event in events.items() if event is not None}
