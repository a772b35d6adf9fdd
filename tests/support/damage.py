"""Damage of one file of a workspace, and comparison of the next runs with an undisturbed workspace.

``tests/orchestration/test_damage.py`` and ``benchmarks.soaks.damage`` choose the cases.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from typer.testing import CliRunner

from orchestration.cli.app import app
from tests.support.faults import Difference, State, compare, state_of
from tests.support.workspaces import make, write_items

EDITED = 3
"""Number of the item whose text changes after the damage."""

ITEMS, JUDGES = 12, ("length", "conciseness", "redundancy", "thoroughness")
CARE = "fit: {resamples: 20, aggregators: [care, avg, care_svd]}\nreview: {hold: false}\n"
_DRAWN = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{12,}|(?<=compute_logs/)\w+")
_REPAIR = re.compile(r"`care |put it back|put the parts back|correct this|move it away|no such file|not valid YAML")
"""Pattern of the next step in an error message."""

_HISTORY_OF_DAGSTER = re.compile(r"compute_logs/|history/runs/[0-9a-f-]{36}\.db$|schedules\.db$")
"""Logs of runs and ticks that are over. Only Dagster's UI reads them; SQLite has no checksums, so a bit that is flipped
within a value stays unnoticed there."""


def _flip(path: Path) -> None:
    """Flip one bit at four places, to keep text valid but change its meaning."""
    content = bytearray(path.read_bytes())
    for quarter in range(4) if content else ():
        content[len(content) * quarter // 4 + len(content) // 8] ^= 1
    path.write_bytes(content)


def _overwrite_head(path: Path) -> None:
    """Overwrite bytes 8 to 24, which hold the header of a database."""
    content = bytearray(path.read_bytes())
    for at in range(8, min(24, len(content))):
        content[at] ^= 0xFF
    path.write_bytes(content)


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "something.txt").write_text("somebody's")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped": _flip,
    "head": _overwrite_head,
    "emptied": lambda path: path.write_bytes(b""),
    "deleted": Path.unlink,
    "a folder": _replace_by_folder,
}


def make_small(folder: Path) -> Path:
    """Create a minimal workspace and run it once."""
    make(folder, judges=JUDGES, n=ITEMS, care=CARE)
    assert run(folder).code == 0
    return folder


def one_of_each_kind(workspace: Path) -> list[str]:
    """List the files of a workspace, one for each group of paths that differ only by hashes."""
    paths = sorted(str(path.relative_to(workspace)) for path in workspace.rglob("*") if path.is_file())
    chosen: dict[str, str] = {}
    for path in paths:
        chosen.setdefault(_DRAWN.sub("#", path), path)
    return [path for path in chosen.values() if not path.endswith(".lock")]


@dataclass(frozen=True)
class CareRun:
    """Outcome of a command; ``traceback`` is the text of an uncaught exception."""

    code: int
    output: str
    traceback: str = ""


def run(workspace: Path, *command: str) -> CareRun:
    """Run a command of ``care``, by default ``care run``."""
    result = CliRunner().invoke(app, [*(command or ("run",)), "--workspace", str(workspace)])
    escaped = result.exception
    uncaught = "" if escaped is None or isinstance(escaped, SystemExit) else repr(escaped)
    if not uncaught and "Traceback" in result.output:
        uncaught = result.output[result.output.index("Traceback") :][-300:]
    return CareRun(result.exit_code, result.output, uncaught)


@dataclass(frozen=True)
class Case:
    """Result of damaging one file.

    Attributes
    ----------
    path, damage : str
    healed : str
        How the damage was repaired: by the first run, by a run after a failed run, by ``care doctor --repair``, by a
        person who restored the file, or not at all; and whether a part of the history was lost.
    message : str
        Message of the first run that failed.
    wrong : list of str
        Uncaught exceptions, failures without a next step, and final differences from an undisturbed workspace.
    """

    path: str
    damage: str
    healed: str
    message: str
    wrong: list[str]


def undisturbed(small: Path, folder: Path) -> State:
    """Return the state after all steps of ``try_damage`` except the damage."""
    workspace = shutil.copytree(small, folder, symlinks=True)
    for _ in range(2):
        write_items(workspace, ITEMS, edited=EDITED)
        assert run(workspace).code == 0
    return state_of(workspace)


def try_damage(small: Path, folder: Path, path: str, damage: str, calm: State) -> Case:
    """Damage a file of a copied workspace, run, edit an item, run twice, and repair if needed."""
    workspace = shutil.copytree(small, folder, symlinks=True)
    target = workspace / path
    content, users = target.read_bytes(), not path.startswith("data/")
    DAMAGES[damage](target)
    runs = [run(workspace)]
    if users:
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
        target.write_bytes(content)
    write_items(workspace, ITEMS, edited=EDITED)
    runs += [run(workspace), run(workspace)]
    failed = [each for each in runs if each.code != 0]
    healed = "by itself" if not failed else "put back by a person" if users else "after a run that failed"
    if runs[-1].code != 0:
        repair = run(workspace, "doctor", "--repair")
        runs.append(run(workspace))
        healed = "by doctor --repair" if runs[-1].code == 0 else "no"
        runs.append(replace(repair, code=0))
    wrong = [f"uncaught {each.traceback}" for each in runs if each.traceback]
    named = re.compile(re.escape(target.name)) if users else _REPAIR
    wrong += [f"no repair named: {_line(each)}" for each in failed if not named.search(each.output)]
    wrong += [f"run {n} fails" for n, each in enumerate(runs) if n > 2 and each.code != 0]
    if target.exists() and not users and _is_damaged(target, content, damage):
        named_by_doctor = target.name in run(workspace, "doctor").output.replace("\n", "")
        harmless = _HISTORY_OF_DAGSTER.search(path) is not None
        wrong += [] if named_by_doctor or harmless else ["nobody has read it, and the doctor is silent"]
        shutil.rmtree(target) if target.is_dir() else target.unlink()
        healed = "named by the doctor" if named_by_doctor else "without effect"
    if not users or failed:  # otherwise a person's file was changed and is still valid, so the run differs
        differs = _differences(compare(calm, state_of(workspace)))
        if path.startswith("data/parts/fits/") and not target.exists():
            # an older fit is not rebuilt, so history and review cannot mention it
            lost = rf"{re.escape(target.name)}|\.html|review" + "|^lost: aggregates: " * ("fit_version=" in path)
            differs = [what for what in differs if not re.search(lost, what)]
            healed = f"{healed}, set aside"
        if path.startswith("data/parts/scores/"):
            # the score of a deleted text is not requested again
            differs = [what for what in differs if not re.match(rf"lost: judge=\S+ item_id=i{EDITED},", what)]
        wrong += differs
    return Case(path, damage, healed, _line(failed[0]) if failed else "", wrong)


def _is_damaged(target: Path, content: bytes, damage: str) -> bool:
    """Return whether a file still has its damaged content."""
    if target.is_dir():
        return True
    now = target.read_bytes()
    again = target.with_name("damaged again")
    again.write_bytes(content)
    DAMAGES[damage](again)
    same = again.is_file() and again.read_bytes() == now
    shutil.rmtree(again) if again.is_dir() else again.unlink(missing_ok=True)
    return same and now != content


def _differences(found: Difference) -> list[str]:
    """Describe the differences from an undisturbed workspace, without quarantined files."""
    different = [what for what in found.different if "damaged" not in what]
    return [
        f"{kind}: {what}"
        for kind, all_ in (("lost", found.lost), ("double", found.double), ("different", different))
        for what in all_
    ]


def _line(ran: CareRun) -> str:
    """Return the message of a failed run as one line."""
    lines = [line for line in ran.output.splitlines() if line.startswith(("failed:", "error:"))]
    return lines[0] if lines else " ".join(ran.output.split())[-200:]
