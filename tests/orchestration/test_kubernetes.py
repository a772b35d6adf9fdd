"""Tests of the manifests in deploy/kubernetes without a cluster, by Kubernetes' schemas and Dagster's launcher.

The chart and the operators of Ray and Dask cannot be tested here. Their pods, services and volumes are checked as
Kubernetes objects, without unknown fields.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import dagster as dg
import kubernetes_validate
import pytest
import yaml
from dagster_k8s.job import DagsterK8sJobConfig, construct_dagster_k8s_job
from kubernetes.config import ConfigException

from tests.support.workspaces import care, make

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
NO_MANIFESTS = {"values.yaml", "kustomization.yaml"}
RELEASE = "1.33"
"""Release of Kubernetes whose schema is used."""

OWN_KINDS = ("RayCluster", "DaskCluster", "PodMonitor")
"""Kinds of operators without a packaged schema; only their pods are checked here."""

OTHERS = (
    "postgres:16",
    "rclone/rclone:1.69",
    "registry.example.com/oauth2-proxy:v7.8.1",
)
"""Images that are not built from deploy/Dockerfile."""


def documents() -> list[tuple[str, dict[str, Any]]]:
    """Yield each manifest with its file, kind and name."""
    return [
        (f"{path.name}: {manifest['kind']} {manifest['metadata']['name']}", manifest)
        for path in sorted(KUBERNETES.glob("*.yaml"))
        if path.name not in NO_MANIFESTS
        for manifest in yaml.safe_load_all(path.read_text())
    ]


def values() -> dict[str, Any]:
    return yaml.safe_load((KUBERNETES / "values.yaml").read_text())


def must_be_valid(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, RELEASE, strict=True)


def as_pod(spec: dict[str, Any], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", **(metadata or {})}, "spec": spec}


def templates() -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the template of each of CARE's pods, keyed by its place."""
    for where, manifest in documents():
        spec = manifest.get("spec", {})
        if manifest["kind"] == "CronJob":
            yield where, spec["jobTemplate"]["spec"]["template"]
        elif manifest["kind"] == "Deployment":
            yield where, spec["template"]
        elif manifest["kind"] == "RayCluster":
            for kind, group in [("head", spec["headGroupSpec"]), *(("worker", g) for g in spec["workerGroupSpecs"])]:
                added = {"ray.io/node-type": kind}  # by KubeRay
                yield (
                    where,
                    {**group["template"], "metadata": {"labels": group["template"]["metadata"]["labels"] | added}},
                )
        elif manifest["kind"] == "DaskCluster":
            for kind in ("worker", "scheduler"):
                added = {"dask.org/cluster-name": manifest["metadata"]["name"], "dask.org/component": kind}
                yield (
                    where,
                    {"metadata": {"labels": manifest["metadata"]["labels"] | added}, "spec": spec[kind]["spec"]},
                )


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the specification of each of CARE's pods, keyed by its place."""
    return ((where, template["spec"]) for where, template in templates())


def must_be_restricted(pod: dict[str, Any], *containers: dict[str, Any]) -> None:
    """Check a pod's security contexts against the Pod Security level "restricted"."""
    assert pod["runAsNonRoot"]
    assert pod["runAsUser"] != 0
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert containers
    for container in containers:
        assert container["allowPrivilegeEscalation"] is False
        assert container["capabilities"] == {"drop": ["ALL"]}
        assert not container.keys() & {"privileged", "runAsUser", "seccompProfile", "procMount"}


@pytest.mark.parametrize(
    "manifest", [pytest.param(m, id=name) for name, m in documents() if m["kind"] not in OWN_KINDS]
)
def test_a_manifest_follows_the_schema_of_kubernetes(manifest):
    must_be_valid(manifest)


@pytest.mark.parametrize("pod", [pytest.param(pod, id=f"{where} {k}") for k, (where, pod) in enumerate(pods())])
def test_a_pod_follows_the_schema_and_is_bounded_and_unprivileged(pod):
    must_be_valid(as_pod(pod))
    must_be_restricted(pod["securityContext"], *[container["securityContext"] for container in pod["containers"]])
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        assert "memory" in container["resources"]["limits"], container["name"]
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes


def test_claims_secrets_and_images_match_the_runbook():
    claims = {m["metadata"]["name"] for _, m in documents() if m["kind"] == "PersistentVolumeClaim"}
    used = set(re.findall(r"claimName: ([\w-]+)", "".join(path.read_text() for path in KUBERNETES.glob("*.yaml"))))
    assert used == claims
    runbook = (ROOT / "docs" / "deployment.md").read_text()
    secrets = set(re.findall(r"create secret generic ([\w-]+)", runbook))
    text = "".join(path.read_text() for path in KUBERNETES.glob("*.yaml"))
    named = re.findall(r"(?:secretName|postgresqlSecretName): ([\w-]+)|secretKeyRef: {name: ([\w-]+)", text)
    named_secrets = {name for pair in named for name in pair if name}
    named_secrets |= {secret["name"] for secret in launcher_values()["envSecrets"]}
    named_secrets |= set(re.findall(r"secretRef: {name: ([\w-]+)", text))
    secrets |= set(re.findall(r"create secret tls ([\w-]+)", runbook))
    assert named_secrets == secrets
    assert not [where for where, manifest in documents() if manifest["kind"] == "Secret"], "no secret lies in a file"
    images = {image for _, pod in pods() for image in [c["image"] for c in pod["containers"]]}
    ours = version("care-eval")
    assert images == {f"registry.example.com/care:{ours}", f"registry.example.com/care-gpu:{ours}", *OTHERS}
    of_chart = [part["image"] for part in (code_location(), values()["dagsterWebserver"], values()["dagsterDaemon"])]
    assert {(image["repository"], image["tag"]) for image in of_chart} == {("registry.example.com/care", ours)}


def launcher_values() -> dict[str, Any]:
    return values()["runLauncher"]["config"]["k8sRunLauncher"]


def code_location() -> dict[str, Any]:
    (only,) = values()["dagster-user-deployments"]["deployments"]
    return only


def launcher(folder: Path, **more: Any) -> None:
    """Build Dagster's launcher from the chart's values, under their Python names."""
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


def test_care_run_is_rejected_if_run_monitoring_expects_a_pod(tmp_path, monkeypatch):
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
    printed = " ".join(care(folder, "run", code=1).split())
    assert "K8sRunLauncher would treat the runs of this command as lost" in printed
    assert "missing" in care(folder, "status"), "commands that only look work, and nothing was made"


def test_a_run_pod_has_its_own_limits_and_the_workspace():
    location, given = code_location(), launcher_values()
    assert location["includeConfigInLaunchedRuns"] == {"enabled": False}
    assert given["resources"]["limits"] != location["resources"]["limits"]
    (mounted,) = [mount for mount in location["volumeMounts"] if mount["name"] == "workspace"]
    assert given["volumeMounts"][0] == mounted
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


def test_pods_of_the_chart_and_of_operators_are_restricted():
    """The migration and the chart's waiting containers have the contexts of the webserver."""
    for part in (values()["dagsterWebserver"], values()["dagsterDaemon"], code_location()):
        must_be_restricted(part["podSecurityContext"], part["securityContext"])
        pod = {"containers": [{"name": "one", "image": "care", "securityContext": part["securityContext"]}]}
        must_be_valid(as_pod({"securityContext": part["podSecurityContext"], **pod}))
    run = launcher_values()["runK8sConfig"]
    must_be_restricted(run["podSpecConfig"]["securityContext"], run["containerConfig"]["securityContext"])
    (ray,) = [manifest["spec"] for _, manifest in documents() if manifest["kind"] == "RayCluster"]
    autoscaler = ray["autoscalerOptions"]["securityContext"]  # of a container beside the head
    must_be_restricted(ray["headGroupSpec"]["template"]["spec"]["securityContext"], autoscaler)


def test_the_cluster_uses_the_locked_release_of_ray():
    (ray,) = [manifest for _, manifest in documents() if manifest["kind"] == "RayCluster"]
    assert ray["spec"]["rayVersion"] == version("ray")
    assert ray["spec"]["workerGroupSpecs"][0]["minReplicas"] >= 1, "a judge counts the GPUs that Ray has when it starts"
    address = next(name for name in launcher_values()["envVars"] if name.startswith("RAY_ADDRESS="))
    assert address == f"RAY_ADDRESS=ray://{ray['metadata']['name']}-head-svc.care.svc:10001"


def test_the_cluster_image_has_ray_and_the_tools_of_its_probes():
    lock = (ROOT / "requirements-gpu.lock").read_text()
    assert f"\nray=={version('ray')} " in lock
    assert "\naiohttp-cors==" in lock, "of ray[default]: a dashboard agent, which KubeRay's probes ask with wget"
    assert "wget" in (ROOT / "deploy" / "Dockerfile").read_text().partition("FROM cpu AS gpu")[2]


def test_every_pod_that_uses_postgresql_may_reach_it():
    policies = {manifest["metadata"]["name"]: manifest for _, manifest in documents()}
    assert policies["nobody-by-default"]["spec"]["podSelector"] == {}
    spec = policies["who-reaches-postgresql"]["spec"]
    (rule,) = spec["ingress"]
    port = values()["postgresql"]["service"]["port"]
    assert (spec["podSelector"], rule["ports"]) == ({}, [{"port": port, "protocol": "TCP"}])
    copies = {name for name, labels in everybody().items() if labels.get("care/role") == "backup"}
    assert who_reaches({"app": "a PostgreSQL"}, port) == {"webserver", "daemon", "code", "migration", "run"} | copies


def test_network_policies_restrict_webserver_and_code_location():
    """Neither has a password, and every client may start runs."""
    (sign_on,) = [name for name, labels in everybody().items() if labels.get("care/role") == "sign-on"]
    assert who_reaches(WEBSERVER, values()["dagsterWebserver"]["service"]["port"]) == {sign_on}
    assert who_reaches(DAEMON, 80) == set()
    assert who_reaches(code_location()["labels"] | CODE, code_location()["port"]) == {"webserver", "daemon"}


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Return whether a selector of pods matches these labels."""
    named = selector.get("matchLabels", {}).items() <= labels.items()
    return named and all(
        rule["operator"] == "In" and labels.get(rule["key"]) in rule["values"]
        for rule in selector.get("matchExpressions", [])
    )


def policies() -> dict[str, dict[str, Any]]:
    return {m["metadata"]["name"]: m["spec"] for _, m in documents() if m["kind"] == "NetworkPolicy"}


def may_reach(labels: dict[str, str], address: str, port: int) -> bool:
    """Return whether a pod with these labels may open a connection to an address outside of the pods' networks."""
    for spec in policies().values():
        if "Egress" in spec["policyTypes"] and selects(spec["podSelector"], labels):
            for rule in spec.get("egress", []):
                blocks = [to["ipBlock"] for to in rule["to"] if "ipBlock" in to]
                inside = any(
                    ip_address(address) in ip_network(block["cidr"])
                    and not any(ip_address(address) in ip_network(other) for other in block.get("except", []))
                    for block in blocks
                )
                if inside and port in [each["port"] for each in rule["ports"]]:
                    return True
    return False


WEBSERVER = {"app.kubernetes.io/name": "dagster", "component": "dagster-webserver"}
DAEMON = {"app.kubernetes.io/name": "dagster", "component": "dagster-daemon"}
CODE = {"app.kubernetes.io/name": "dagster-user-deployments", "component": "user-deployments", "care/role": "code"}
MIGRATION = {"batch.kubernetes.io/job-name": "care-dagster-webserver-instance-migrate"}
"""Labels of the chart's pods; the migration job has only Kubernetes' labels."""


def run_labels() -> dict[str, str]:
    """Return the labels of a run's pod: Dagster's and CARE's."""
    config = DagsterK8sJobConfig("care", "/dagster", labels=launcher_values()["labels"])
    return construct_dagster_k8s_job(config, [], "one", component="run_worker").spec.template.metadata.labels


def everybody() -> dict[str, dict[str, str]]:
    """Return the labels of each pod of the namespace, keyed by a name."""
    ours = {f"{where} {k}": pod["metadata"]["labels"] for k, (where, pod) in enumerate(templates())}
    return ours | {"webserver": WEBSERVER, "daemon": DAEMON, "code": CODE, "migration": MIGRATION, "run": run_labels()}


def who_reaches(labels: dict[str, str], port: int) -> set[str]:
    """Return the pods of the namespace that may connect to a pod with these labels."""
    rules = [
        rule
        for spec in policies().values()
        if "Ingress" in spec["policyTypes"] and selects(spec["podSelector"], labels)
        for rule in spec.get("ingress", [])
        if "ports" not in rule or port in [each["port"] for each in rule["ports"]]
    ]
    sources = [source["podSelector"] for rule in rules for source in rule["from"] if "podSelector" in source]
    return {name for name, pod in everybody().items() if any(selects(source, pod) for source in sources)}


@pytest.mark.parametrize(
    ("labels", "address", "port", "may"),
    [
        (run_labels(), "203.0.113.7", 443, True),  # an endpoint
        (run_labels(), "203.0.113.7", 22, False),
        (run_labels(), "169.254.169.254", 80, False),  # a machine's credentials
        (run_labels(), "10.0.0.1", 443, False),  # Kubernetes' own interface
        ({"care/role": "backup"}, "203.0.113.7", 443, True),
        ({"care/role": "drill"}, "203.0.113.7", 443, False),
        (WEBSERVER, "203.0.113.7", 443, False),
        (WEBSERVER, "10.0.0.1", 443, True),
        (DAEMON, "10.0.0.1", 443, True),
        (code_location()["labels"], "203.0.113.7", 443, True),  # it sends alerts
        ({"care/role": "ray", "ray.io/node-type": "head"}, "10.0.0.1", 6443, True),
        ({"care/role": "ray", "ray.io/node-type": "worker"}, "10.0.0.1", 6443, False),
    ],
)
def test_network_policies_restrict_outside_connections(labels, address, port, may):
    assert may_reach(labels, address, port) == may


def test_pods_with_keys_for_outside_services_may_reach_the_outside():
    """The keys are for a store, endpoints or a sign-on provider; the restore test needs none of these."""
    wanted = {"run", "code"}  # endpoints and a store, sources and alerts
    for where, template in templates():
        role = template["metadata"]["labels"].get("care/role")
        given = [[c.get("env"), c.get("envFrom")] for c in template["spec"]["containers"]]
        if re.search(r"'name': 'care-(judges|off-site|sign-on)'", str(given)) and role != "drill":
            assert may_reach(template["metadata"]["labels"], "203.0.113.7", 443), where
            wanted.add(role)
    assert wanted == {"run", "code", "ray", "backup", "gc", "sign-on"}
    (named,) = policies()["to-the-outside"]["podSelector"]["matchExpressions"]
    assert set(named["values"]) == wanted, "and nobody else"


def test_every_pod_may_query_dns_and_other_traffic_is_denied():
    assert policies()["nobody-by-default"]["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in policies()["nobody-by-default"]
    names, neighbours = policies()["names-and-neighbours"]["egress"]
    assert {port["port"] for port in names["ports"]} == {53}
    dns = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    assert names["to"] == [dns], "a DNS server may run in any namespace"
    assert neighbours["to"] == [{"podSelector": {}}]


def test_every_job_and_run_has_a_deadline_and_a_node_selector():
    for where, manifest in documents():
        if manifest["kind"] == "CronJob":
            spec = manifest["spec"]["jobTemplate"]["spec"]
            assert 0 < spec["activeDeadlineSeconds"] < 86_400, where
            assert spec["ttlSecondsAfterFinished"], where
    longest = values()["dagsterDaemon"]["runMonitoring"]["maxRuntimeSeconds"]
    assert launcher_values()["runK8sConfig"]["jobSpecConfig"]["activeDeadlineSeconds"] > longest
    ordinary = code_location()["nodeSelector"]
    assert ordinary == launcher_values()["runK8sConfig"]["podSpecConfig"]["nodeSelector"]
    assert all(pod["nodeSelector"] for where, pod in pods() if "DaskCluster" not in where)


def test_a_drain_waits_for_runs_and_for_the_head_of_ray():
    budgets = {m["metadata"]["name"]: m["spec"] for _, m in documents() if m["kind"] == "PodDisruptionBudget"}
    assert selects(budgets["runs"]["selector"], launcher_values()["labels"])
    assert budgets["runs"]["minAvailable"] >= values()["concurrency"]["runs"]["maxConcurrentRuns"]
    (ray,) = [manifest for _, manifest in documents() if manifest["kind"] == "RayCluster"]
    head = {**ray["spec"]["headGroupSpec"]["template"]["metadata"]["labels"], "ray.io/node-type": "head"}
    assert selects(budgets["head-of-ray"]["selector"], head)


def test_the_webserver_can_read_the_output_of_runs(tmp_path):
    kept = values()["computeLogManager"]["config"]["customComputeLogManager"]
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump({"compute_logs": kept}))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        path = instance.compute_log_manager.get_captured_local_path(["a run", "compute_logs", "a step"], "out")
        assert path.startswith(kept["config"]["base_dir"] + "/")
    for place in (launcher_values(), values()["dagsterWebserver"]):
        (mount,) = [mount for mount in place["volumeMounts"] if mount["mountPath"] == kept["config"]["base_dir"]]
        (volume,) = [volume for volume in place["volumes"] if volume["name"] == mount["name"]]
        assert volume["persistentVolumeClaim"]["claimName"] == "care-logs"


def of_kind(kind: str, name: str) -> dict[str, Any]:
    (only,) = [m for _, m in documents() if m["kind"] == kind and m["metadata"]["name"] == name]
    return only


def test_the_kustomization_sets_what_differs_between_clusters():
    """kustomize ignores a replacement or an image that matches nothing."""
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    text = (KUBERNETES / "kustomization.yaml").read_text()
    files = {*kustomization["resources"], *re.findall(r"# - ([\w.-]+)", text)}
    assert files | {"daskcluster.yaml"} == {path.name for path in KUBERNETES.glob("*.yaml")} - NO_MANIFESTS
    images = {c["image"].partition(":")[0] for _, pod in pods() for c in pod["containers"]}
    assert {image["name"] for image in kustomization["images"]} <= images
    (generator,) = kustomization["configMapGenerator"]
    literals = dict(literal.split("=") for literal in generator["literals"])
    for replacement in kustomization["replacements"]:
        key = replacement["source"]["fieldPath"].removeprefix("data.")
        for target in replacement["targets"]:
            assert target["fieldPaths"] == ["spec.egress.0.to.0.ipBlock.cidr"]
            assert policies()[target["select"]["name"]]["egress"][0]["to"][0]["ipBlock"]["cidr"] == literals[key]


def test_prometheus_reaches_the_metrics_of_ray():
    (ray,) = [pod for where, pod in pods() if "RayCluster" in where][:1]
    ports = {port["name"]: port["containerPort"] for port in ray["containers"][0]["ports"]}
    (endpoint,) = of_kind("PodMonitor", "care-ray")["spec"]["podMetricsEndpoints"]
    (rule,) = policies()["prometheus-to-ray"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [ports[endpoint["port"]]]


def test_browsers_reach_the_webserver_only_through_the_sign_on():
    sign_on = of_kind("Deployment", "care-sign-on")["spec"]["template"]
    (container,) = sign_on["spec"]["containers"]
    port = values()["dagsterWebserver"]["service"]["port"]
    assert f"--upstream=http://care-dagster-webserver.care.svc:{port}" in container["args"]
    assert not [argument for argument in container["args"] if "secret=" in argument], "secrets are no arguments"
    ingress = of_kind("Ingress", "care")["spec"]
    backends = [path["backend"]["service"]["name"] for rule in ingress["rules"] for path in rule["http"]["paths"]]
    assert backends == ["care-sign-on"]
    assert [entry["hosts"] for entry in ingress["tls"]] == [[rule["host"] for rule in ingress["rules"]]]


def jobs() -> dict[str, dict[str, Any]]:
    """Return the pod templates of the scheduled jobs."""
    manifests = [manifest for _, manifest in documents() if manifest["kind"] == "CronJob"]
    return {m["metadata"]["name"]: m["spec"]["jobTemplate"]["spec"]["template"] for m in manifests}


def test_jobs_read_care_yaml_with_the_keys_that_runs_have():
    keys = [{"secretRef": {"name": secret["name"]}} for secret in launcher_values()["envSecrets"]]
    for name, template in jobs().items():
        ours = [c for c in template["spec"]["containers"] if c["image"].startswith("registry.example.com/care:")]
        assert all(container["envFrom"] == keys for container in ours), name
    assert {name for name, template in jobs().items() if "care:" in str(template)} == {*jobs()} - {"care-off-site"}


@pytest.mark.parametrize(
    ("ages", "restored"), [((2,), None), ((), None), ((9, 1), "care-1.tar"), ((1, 0, 9), "care-0.tar")]
)
def test_the_restore_check_uses_the_newest_backup_and_fails_if_it_is_old(tmp_path, ages, restored):
    """The daily job may have failed for weeks while an old backup can still be restored."""
    backups, programs = tmp_path / "backups", tmp_path / "bin"
    backups.mkdir()
    programs.mkdir()
    (programs / "care").write_text('#!/bin/sh\necho "$@"\n')
    (programs / "care").chmod(0o755)
    for days in ages:
        (backups / f"care-{days}.tar").touch()
        os.utime(backups / f"care-{days}.tar", (time.time() - days * 86_400 - 7200,) * 2)
    (drill,) = jobs()["care-restore-drill"]["spec"]["containers"]
    command = [word.replace("/backups", str(backups)) for word in drill["command"]]
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | path)
    if restored is None:
        assert (done.returncode, done.stdout) == (1, "")
        assert "no backup is younger than two days" in done.stderr
    else:
        assert (done.returncode, done.stdout) == (0, f"admin restore {backups / restored} --check\n")


def test_the_dockerfile_passes_the_linter():
    command = [Path(sys.executable).parent / "hadolint", ROOT / "deploy" / "Dockerfile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
