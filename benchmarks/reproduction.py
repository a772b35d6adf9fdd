"""Print the page reproduction.md from a workspace's ledger: ``python -m benchmarks.reproduction WORKSPACE``."""

from __future__ import annotations

import sys
from pathlib import Path

from assets.experiments.base import read_stored
from care_ops.errors import InputError
from orchestration.workspace import load_workspace

_HEAD = """# The paper's numbers, one by one

```
care run --workspace examples/paper --experiments
python -m benchmarks.reproduction examples/paper > benchmarks/results/reproduction.md
```

This page compares all numbers of the paper's tables, and all claims of its text and figures that a number can test,
with CARE's numbers. The paper's numbers are in `assets/experiments/paper_numbers.yaml`. CARE's numbers come from the
experiments in `examples/paper`, with the default (small) sizes, on 2026-11-28. The columns are:

- *by the paper's procedure*: the paper's algorithm and protocol, except for differences that docs/paper.md lists;
- *by our procedure*: CARE's procedure;
- *released code*: the result of the authors' code."""


def main() -> None:
    """Print the page in Markdown."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.reproduction WORKSPACE")
    workspace = load_workspace(Path(sys.argv[1]))
    stored = read_stored(workspace, "ledger")
    if stored is None:
        raise InputError(f"{workspace.root}: has no ledger; run `care run --select key:ledger` first")
    print(_HEAD)
    print()
    for sentence in stored.findings.conclusions:
        print(f"- {sentence}")
    for table in stored.findings.tables:
        print(f"\n## {table.title[0].upper()}{table.title[1:]}\n")
        columns = table.columns
        print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
        for row in table.rows:
            print(f"| {' | '.join(_cell(row[column]) for column in columns)} |")


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value).replace("|", "\\|")


if __name__ == "__main__":
    main()
