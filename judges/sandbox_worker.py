"""Script that loads one program in the sandbox, then reads questions and writes answers as lines of JSON.

The script imports no module of CARE, because none is readable inside the sandbox. Before it loads the program, it
blocks system calls that start processes, bypass the memory limit, or enlarge the kernel's attack surface.
"""

import ctypes
import errno
import json
import os
import platform
import resource
import signal
import struct
import sys
from typing import Any

_NOBODY = 65534
_THREADS = 32
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 1, 38, 22  # from the system's header sys/prctl.h

_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Audit number of each processor architecture, and index of its system call numbers in ``_REFUSED``."""

_CLONE = (56, 220)
_CLONE3 = 435
_REFUSED = {
    **{"fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281)},
    **{"memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmat": (30, 196)},
    **{"msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180)},
    **{"unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39)},
    **{"pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429)},
    **{"fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433)},
    **{"mount_setattr": (442, 442), "ptrace": (101, 117), "process_vm_readv": (310, 270)},
    **{"process_vm_writev": (311, 271), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "bpf": (321, 280)},
    **{"perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_setup": (206, 0)},
    **{"io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427)},
    **{"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "personality": (135, 92)},
    **{"kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105)},
    **{"finit_module": (313, 273), "delete_module": (176, 106), "open_by_handle_at": (304, 265)},
}
"""System calls that a program may not make, with their numbers on each architecture."""


def main() -> None:
    """Set the limits, load the program from the first line of standard input, and answer the questions that follow.

    The command-line arguments are the kind of sandbox (``bwrap`` or ``none``), the memory limit in megabytes, and the
    folders of installed packages.
    """
    kind, memory, *packages = sys.argv[1:]
    sys.path += [path for path in packages if path not in sys.path]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # what the program prints must not mix with the answers
        os.dup2(quiet, descriptor)
    _limit(resource.RLIMIT_AS, int(memory) << 20)
    _limit(resource.RLIMIT_CORE, 0)
    source = json.loads(questions.readline())
    try:
        if kind == "none":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # bubblewrap does this for a sandbox
        else:
            _give_up_rights()
        function = _load(source)
    except (Exception, SystemExit) as error:  # the program is refused with Python's message
        _say(answers, _failed(error))
        return
    _say(answers, {"ready": True})
    for line in questions:
        question = json.loads(line)
        try:
            _say(answers, _score(function(question["query"], question["response"])))
        except Exception as error:  # an error of the program is its answer
            _say(answers, _failed(error))


def _limit(what: int, value: int) -> None:
    resource.setrlimit(what, (value, value))


def _give_up_rights() -> None:
    """Drop privileges: switch from root to nobody, and block new processes, file writes and dangerous system calls."""
    _limit(resource.RLIMIT_NPROC, _THREADS)  # threads count as processes
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NOFILE, 64)
    _limit(resource.RLIMIT_MSGQUEUE, 0)
    if os.getuid() == 0:  # the limit on threads does not bind root
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    program = _filter(platform.machine())
    filters = ctypes.create_string_buffer(program)
    fprog = struct.pack("HL", len(program) // 8, ctypes.addressof(filters))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    place = ctypes.create_string_buffer(fprog)
    if prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(_PR_SET_SECCOMP, 2, ctypes.addressof(place), 0, 0):
        raise OSError(
            ctypes.get_errno(), "this kernel does not accept a seccomp filter; use a kernel with CONFIG_SECCOMP_FILTER"
        )


def _filter(machine: str) -> bytes:
    """Return the system-call filter (seccomp) as classic BPF instructions of 8 bytes each."""
    if machine not in _MACHINES:
        raise OSError(f"the sandbox does not support the processor {machine!r}; run the program on x86_64 or aarch64")
    architecture, column = _MACHINES[machine]
    load, equal, above, has_bits, end = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, kill = 0x7FFF0000, 0x80000000
    refuse, unknown = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
    code = [(load, 0, 0, 4), (equal, 1, 0, architecture), (end, 0, 0, kill), (load, 0, 0, 0)]
    code += [(above, 0, 1, 0x40000000), (end, 0, 0, kill)]  # the calls of the x32 variant of x86-64
    code += [(equal, 0, 1, _CLONE3), (end, 0, 0, unknown)]  # its flags cannot be read, and C libraries then take clone
    for numbers in _REFUSED.values():
        if (number := numbers[column]) is not None:
            code += [(equal, 0, 1, number), (end, 0, 0, refuse)]
    code += [(equal, 0, 3, _CLONE[column]), (load, 0, 0, 16), (has_bits, 1, 0, 0x10000), (end, 0, 0, refuse)]
    code += [(end, 0, 0, allow)]  # threads (CLONE_THREAD) and all other calls
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def _load(source: str) -> Any:
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(source, "program", "exec"), names)
    if not callable(names.get("program_judge")):
        raise NameError("it defines no function program_judge")
    return names["program_judge"]


def _failed(error: BaseException) -> dict[str, Any]:
    return {"error": f"{type(error).__name__}: {error}"[:400]}


def _score(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        value = value.get("score")
    return {"score": value if value is None else float(value)}


def _say(answers: Any, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
