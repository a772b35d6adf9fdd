"""The manifests of deploy/kubernetes, without a cluster: by the schemas of Kubernetes, and by Dagster's own launcher.

What cannot be tried here: the chart itself, and the operators of Ray and Dask. Their pods, services and volumes are
Kubernetes' own and are checked as such, with no field allowed that Kubernetes does not know.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dagster as dg
import kubernetes_validate
import pytest
import yaml
from kubernetes.config import ConfigException

from tests.support.workspaces import care, make

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
RELEASE = "1.33"
"""Of Kubernetes, whose schema is used."""

OWN_KINDS = ("RayCluster", "DaskCluster")


def documents() -> list[tuple[str, dict[str, Any]]]:
    """Every manifest, by its file, kind and name."""
    return [
        (f"{path.name}: {manifest['kind']} {manifest['metadata']['name']}", manifest)
        for path in sorted(KUBERNETES.glob("*.yaml"))
        if path.name != "values.yaml"
        for manifest in yaml.safe_load_all(path.read_text())
    ]


def values() -> dict[str, Any]:
    return yaml.safe_load((KUBERNETES / "values.yaml").read_text())


def must_be_valid(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, RELEASE, strict=True)


def as_pod(spec: dict[str, Any], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", **(metadata or {})}, "spec": spec}


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """What every pod of ours runs, by where it is declared."""
    for where, manifest in documents():
        spec = manifest["spec"]
        if manifest["kind"] == "CronJob":
            yield where, spec["jobTemplate"]["spec"]["template"]["spec"]
        elif manifest["kind"] == "RayCluster":
            yield where, spec["headGroupSpec"]["template"]["spec"]
            yield from ((where, group["template"]["spec"]) for group in spec["workerGroupSpecs"])
        elif manifest["kind"] == "DaskCluster":
            yield where, spec["worker"]["spec"]
            yield where, spec["scheduler"]["spec"]


@pytest.mark.parametrize(
    "manifest", [pytest.param(m, id=name) for name, m in documents() if m["kind"] not in OWN_KINDS]
)
def test_a_manifest_follows_the_schema_of_kubernetes(manifest):
    must_be_valid(manifest)


@pytest.mark.parametrize("pod", [pytest.param(pod, id=f"{where} {k}") for k, (where, pod) in enumerate(pods())])
def test_a_pod_follows_the_schema_and_is_bounded_and_unprivileged(pod):
    must_be_valid(as_pod(pod))
    assert pod["securityContext"]["runAsNonRoot"]
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        assert "memory" in container["resources"]["limits"], container["name"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes


def test_what_is_no_field_of_a_pod_is_found():
    with pytest.raises(kubernetes_validate.ValidationError):
        must_be_valid(as_pod({"containers": [{"name": "one", "image": "care", "resurces": {}}]}))


def test_every_claim_secret_and_image_is_one_that_the_runbook_makes():
    claims = {m["metadata"]["name"] for _, m in documents() if m["kind"] == "PersistentVolumeClaim"}
    used = set(re.findall(r"claimName: ([\w-]+)", "".join(path.read_text() for path in KUBERNETES.glob("*.yaml"))))
    assert used == claims
    runbook = (ROOT / "docs" / "deployment.md").read_text()
    secrets = set(re.findall(r"create secret generic ([\w-]+)", runbook))
    text = "".join(path.read_text() for path in KUBERNETES.glob("*.yaml"))
    named = re.findall(r"(?:secretName|postgresqlSecretName): ([\w-]+)|secretKeyRef: {name: ([\w-]+)", text)
    named_secrets = {name for pair in named for name in pair if name}
    named_secrets |= {secret["name"] for secret in launcher_values()["envSecrets"]}
    assert named_secrets == secrets
    assert not [where for where, manifest in documents() if manifest["kind"] == "Secret"], "no secret lies in a file"
    images = {image for _, pod in pods() for image in [c["image"] for c in pod["containers"]]}
    ours = version("care-eval")
    assert images == {f"registry.example.com/care:{ours}", f"registry.example.com/care-gpu:{ours}", "postgres:16"}


def launcher_values() -> dict[str, Any]:
    return values()["runLauncher"]["config"]["k8sRunLauncher"]


def code_location() -> dict[str, Any]:
    (only,) = values()["dagster-user-deployments"]["deployments"]
    return only


def launcher(folder: Path, **more: Any) -> None:
    """Let Dagster make the launcher that the chart would declare: it hands our values on under their Python names."""
    given = launcher_values()
    deep = {re.sub(r"(?=[A-Z])", "_", key).lower(): value for key, value in given["runK8sConfig"].items()}
    config = {
        "service_account_name": "care-dagster",
        "instance_config_map": "care-dagster-instance",
        "dagster_home": values()["global"]["dagsterHome"],
        "postgres_password_secret": values()["global"]["postgresqlSecretName"],
        "load_incluster_config": given["loadInclusterConfig"],
        "image_pull_policy": given["imagePullPolicy"],
        "env_vars": given["envVars"],
        "env_secrets": [secret["name"] for secret in given["envSecrets"]],
        "volumes": given["volumes"],
        "volume_mounts": given["volumeMounts"],
        "labels": given["labels"],
        "fail_pod_on_run_failure": given["failPodOnRunFailure"],
        "resources": given["resources"],
        "run_k8s_config": deep,
    }
    settings = {"run_launcher": {"module": "dagster_k8s", "class": "K8sRunLauncher", "config": config | more}}
    (folder / "dagster.yaml").write_text(yaml.safe_dump(settings))
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        assert instance.run_launcher


def test_dagsters_launcher_takes_our_values(tmp_path):
    with pytest.raises(ConfigException, match="Service host/port is not set"):  # all is well but for the cluster
        launcher(tmp_path)
    with pytest.raises(dg.DagsterInvalidConfigError, match="volume_mount"):
        launcher(tmp_path, volume_mount=[])


def test_a_run_of_a_command_is_refused_where_monitoring_would_look_for_its_pod(tmp_path, monkeypatch):
    folder, home = make(tmp_path / "ws"), tmp_path / "home"
    home.mkdir()
    user = {"cluster": "none", "user": "none"}
    cluster = {"apiVersion": "v1", "kind": "Config", "current-context": "none", "preferences": {}}
    cluster |= {"clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:9"}}]}
    cluster |= {"contexts": [{"name": "none", "context": user}], "users": [{"name": "none", "user": {}}]}
    (home / "cluster.yaml").write_text(yaml.safe_dump(cluster))
    config = {"load_incluster_config": False, "kubeconfig_file": str(home / "cluster.yaml")}
    config |= {"service_account_name": "care-dagster", "instance_config_map": "care-dagster-instance"}
    config |= {"dagster_home": str(home), "postgres_password_secret": "care-postgresql"}
    settings = {"run_launcher": {"module": "dagster_k8s", "class": "K8sRunLauncher", "config": config}}
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings | {"run_monitoring": {"enabled": True}}))
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("CARE_WORKSPACE", str(folder))
    said = " ".join(care(folder, "run", code=1).split())
    assert "K8sRunLauncher would take the runs of this command for lost" in said
    assert "missing" in care(folder, "status"), "commands that only look work, and nothing was made"


def test_a_run_has_the_workspace_and_limits_and_not_those_of_the_code_location():
    location, given = code_location(), launcher_values()
    assert location["includeConfigInLaunchedRuns"] == {"enabled": False}
    assert given["resources"]["limits"] != location["resources"]["limits"]
    (mounted,) = [mount for mount in location["volumeMounts"] if mount["name"] == "workspace"]
    assert given["volumeMounts"] == [mounted]
    assert f"CARE_WORKSPACE={mounted['mountPath']}" in given["envVars"]
    assert location["env"]["CARE_WORKSPACE"] == mounted["mountPath"]
    container = {"name": "run", "image": "care", "resources": given["resources"], "volumeMounts": given["volumeMounts"]}
    container |= given["runK8sConfig"]["containerConfig"]
    must_be_valid(
        as_pod({"containers": [container], "volumes": given["volumes"], **given["runK8sConfig"]["podSpecConfig"]})
    )
    server = {key: location[key] for key in ("resources", "volumeMounts", "securityContext")}
    pod = {"securityContext": location["podSecurityContext"], "volumes": location["volumes"]}
    must_be_valid(as_pod({"containers": [{"name": "code", "image": "care", **server}], **pod}))


def test_every_place_names_the_image_of_this_release():
    images = [code_location()["image"], values()["dagsterWebserver"]["image"], values()["dagsterDaemon"]["image"]]
    assert {(image["repository"], image["tag"]) for image in images} == {
        ("registry.example.com/care", version("care-eval"))
    }


def test_the_cluster_runs_the_release_of_ray_that_the_lock_has():
    (ray,) = [manifest for _, manifest in documents() if manifest["kind"] == "RayCluster"]
    assert ray["spec"]["rayVersion"] == version("ray")
    assert ray["spec"]["workerGroupSpecs"][0]["minReplicas"] >= 1, "a judge counts the GPUs that Ray has when it starts"
    address = next(name for name in launcher_values()["envVars"] if name.startswith("RAY_ADDRESS="))
    assert address == f"RAY_ADDRESS=ray://{ray['metadata']['name']}-head-svc.care.svc:10001"


def test_the_image_of_the_cluster_has_the_release_of_ray_and_what_its_probes_ask():
    gpu = (ROOT / "deploy" / "Dockerfile").read_text().partition("FROM cpu AS gpu")[2]
    assert f"'ray[default]=={version('ray')}'" in gpu, "a dashboard agent, which KubeRay's probes ask with wget"
    assert "wget" in gpu


def test_every_pod_that_uses_postgresql_may_reach_it():
    policies = {manifest["metadata"]["name"]: manifest for _, manifest in documents()}
    assert policies["nobody-by-default"]["spec"]["podSelector"] == {}
    spec = policies["who-reaches-postgresql"]["spec"]
    (rule,) = spec["ingress"]
    port = values()["postgresql"]["service"]["port"]
    assert (spec["podSelector"], rule["ports"]) == ({}, [{"port": port, "protocol": "TCP"}])
    wanted = [
        {"app.kubernetes.io/name": "dagster"},  # webserver, daemon, migration: the chart's own labels
        {"component": "user-deployments"},
        launcher_values()["labels"],
        jobs()["care-backup"]["metadata"]["labels"],
    ]
    for labels in wanted:
        assert any(selects(source["podSelector"], labels) for source in rule["from"]), labels
    assert not any(selects(source["podSelector"], {"care/role": "ray"}) for source in rule["from"])


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a selector of pods takes one with these labels."""
    named = selector.get("matchLabels", {}).items() <= labels.items()
    return named and all(
        rule["operator"] == "In" and labels.get(rule["key"]) in rule["values"]
        for rule in selector.get("matchExpressions", [])
    )


def jobs() -> dict[str, dict[str, Any]]:
    """Templates of the pods of the jobs that are started at an hour."""
    manifests = [manifest for _, manifest in documents() if manifest["kind"] == "CronJob"]
    return {m["metadata"]["name"]: m["spec"]["jobTemplate"]["spec"]["template"] for m in manifests}


def test_jobs_read_care_yaml_with_the_keys_that_runs_have():
    keys = [{"secretRef": {"name": secret["name"]}} for secret in launcher_values()["envSecrets"]]
    for name, template in jobs().items():
        ours = [c for c in template["spec"]["containers"] if c["image"].startswith("registry.example.com/care:")]
        assert [container["envFrom"] for container in ours] == [keys], name


def test_the_copy_of_the_workspace_does_not_wait_for_that_of_the_record_of_runs():
    spec = jobs()["care-backup"]["spec"]
    assert [container["name"] for container in spec["containers"]] == ["record-of-runs", "workspace"]
    assert "initContainers" not in spec


def test_the_webserver_binds_a_port_that_its_user_may_bind():
    assert values()["dagsterWebserver"]["service"]["port"] >= 1024
    runbook = (ROOT / "docs" / "deployment.md").read_text()
    assert f"care-dagster-webserver 3000:{values()['dagsterWebserver']['service']['port']}" in runbook


def test_the_dockerfile_has_no_finding():
    command = [Path(sys.executable).parent / "hadolint", ROOT / "deploy" / "Dockerfile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
