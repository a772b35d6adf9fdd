"""Tests of forbidden and permitted actions of programs in the sandbox."""

import hashlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from care_ops.errors import InputError, JudgeError
from judges.engines.base import Context
from judges.engines.checks import checks
from judges.engines.factory import build_engine, revision_of
from judges.items import Item, Status
from judges.sandbox import ProgramFile, Sandbox, why_unavailable
from judges.spec import JudgeSpec, ProgramEngine

ITEM = Item("a", "What is it?", "It is Paris.")


@pytest.fixture
def kind(request):
    if (why := why_unavailable()) and not hasattr(request, "param"):
        pytest.skip(why)
    return getattr(request, "param", "bwrap")


def ask(folder, kind, body, *, timeout=3.0, memory=512):
    """Return the score of a program with this body; 10 means that a forbidden action succeeded."""
    program = folder / "judge.py"
    code = "import os, socket, subprocess, sys, time\n\ndef program_judge(query, response):\n"
    program.write_text(code + textwrap.indent(textwrap.dedent(body), "    "))
    sandbox = Sandbox(ProgramFile.read(program), timeout, memory, kind)
    try:
        return sandbox.ask("question", "response")
    finally:
        sandbox.close()


def test_it_answers(tmp_path, kind):
    assert ask(tmp_path, kind, "return {'score': len(response), 'reasoning': '', 'criteria': ''}") == {"score": 8.0}
    assert ask(tmp_path, kind, "print('noise' * 1000)\nreturn 3") == {"score": 3.0}
    assert ask(tmp_path, kind, "raise ValueError('no')") == {"error": "ValueError: no"}
    assert ask(tmp_path, kind, "import textstat\nreturn 1") == {"score": 1.0}
    threads = "from threading import Thread\nt = Thread(target=list)\nt.start()\nt.join()\nreturn 2"
    assert ask(tmp_path, kind, threads) == {"score": 2.0}
    assert ask(tmp_path, kind, "import numpy, ssl, sqlite3, ctypes\nreturn float(numpy.eye(9).sum())") == {"score": 9.0}


def test_host_files_cannot_be_read(tmp_path, kind):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o644)
    for path in (secret, "/etc/passwd", "/root/.bashrc", __file__, "/proc/1/root/etc/passwd", "/usr/bin/env"):
        assert "error" in ask(tmp_path, kind, f"open({str(path)!r}).read()\nreturn 10"), path


def test_only_python_and_libraries_are_there(tmp_path, kind):
    listed = "raise RuntimeError(' '.join([*os.listdir('/usr'), *os.listdir('/etc'), *os.listdir('/dev')]))"
    listing = ask(tmp_path, kind, listed)["error"].removeprefix("RuntimeError: ").split()
    system = {"lib", "lib64", "local", "share", "alternatives", "ld.so.cache", "bin"}
    assert set(listing) <= system | {"null", "zero", "random", "urandom"}, listing
    share = "return len(os.listdir('/usr/share')) if os.path.exists('/usr/share') else 1"
    assert ask(tmp_path, kind, share)["score"] == 1


def test_nothing_can_be_written(tmp_path, kind):
    for path in (tmp_path / "new", "/usr/new", "/new", "/tmp/new", "/dev/shm/new", "/dev/new", tmp_path / "judge.py"):
        assert "error" in ask(tmp_path, kind, f"open({str(path)!r}, 'a').write('x')\nreturn 10"), path
    assert not (tmp_path / "new").exists()


def test_there_is_no_network(tmp_path, kind):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert "error" in ask(tmp_path, kind, f"socket.create_connection(('127.0.0.1', {port}), 1)\nreturn 10")
    assert "error" in ask(tmp_path, kind, "socket.create_connection(('1.1.1.1', 53), 1)\nreturn 10")


def test_the_environment_is_empty(tmp_path, kind, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert ask(tmp_path, kind, "return 10 if 'OPENAI_API_KEY' in os.environ else 1") == {"score": 1.0}
    environ = "open('/proc/1/environ').read()"
    answer = ask(tmp_path, kind, f"return 10 if 'secret' in {environ} else 1")
    assert answer.get("score") != 10


@pytest.mark.parametrize(
    "start", ["os.fork()", "subprocess.run([sys.executable, '-c', ''])", "os.execv(sys.executable, ['x'])"]
)
def test_no_process_is_started(tmp_path, kind, start):
    """Otherwise processes could exceed the memory limit together, or get other rights."""
    assert ask(tmp_path, kind, f"{start}\nreturn 10")["error"].startswith("PermissionError")


@pytest.mark.parametrize(
    "hold",
    [
        "held.append(bytearray(64 << 20))",
        "fd = os.memfd_create('m')\nheld.append(fd)\nos.write(fd, b'x' * (64 << 20))",
        "import mmap\nheld.append(mmap.mmap(-1, 64 << 20))\nheld[-1].write(b'x' * (64 << 20))",
        "import ctypes\nif ctypes.CDLL(None).shmget(0, 64 << 20, 0o1600) < 0: raise OSError",
        "open(f'/tmp/{k}', 'wb').write(b'x' * (64 << 20))",
        "open(f'/{k}', 'wb')",
    ],
)
def test_the_memory_limit_holds(tmp_path, kind, hold):
    body = "held = []\nfor k in range(1024):\n" + textwrap.indent(hold, "    ") + "\nreturn 10"
    assert "Error" in ask(tmp_path, kind, body, timeout=20.0)["error"]
    body = f"""
free = os.sysconf('SC_AVPHYS_PAGES')
held = []
try:
    for k in range(64):
{textwrap.indent(hold, " " * 8)}
except (OSError, MemoryError):
    pass
return (free - os.sysconf('SC_AVPHYS_PAGES')) * os.sysconf('SC_PAGE_SIZE') / 2**20
"""
    assert ask(tmp_path, kind, body, timeout=20.0)["score"] < 1024  # of 4096; other processes of the machine move it


def test_an_endless_loop_is_ended(tmp_path, kind):
    before = processes()
    started = time.monotonic()
    engine = build_engine(file_judge(tmp_path, "while True: pass", timeout_s=0.5), Context(tmp_path))
    score = engine.score([ITEM])[0]
    engine.close()
    assert (score.score, score.status) == (None, Status.TIMEOUT)
    assert time.monotonic() - started < 10
    assert processes_settle(before)


@pytest.mark.parametrize("kind", ["none" if why_unavailable() else "bwrap", "none"], indirect=True)
def test_a_program_that_never_ends_does_not_outlive_a_run_that_is_killed(tmp_path, kind):
    (tmp_path / "judge.py").write_text("def program_judge(query, response):\n    while True: pass\n")
    run = f"""
from pathlib import Path
from judges.sandbox import ProgramFile, Sandbox
Sandbox(ProgramFile.read(Path({str(tmp_path / "judge.py")!r})), 60.0, 512, {kind!r}).ask("", "")
"""
    with subprocess.Popen([sys.executable, "-c", run]) as process:
        assert soon(lambda: computes(process.pid)), "the program runs"
        family = descendants(process.pid)
        process.kill()
    try:
        assert soon(lambda: not alive(family))
    finally:
        for pid in alive(family):
            os.kill(pid, signal.SIGKILL)


def test_the_parent_cannot_be_killed(tmp_path, kind):
    assert ask(tmp_path, kind, f"os.kill({os.getpid()}, 9)\nreturn 10").get("score") != 10
    everybody = "for p in range(2, 100000):\n    try: os.kill(p, 9)\n    except OSError: pass\nreturn 1"
    assert "score" in ask_or_die(tmp_path, kind, everybody)


def test_a_gigabyte_of_output_is_cut(tmp_path, kind):
    engine = build_engine(file_judge(tmp_path, "return {'score': 'x' * (1 << 30)}"), Context(tmp_path))
    assert engine.score([ITEM])[0].status is Status.ENGINE_ERROR
    forged = "for fd in range(3, 20):\n    try: os.write(fd, b'x' * (1 << 27))\n    except OSError: pass\nreturn 1"
    program = file_judge(tmp_path, forged)
    engine = build_engine(program, Context(tmp_path))
    assert engine.score([ITEM])[0].status in (Status.ENGINE_ERROR, Status.TIMEOUT)
    engine.close()


def test_an_answer_cannot_be_forged_ahead_of_the_question(tmp_path, kind):
    """A program that writes too many answers is stopped, because it could answer for unseen items."""
    forged = """
    for fd in range(3, 20):
        try:
            os.write(fd, b'{"score": 9}\\n' * 2)
        except OSError:
            pass
    return 1
    """
    engine = build_engine(file_judge(tmp_path, forged), Context(tmp_path))
    assert engine.score([ITEM])[0].status is Status.ENGINE_ERROR
    engine.close()


def test_a_terminals_interrupt_does_not_reach_the_program(tmp_path):
    """Otherwise the current item would be stored as a failure."""
    body = "return int(os.getsid(0) != os.getsid(os.getppid()))"
    engine = build_engine(file_judge(tmp_path, body, unsafe=True), Context(tmp_path))
    assert engine.score([ITEM])[0].score == 1.0
    engine.close()


def test_the_next_item_gets_a_fresh_process(tmp_path, kind):
    body = "if 'die' in response:\n    os._exit(1)\nreturn len(response)"
    engine = build_engine(file_judge(tmp_path, body), Context(tmp_path))
    scores = engine.score([Item("a", "q", "die"), Item("b", "q", "fine"), Item("c", "q", "x" * 2_000_000)])
    engine.close()
    assert [(s.score, s.status) for s in scores] == [
        (None, Status.ENGINE_ERROR),
        (4.0, Status.OK),
        (None, Status.OUT_OF_RANGE),
    ]


def test_a_program_that_cannot_run_is_reported(tmp_path, monkeypatch):
    (tmp_path / "judge.py").write_text("no python here(")
    judge = JudgeSpec(name="j", engine=ProgramEngine(file="judge.py"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JudgeError, match=r"judge\.py: .*install bubblewrap .*or set unsafe: true"):
        build_engine(judge, Context(tmp_path))
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    with pytest.raises(JudgeError, match=r"does not work here \(bwrap: No permissions to create new namespace\)"):
        build_engine(judge, Context(tmp_path))
    (tmp_path / "bwrap").write_text("no program")
    with pytest.raises(JudgeError, match="bubblewrap is installed but does not start here"):
        build_engine(judge, Context(tmp_path))


def test_bubblewrap_is_found_wherever_the_path_leads(tmp_path, kind, monkeypatch):
    (tmp_path / "bwrap").symlink_to(shutil.which("bwrap"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not why_unavailable()
    assert ask(tmp_path, kind, "return 3") == {"score": 3.0}


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import numpy_nope\n", "ModuleNotFoundError: No module named 'numpy_nope'"),
        ("def judge(q, r): return 1\n", "NameError: it defines no function program_judge"),
        ("no python here(", "SyntaxError: "),
        ("raise ValueError('one\\ntwo')", "ValueError: one two"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_program_that_fails_to_load_is_reported_with_pythons_message(tmp_path, source, why):
    """The sandbox and `care doctor` report it; a program without a sandbox is not loaded by a check."""
    (tmp_path / "judge.py").write_text(source)
    unsafe = JudgeSpec(name="j", engine=ProgramEngine(file="judge.py", unsafe=True))
    engine = build_engine(unsafe, Context(tmp_path))
    with pytest.raises(JudgeError, match=r"judge\.py: the program cannot be loaded \(") as caught:
        engine.score([ITEM])
    assert f"({why}" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert [state for state, _ in checks(unsafe, root=tmp_path)] == ["warns"]


def test_a_check_loads_a_program_in_the_sandbox(tmp_path, kind):
    judge = JudgeSpec(name="j", engine=ProgramEngine(file="judge.py"))
    (_, missing) = checks(judge, root=tmp_path)[0]
    assert "judge.py: cannot be read" in missing
    (tmp_path / "judge.py").write_text("import numpy_nope\n")
    assert "(ModuleNotFoundError: No module named 'numpy_nope')" in str(checks(judge, root=tmp_path))
    file_judge(tmp_path, "return 1")
    assert checks(judge, root=tmp_path) == [("ok", "the program loads in the sandbox bwrap")]


def test_a_program_is_sent_to_a_machine_without_its_file(tmp_path, kind):
    """An actor on another node gets the program's source, with the version in the key."""
    program = file_judge(tmp_path, "return len(response) - 7")
    version = revision_of(program, Context(tmp_path))
    assert version == hashlib.sha256((tmp_path / "judge.py").read_bytes()).hexdigest()
    sent = pickle.dumps(Context(tmp_path).for_another_machine(program))
    (tmp_path / "judge.py").unlink()
    engine = build_engine(program, pickle.loads(sent))
    assert [(score.score, score.status) for score in engine.score([ITEM])] == [(5.0, Status.OK)]
    engine.close()


def test_an_unreadable_program_file_is_reported(tmp_path):
    judge = JudgeSpec(name="j", engine=ProgramEngine(file="judge.py", unsafe=True))
    with pytest.raises(InputError, match=r"judge\.py: cannot be read \(No such file or directory\)"):
        build_engine(judge, Context(tmp_path))
    (tmp_path / "judge.py").write_bytes(b"# \xff\n")
    with pytest.raises(InputError, match=r"judge\.py: not UTF-8 text"):
        build_engine(judge, Context(tmp_path))


def file_judge(folder, body, **more):
    code = "import os\n\ndef program_judge(query, response):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    (folder / "judge.py").write_text(code)
    return JudgeSpec(name="j", engine=ProgramEngine(file="judge.py", **{"timeout_s": 5.0, **more}))


def ask_or_die(folder, kind, body):
    from judges.sandbox import SandboxDiedError

    try:
        return ask(folder, kind, body)
    except SandboxDiedError as error:
        return {"score": None, "died": str(error)}


def processes():
    return sum(path.name.isdigit() for path in Path("/proc").iterdir())


def processes_settle(before):
    """Wait until the number of processes is nearly as before."""
    return soon(lambda: processes() <= before + 5)


def soon(holds):
    """Return whether ``holds`` becomes true within ten seconds."""
    deadline = time.monotonic() + 10
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def of_process(pid):
    """Return state, parent and clock ticks of a process; a process that has ended has the state X."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0, 0
    return fields[0], int(fields[1]), int(fields[11])


def descendants(pid):
    children = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    mine = [child for child in children if of_process(child)[1] == pid]
    return mine + [each for child in mine for each in descendants(child)]


def computes(pid):
    """Return whether a descendant of a process has computed for half a second."""
    return any(of_process(each)[2] > os.sysconf("SC_CLK_TCK") / 2 for each in descendants(pid))


def alive(family):
    return [pid for pid in family if of_process(pid)[0] not in "XZ"]
