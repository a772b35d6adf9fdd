"""Damage every kind of file of a workspace in six ways, and check the next runs.

``python -m benchmarks.soaks.damage [--match TEXT]`` prints a line for each case, and exits with 1 if a case fails.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.support.damage import DAMAGES, make_small, one_of_each_kind, try_damage, undisturbed


def main() -> int:
    """Print a line for each case; return 1 if data are lost, a traceback is printed or no repair is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soaks.damage")
    parser.add_argument("--match", default="", help="only files whose path contains this text")
    parser.add_argument("--how", choices=DAMAGES, action="append", help="only this kind of damage; repeatable")
    given = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    logging.disable(logging.WARNING)
    healed: Counter[str] = Counter()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="soak_damage_") as name:
        folder = Path(name)
        small = make_small(folder / "small")
        calm = undisturbed(small, folder / "calm")
        for path in one_of_each_kind(small):
            for damage in given.how or DAMAGES:
                if given.match not in path:
                    continue
                case = try_damage(small, folder / "case", path, damage, calm)
                shutil.rmtree(folder / "case")
                healed[case.healed] += 1
                wrong += bool(case.wrong)
                print(f"{path[:78]:80}{damage:11}{case.healed:25}{case.message[:300]}", flush=True)
                for what in case.wrong[:6]:
                    print(f"    WRONG: {what[:400]}", flush=True)
    print(f"\n{healed.total()} cases: {dict(healed)}; {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
