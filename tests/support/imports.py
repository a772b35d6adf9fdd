"""What an import costs in a process of its own, from kept bytecode: CPU seconds, and calls.

Belongs here: measuring. Belongs elsewhere: which imports, or how much they may cost.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]

# The garbage collector is off, because the time of its passes would count for whichever import triggers them.
_SECONDS = """
import gc, time
gc.disable()
began = time.process_time()
import {}
print(time.process_time() - began)
"""

_CALLS = """
import sys
calls = 0
def count(_frame, event, _arg):
    global calls
    calls += event in ("call", "c_call")
sys.setprofile(count)
import {}
sys.setprofile(None)
print(calls)
"""


def seconds(module: str, cache: str) -> float:
    """CPU seconds of an import in a fresh process; ``cache`` as in ``calls``."""
    return _measured(_SECONDS, module, cache)


def _measured(code: str, module: str, cache: str) -> float:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code.format(module)],
        capture_output=True,
        text=True,
        check=True,
        cwd=_ROOT,
        env=environment | {"PYTHONPYCACHEPREFIX": cache},
    )
    return float(done.stdout.splitlines()[-1])


def calls(module: str, cache: str) -> int:
    """How many functions are called by an import in a fresh process: the same number every time.

    Parameters
    ----------
    module : str
    cache : str
        Folder of bytecode; what is not there is compiled and kept first.
    """
    seconds(module, cache)
    return int(_measured(_CALLS, module, cache))
