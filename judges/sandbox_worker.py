"""The script that runs inside the sandbox: it loads one program and answers one JSON line per question.

It imports no module of CARE, because none is readable inside the sandbox.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

_NOBODY = 65534
_PR_SET_PDEATHSIG = 1  # of the system's header sys/prctl.h


def main() -> None:
    """Set the limits, load the program from the first line of standard input, and answer the lines that follow.

    The command-line arguments are the user (``nobody`` or ``same``), the memory limit in megabytes, the largest number
    of processes, and the largest size of a file in megabytes.
    """
    user, memory, processes, file_size = sys.argv[1], *map(int, sys.argv[2:5])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # what the program prints must not mix with the answers
        os.dup2(quiet, descriptor)
    for limit, value in (
        (resource.RLIMIT_AS, memory << 20),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_FSIZE, file_size << 20),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    if user == "nobody" and os.getuid() == 0:  # the limit on processes does not bind root
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    if user == "same" and sys.platform == "linux":  # a sandbox sees to it from outside
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    source, name = json.loads(questions.readline())
    answer = {"program_judge": _score, "probe": _text}[name]
    try:
        function = _load(source, name)
    except (Exception, SystemExit) as error:  # the program is refused with what Python says of it
        _say(answers, _failed(error))
        return
    _say(answers, {"ready": True})
    for line in questions:
        question = json.loads(line)
        try:
            _say(answers, answer(function(question["query"], question["response"])))
        except Exception as error:  # an error of the program is its answer
            _say(answers, _failed(error))


def _load(source: str, function: str) -> Any:
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(source, "program", "exec"), names)
    if not callable(names.get(function)):
        raise NameError(f"it defines no function {function}")
    return names[function]


def _failed(error: BaseException) -> dict[str, Any]:
    return {"error": f"{type(error).__name__}: {error}"[:400]}


def _score(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        value = value.get("score")
    return {"score": value if value is None else float(value)}


def _text(value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"probe returned {type(value).__name__}; return the version's text, or None for no version")
    return {"text": value}


def _say(answers: Any, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
