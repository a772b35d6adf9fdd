"""Own kinds of probes that a program makes: in the sandbox, noticed when the program changes, refused in a sentence."""

from pathlib import Path

import pytest

from assets.probe_items import EFFECT, KIND, probe_items, write_probe_items
from assets.sources import read_source
from assets.versions import readable_source_version
from assets.workspace import Workspace
from care_ops.errors import InputError, JudgeError
from judges.sandbox import available
from orchestration.workspace import load_workspace
from tests.support.workspaces import make

pytestmark = pytest.mark.skipif(available() == "none", reason="this machine has no sandbox; install bubblewrap")

SHOUT = "def probe(query, response):\n    return response.upper() if 'sea' in response else None\n"


def declared(folder: Path, program: str | None) -> Workspace:
    make(folder)
    path = folder / "testsets" / "one.yaml"
    path.write_text(
        f"{path.read_text()}probes: {{own: {{shouted: {{effect: keeps, program: shout.py}}}}, items: 40}}\n"
    )
    if program is not None:
        (folder / "shout.py").write_text(program)
    return load_workspace(folder)


def test_a_program_makes_the_versions_where_it_has_something_to_change(tmp_path):
    workspace = declared(tmp_path / "ws", SHOUT)
    records = read_source(workspace, "one")
    assert write_probe_items(workspace, "one", records)
    made = probe_items(workspace, "one")
    assert {record.response for record in made} == {r.response.upper() for r in records if "sea" in (r.response or "")}
    assert all((record.metadata[KIND], record.metadata[EFFECT]) == ("shouted", "keeps") for record in made)


def test_a_changed_program_is_a_changed_source(tmp_path):
    workspace = declared(tmp_path / "ws", SHOUT)
    before = readable_source_version(workspace, "one")
    assert readable_source_version(workspace, "one") == before
    (tmp_path / "ws" / "shout.py").write_text(SHOUT.replace("upper", "title"))
    assert readable_source_version(load_workspace(tmp_path / "ws"), "one") != before


def test_a_program_that_is_not_there_is_told_of_by_its_name(tmp_path):
    with pytest.raises(InputError, match=r"shout\.py"):
        readable_source_version(declared(tmp_path / "ws", None), "one")


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("def probe(query, response):\n    return 1 / 0\n", "shout.py fails on the response 'i?.*division by zero"),
        ("def probe(query, response):\n    return 3\n", "probe returned int; return the version's text, or None"),
        ("def probe(query, response):\n    open('/etc/passwd')\n", "shout.py fails on the response"),
        ("def other(query, response):\n    return response\n", r"must define probe\(query, response\)"),
    ],
)
def test_a_program_that_fails_is_refused_in_a_sentence(tmp_path, program, says):
    workspace = declared(tmp_path / "ws", program)
    with pytest.raises((InputError, JudgeError), match=says):
        write_probe_items(workspace, "one", read_source(workspace, "one"))
    assert probe_items(workspace, "one") == []
