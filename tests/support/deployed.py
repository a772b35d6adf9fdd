"""Deployment without containers: PostgreSQL and the processes of ``deploy/compose.yaml``."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import psycopg2
import yaml
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from tests.support.servers import free_port, kill, wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
_PASSWORD = "a password: with / and @"
_PORT = 5432
"""Port of PostgreSQL in dagster.yaml."""


def postgres_binaries() -> Path | None:
    """Return the folder of PostgreSQL's programs, which is not on Debian's path, or None without PostgreSQL."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "postgres").exists()), None)


@contextmanager
def postgres(binaries: Path) -> Generator[str]:
    """Run a PostgreSQL server with the database and the user of compose.yaml, and yield its address.

    The server listens on the port of dagster.yaml, at a loopback address derived from the id of this process.
    """
    number = os.getpid()
    address = f"127.{1 + number // 62500 % 250}.{1 + number // 250 % 250}.{1 + number % 250}"
    user = _unprivileged()
    with tempfile.TemporaryDirectory(prefix="care-postgres-") as name:
        folder = Path(name)
        if user is not None:
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        secret = folder / "password"
        secret.write_text(_PASSWORD)
        secret.chmod(0o644)
        data = folder / "data"
        initialise = ["-D", data, "-U", "dagster", "--pwfile", secret, "--auth=scram-sha-256", "--no-sync"]
        subprocess.run([binaries / "initdb", *initialise], user=user, check=True, capture_output=True, cwd=folder)
        options = ["-D", data, "-h", address, "-p", str(_PORT), "-k", folder, "-F"]
        with (folder / "log").open("w") as log:
            server = subprocess.Popen([binaries / "postgres", *options], user=user, cwd=folder, stdout=log, stderr=log)
        try:
            wait_until(lambda: _answers(address), lambda: (folder / "log").read_text())
            _create_database(address)
            yield address
        finally:
            server.send_signal(signal.SIGINT)  # a fast shutdown
            server.wait(60)


def _unprivileged() -> str | None:
    """Return the user for PostgreSQL, which refuses to run as root; None for the current user."""
    return "postgres" if os.geteuid() == 0 else None


def _answers(address: str) -> bool:
    try:
        _connect(address, "postgres").close()
    except psycopg2.OperationalError:
        return False
    return True


def _connect(address: str, database: str):
    return psycopg2.connect(
        host=address, port=_PORT, user="dagster", password=_PASSWORD, dbname=database, connect_timeout=5
    )


def _create_database(address: str) -> None:
    connection = _connect(address, "postgres")
    connection.autocommit = True
    connection.cursor().execute("CREATE DATABASE dagster")
    connection.close()


@dataclass
class Deployment:
    """Processes of a deployment for one workspace.

    Attributes
    ----------
    home : Path
        ``DAGSTER_HOME``, with the deployed dagster.yaml and a workspace.yaml with the address of the code server.
    workspace : Path
    environment : mapping
        Environment of all processes, as the image and compose.yaml set it.
    """

    home: Path
    workspace: Path
    environment: Mapping[str, str]
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    def of(cls, workspace: Path, home: Path, postgres_address: str) -> Deployment:
        """Create a deployment and its ``DAGSTER_HOME``, without starting a process."""
        home.mkdir()
        shutil.copy(DEPLOY / "dagster.yaml", home)
        variables = {
            "DAGSTER_HOME": str(home),
            "CARE_WORKSPACE": str(workspace),
            "DAGSTER_POSTGRES_HOST": postgres_address,
            "DAGSTER_POSTGRES_DB": "dagster",
            "DAGSTER_POSTGRES_USER": "dagster",
            "DAGSTER_POSTGRES_PASSWORD": _PASSWORD,
            "CARE_COMPUTE_LOGS": str(home / "logs"),
        }
        path = os.pathsep.join(filter(None, (str(DEPLOY.parent), os.environ.get("PYTHONPATH"))))  # finds `tests`
        return cls(home, workspace, {**os.environ, **variables, "PYTHONPATH": path})

    def command(self, *words: str, code: int = 0) -> str:
        """Run a command as in a container, such as ``dagster instance migrate``, and return its output."""
        module = {"dagster": "dagster", "care": "orchestration.cli"}[words[0]]
        done = subprocess.run(
            [sys.executable, "-m", module, *words[1:]],
            cwd=self.workspace,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def start(self, service: str, replaced: Mapping[str, str], *more: str, **also: str) -> subprocess.Popen[bytes]:
        """Start a service with its command line in compose.yaml, in a new process group.

        ``replaced`` maps ports, hosts and folders of the containers to local ones; ``also`` extends the environment.
        """
        words = [*COMPOSE[service]["command"], *more]
        for inside, here in replaced.items():
            words = [word.replace(inside, here) for word in words]
        command = [sys.executable, str(Path(sys.executable).with_name(words[0])), *words[1:]]
        return self._start(command, f"{service}.log", also)

    def start_code_server(self, module: str, port: int | None = None) -> tuple[subprocess.Popen[bytes], int]:
        """Start the code server of a module's definitions; return the process and its port."""
        port = port or free_port()
        replaced = {"4000": str(port), "code-location": "127.0.0.1", "orchestration.definitions": module}
        server = self.start("code", replaced)
        wait_until(lambda: _serves(port), lambda: (self.home / "code.log").read_text())
        return server, port

    def start_daemon(self, code_server_port: int) -> subprocess.Popen[bytes]:
        """Start the daemon; workspace.yaml gives it the address of the code server."""
        return self.start("daemon", {"/dagster/workspace.yaml": self.workspace_file(code_server_port)})

    def workspace_file(self, code_server_port: int) -> str:
        """Write workspace.yaml with the address of a local code server, and return its path."""
        text = (DEPLOY / "workspace.yaml").read_text()
        local = text.replace("host: code-location", "host: 127.0.0.1").replace(
            "port: 4000", f"port: {code_server_port}"
        )
        assert local.count(str(code_server_port)) == 1
        path = self.home / "workspace.yaml"
        path.write_text(local)
        return str(path)

    def logs(self) -> str:
        """Return the last lines of all logs, for the message of a failing test."""
        return "\n".join(f"{path.name}:\n{path.read_text()[-4000:]}" for path in sorted(self.home.glob("*.log")))

    def stop(self) -> None:
        """End all processes and their children."""
        for process in self._processes:
            kill(process, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                kill(process)

    def _start(self, command: Sequence[str], log: str, more: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with (self.home / log).open("a") as output:
            process = subprocess.Popen(
                command,
                cwd=self.workspace,
                env={**self.environment, **more},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._processes.append(process)
        return process


def _serves(port: int) -> bool:
    """Return whether a code server answers, like ``dagster api grpc-health-check`` but without a new process."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            health = HealthStub(channel).Check(HealthCheckRequest(service="DagsterApi"), timeout=5)
        except grpc.RpcError:
            return False
    return health.status == HealthCheckResponse.SERVING
