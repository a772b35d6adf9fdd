"""``python -m orchestration.daemon``: what ``care admin daemon`` becomes, Dagster's daemon with its own code server."""

import sys

from orchestration.dagster_internals import run_daemon

RELOAD_S = 300.0
"""Seconds between two starts of the code server, which cost some CPU seconds each.

A new start reads the definitions anew, with `nightly` of care.yaml; one that has died is replaced at once.
"""

if __name__ == "__main__":
    run_daemon(sys.argv[1:], reload_s=RELOAD_S)
