"""Tests that lock files have a hash for each file, and agree with the lock of versions."""

import re
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def versions(name: str) -> dict[str, str]:
    """Return the locked version of each package."""
    pins = re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==([^\s;\\]+)", (ROOT / name).read_text(), re.MULTILINE)
    return {str(canonicalize_name(package)): version for package, version in pins}


def hashes(name: str) -> dict[str, int]:
    """Return the number of hashed files of each package in a lock file."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", (ROOT / name).read_text(), flags=re.MULTILINE)
    counted = {
        re.split(r"[=\[]", block)[0]: len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block)) for block in blocks
    }
    return {str(canonicalize_name(package)): count for package, count in counted.items() if package}


LOCKS = {"core": 20, "pipeline": 100, "deploy": 100, "all": 100}


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_has_hashes_and_the_version_of_the_other_lock(name):
    least, name = LOCKS[name], f"requirements-{name}.lock"
    pinned, known = versions(name), versions("requirements.lock")
    assert len(pinned) > least
    assert hashes(name).keys() == pinned.keys()
    assert min(hashes(name).values()) >= 1
    assert {package: version for package, version in pinned.items() if known.get(package, version) != version} == {}


def test_each_lock_file_is_part_of_the_larger_ones():
    pipeline, everything = versions("requirements-pipeline.lock"), versions("requirements-all.lock")
    deployed = versions("requirements-deploy.lock")
    assert versions("requirements-core.lock").items() <= pipeline.items() <= deployed.items() <= everything.items()
    gpu = versions("requirements-gpu.lock")
    assert min(hashes("requirements-gpu.lock").values()) >= 1
    assert {"vllm", *deployed} - gpu.keys() <= {"colorama", "pywin32", "pyreadline3"}, "of Windows alone"
    assert gpu["ray"] == deployed["ray"]
    others = {name for name, version in deployed.items() if gpu.get(name, version) != version}
    assert others <= {"numpy", "numba", "llvmlite", "certifi"}, "what vLLM asks for"
    assert {"dagster-postgres", "dagster-k8s", "obstore"} <= deployed.keys()
    assert not {"pytest", "ruff"} & deployed.keys()
    assert versions("requirements.lock").items() <= everything.items()


def test_no_lock_names_an_index():
    for path in ROOT.glob("requirements*.lock"):
        assert not re.search(r"https?:|index-url|find-links", path.read_text()), path
