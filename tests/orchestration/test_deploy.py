"""Tests of the deployment files: schemas, Dagster's own parser, and security properties."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import dagster as dg
import yaml
from dagster_postgres import DagsterPostgresStorage

from tests.support.workspaces import care, make

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def read(name: str) -> dict:
    return yaml.safe_load((DEPLOY / name).read_text())


def test_compose_follows_the_compose_specification():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, str(DEPLOY / "compose.yaml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_compose_runs_one_daemon_after_the_migration():
    services = read("compose.yaml")["services"]
    daemons = [name for name, s in services.items() if "dagster-daemon" in s.get("command", [])]
    assert daemons == ["daemon"]
    assert "deploy" not in services["daemon"], "no replicas"
    assert services["migrate"]["restart"] == "no"
    assert services["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert services["code"]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    for name in ("webserver", "daemon"):
        assert services[name]["depends_on"]["code"]["condition"] == "service_healthy"
    assert all(port.startswith("127.0.0.1:") for s in services.values() for port in s.get("ports", []))


def test_compose_gives_secrets_only_to_services_that_use_them():
    """Runs are processes of the code server, so only this service asks judges and uses Ray."""
    services = read("compose.yaml")["services"]
    assert {name for name, s in services.items() if "env_file" in s} == {"code"}
    assert {name for name, s in services.items() if "RAY_AUTH_TOKEN" in s.get("environment", {})} == {"code", "ray"}
    knows = {name for name, s in services.items() if "POSTGRES_PASSWORD" in str(s.get("environment"))}
    assert knows == {"postgres", "migrate", "code", "webserver", "daemon"}
    assert {name for name, s in services.items() if "CARE_WORKSPACE:?" in str(s.get("volumes"))} == {
        "code",
        "dask-worker",
    }


def test_model_servers_and_dask_cannot_reach_webserver_or_postgresql():
    services = read("compose.yaml")["services"]

    def neighbours(of: str) -> set[str]:
        return {name for name, s in services.items() if set(s["networks"]) & set(services[of]["networks"])} - {of}

    assert neighbours("ray") == {"code"}
    assert neighbours("dask-worker") == {"code", "dask-scheduler"}
    assert neighbours("dask-scheduler") == {"code", "dask-worker"}
    for name in ("webserver", "postgres"):
        assert neighbours(name) == {"webserver", "postgres", "migrate", "code", "daemon"} - {name}


def test_the_code_server_listens_only_in_the_network_of_dagster():
    """Its networks connect it to the other services; its second name is the address in one network."""
    code = read("compose.yaml")["services"]["code"]
    ((network, alias),) = [(name, one["aliases"]) for name, one in code["networks"].items() if one]
    (server,) = read("workspace.yaml")["load_from"]
    asked = code["healthcheck"]["test"]
    assert (network, alias) == ("dagster", [server["grpc_server"]["host"]])
    assert code["command"][code["command"].index("-h") + 1] == asked[asked.index("-h") + 1] == alias[0]
    assert code["command"][code["command"].index("-p") + 1] == str(server["grpc_server"]["port"])


def test_an_upgrade_keeps_the_previous_image():
    """Each image has a tag, by default the release; the runbook names the files with tags."""
    services = read("compose.yaml")["services"]
    images = {s["image"] for s in services.values()} - {"postgres:16"}
    assert images == {f"{name}:${{CARE_TAG:-{version('care-eval')}}}" for name in ("care", "care-gpu")}
    upgrade = (ROOT / "docs" / "deployment.md").read_text().partition("\n## Upgrade\n")[2].partition("\n## ")[0]
    assert "`CARE_TAG`" in upgrade
    for path in (DEPLOY / "kubernetes").glob("*.yaml"):
        if re.search(r"registry.example.com/care(-gpu)?\b", path.read_text()):
            assert f"`{path.name}`" in upgrade


def test_backups_of_compose_name_its_services_and_a_folder_outside_of_the_workspace():
    services = read("compose.yaml")["services"]
    section = (ROOT / "docs" / "deployment.md").read_text().partition("\n## Back up, restore, move\n")[2]
    named = re.findall(r"^docker compose -f deploy/compose\.yaml exec -T (\w+) (.+)$", section, re.MULTILINE)
    assert [(service, shlex.split(words)[0]) for service, words in named] == [("code", "care"), ("postgres", "pg_dump")]
    (backup, dump) = (shlex.split(words) for _, words in named)
    folder = backup[3].rpartition("/")[0]
    assert [v for v in services["code"]["volumes"] if v.endswith(f":{folder}")] == [
        f"${{CARE_BACKUPS:-backups}}:{folder}"
    ]
    assert f"--owner 10001 /workspace /dagster /logs {folder}\n" in (DEPLOY / "Dockerfile").read_text()
    given = services["postgres"]["environment"]
    assert dump[dump.index("--username") + 1] == given["POSTGRES_USER"]
    assert dump[dump.index("custom") + 1] == given["POSTGRES_DB"]


def test_the_models_folder_belongs_to_the_user_that_fetches_models():
    folder = next(v.partition(":")[2] for v in read("compose.yaml")["services"]["ray"]["volumes"] if "models" in v)
    assert f"mkdir -p {folder} && chown 10001 {folder}" in (DEPLOY / "Dockerfile").read_text()


def test_every_variable_of_the_instance_is_set_by_compose():
    wanted = set(re.findall(r"env: (\w+)", (DEPLOY / "dagster.yaml").read_text()))
    given = set(read("compose.yaml")["services"]["daemon"]["environment"])
    assert wanted
    assert wanted <= given


def test_dagster_reads_the_instance(tmp_path, monkeypatch):
    """The storage needs PostgreSQL (``test_deployed``), so only its schema is compared here."""
    settings = read("dagster.yaml")
    storage = settings.pop("storage")["postgres"]
    fields = DagsterPostgresStorage.config_type()["postgres_db"].config_type.fields  # type: ignore[index]
    assert set(storage["postgres_db"]) <= set(fields)
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("CARE_COMPUTE_LOGS", str(tmp_path / "logs"))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert (instance.run_retries_enabled, instance.run_retries_max_retries) == (True, 2)
        assert type(instance.run_coordinator).__name__ == "QueuedRunCoordinator"
        assert instance.run_monitoring_enabled, "what is gone does not count as started for ever"
        assert instance.run_launcher.supports_check_run_worker_health
        assert instance.run_monitoring_max_runtime_seconds == 86_400
        assert not instance.run_launcher.supports_resume_run, "retries take up a run whose process is gone"
        assert instance.run_monitoring_max_resume_run_attempts == 0
        assert not instance.run_retries_retry_on_asset_or_op_failure


def test_the_image_copies_all_packages_and_only_existing_files():
    text = (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (?:--chown=\w+ )?(.+)$", text, re.MULTILINE):
        *sources, _ = line.split()
        for source in sources:
            assert (ROOT / source).exists(), source
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["setuptools"]["packages"]["find"]["include"]
    for package in (pattern.removesuffix("*") for pattern in packages):
        assert f"COPY {package} {package}" in text
    for lock in ("requirements-deploy.lock", "/opt/care/requirements-gpu.lock"):
        assert f"pip install --no-deps --require-hashes -r {lock}" in text
    assert all("--no-deps" in line for line in re.findall(r"pip install .*", text)), "nothing but what the locks name"
    assert re.findall(r"^FROM (\S+) AS (\w+)$", text, re.MULTILINE)[1] == ("cpu", "gpu")
    assert re.search(r"^FROM python:3\.11\.\d+\S*@sha256:[0-9a-f]{64} AS cpu$", text, re.MULTILINE)
    assert "USER 10001" in text.split("FROM cpu AS gpu")[0], "a number, so that Kubernetes can see that it is not root"


def test_a_command_outside_the_deployment_names_missing_variables(tmp_path, monkeypatch):
    home, folder = tmp_path / "home", make(tmp_path / "ws")
    home.mkdir()
    shutil.copy(DEPLOY / "dagster.yaml", home)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("CARE_WORKSPACE", str(folder))
    for name in ("HOST", "DB", "USER", "PASSWORD"):
        monkeypatch.delenv(f"DAGSTER_POSTGRES_{name}", raising=False)
    printed = " ".join(care(folder, "history", code=1).split())
    unset = "DAGSTER_POSTGRES_DB, DAGSTER_POSTGRES_HOST, DAGSTER_POSTGRES_PASSWORD, DAGSTER_POSTGRES_USER"
    assert f"needs environment variables that are not set: {unset}; run" in printed


def test_each_guarantee_names_a_test():
    kept = (ROOT / "SECURITY.md").read_text().partition("## Guarantees")[2].partition("## Known limits")[0]
    lines = re.split(r"^- ", kept, flags=re.MULTILINE)[1:]
    assert len(lines) > 15
    for line in lines:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", line)
        assert named, line
        for file, test in named:
            assert f"def {test or 'test_'}" in (ROOT / file).read_text(), (file, test)
