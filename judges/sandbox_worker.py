"""Runs inside the sandbox: loads one program and answers JSON lines. Imports nothing of ours.

Belongs here: limits, the program, the loop. Does not: building the sandbox (``judges.sandbox``).
"""

import json
import os
import resource
import sys
from typing import Any

_NOBODY = 65534


def main() -> None:
    """Arguments: user, megabytes of memory, processes, megabytes of a file. The first line read is the program."""
    user, memory, processes, file_size = sys.argv[1], *map(int, sys.argv[2:5])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # what a program prints is nobody's business
        os.dup2(quiet, descriptor)
    for limit, value in (
        (resource.RLIMIT_AS, memory << 20),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_FSIZE, file_size << 20),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    if user == "nobody" and os.getuid() == 0:  # root is not bound by a limit of processes
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    judge = _load(json.loads(questions.readline()))
    _say(answers, {"ready": True})
    for line in questions:
        question = json.loads(line)
        try:
            value = judge(question["query"], question["response"])
            if isinstance(value, dict):
                value = value.get("score")
            _say(answers, {"score": value if value is None else float(value)})
        except Exception as error:  # a program's own fault becomes its answer, with what it said
            _say(answers, {"error": f"{type(error).__name__}: {error}"[:400]})


def _load(source: str) -> Any:
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(source, "program", "exec"), names)
    return names["program_judge"]


def _say(answers: Any, what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
