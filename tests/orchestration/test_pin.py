"""Tests of ``care judges pin`` and ``care testsets pin`` with a local hub."""

import json
from http.server import BaseHTTPRequestHandler

import pytest

pytest.importorskip("huggingface_hub", reason="install the extra huggingface to ask the hub")

from judges.settings_files import read_model
from judges.spec import JudgeSpec
from orchestration.cli.pin import with_revision
from tests.support.servers import LocalServer, QuietHandler
from tests.support.workspaces import care
from warehouse import catalog
from warehouse.testsets import TestsetSpec

SHA = "0123456789abcdef0123456789abcdef01234567"
MODELS = {"some/open": False, "some/gated": "manual"}
SETS = {"facebook/asset": False, "lmsys/chatbot_arena_conversations": "auto"}


class Hub(QuietHandler, BaseHTTPRequestHandler):
    def do_GET(self):
        kind, _, name = self.path.removeprefix("/api/").partition("?")[0].partition("/")
        gates = {"models": MODELS, "datasets": SETS}[kind]
        known = name in gates
        body = {"id": name, "sha": SHA, "gated": gates.get(name)} if known else {"error": "Repository not found"}
        headers = {"content_type": "application/json"} | ({} if known else {"x_error_code": "RepoNotFound"})
        self.send_content(json.dumps(body).encode(), 200 if known else 404, **headers)


@pytest.fixture
def hub(monkeypatch):
    with LocalServer(Hub) as server:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url.removesuffix("/v1"))
        yield server


def test_revisions_are_written_next_to_the_model_and_nothing_else_changes(tmp_path, hub):
    folder = tmp_path / "judges"
    folder.mkdir()
    (tmp_path / "care.yaml").write_text("{}\n")
    (folder / "open.yaml").write_text("# ours\nengine:\n  kind: vllm\n  model: some/open  # small\n  num_gpus: 0\n")
    (folder / "flow.yaml").write_text("engine: {kind: vllm, model: some/gated}\nfamily: x\n")
    (folder / "pinned.yaml").write_text(f"engine: {{kind: vllm, model: some/else, revision: {'f' * 40}}}\n")
    printed = care(tmp_path, "judges", "pin")
    assert "2 judges pinned" in printed
    assert "the terms of the model must be accepted" in printed
    assert (folder / "open.yaml").read_text() == (
        f"# ours\nengine:\n  kind: vllm\n  model: some/open\n  revision: {SHA}  # small\n  num_gpus: 0\n"
    )
    assert read_model(folder / "flow.yaml", JudgeSpec).engine.revision == SHA  # type: ignore[union-attr]
    assert read_model(folder / "pinned.yaml", JudgeSpec).engine.revision == "f" * 40  # type: ignore[union-attr]
    assert "0 judges pinned" in care(tmp_path, "judges", "pin")


def test_a_missing_repository_exits_with_1_and_the_others_are_pinned(tmp_path, hub):
    (tmp_path / "judges").mkdir()
    (tmp_path / "care.yaml").write_text("{}\n")
    for name, model in (("a", "some/typo"), ("b", "some/open")):
        (tmp_path / "judges" / f"{name}.yaml").write_text(f"engine: {{kind: vllm, model: {model}}}\n")
    assert "1 judge pinned" in care(tmp_path, "judges", "pin", code=1)
    assert read_model(tmp_path / "judges" / "b.yaml", JudgeSpec).engine.revision == SHA  # type: ignore[union-attr]
    assert "no judge 'nobody'" in care(tmp_path, "judges", "pin", "nobody", code=2)


def test_data_sets_are_pinned_and_the_rest_of_the_file_is_unchanged(tmp_path, hub):
    (tmp_path / "care.yaml").write_text("{}\n")
    printed = care(tmp_path, "testsets", "add", "--all")
    folder = tmp_path / "testsets"
    assert sorted(path.stem for path in folder.glob("*.yaml")) == catalog.names()
    assert "care testsets pin" in printed
    (tmp_path / "humans_llms_judgment_bias").mkdir()
    assert "2 test sets pinned" in care(tmp_path, "testsets", "pin", "asset", "chatbot_arena")
    for name in ("asset", "chatbot_arena"):
        assert read_model(folder / f"{name}.yaml", TestsetSpec).source.revision == SHA  # type: ignore[union-attr]
        assert (folder / f"{name}.yaml").read_text().replace(f"  revision: {SHA}\n", "", 1) == catalog.text(name)
    printed = care(tmp_path, "testsets", "pin", code=1)
    assert "0 test sets pinned" in printed, "the two have theirs, and this hub knows no others"
    assert "no repository 'Yelp/yelp_review_full'" in " ".join(printed.split())
    assert "judgment_bias" not in printed, "it is a folder here"
    assert "rlvr_openings" not in printed, "it is made of another test set"
    (folder / "yelp.yaml").unlink()
    care(tmp_path, "testsets", "add", "--all")
    assert read_model(folder / "asset.yaml", TestsetSpec).source.revision == SHA  # type: ignore[union-attr]
    assert (folder / "yelp.yaml").exists(), "what is missing is added, and nothing else is touched"
    for wrong in ((), ("asset", "--all")):
        assert "give a name from the catalog" in " ".join(care(tmp_path, "testsets", "add", *wrong, code=2).split())


def test_every_file_that_a_panel_writes_can_be_pinned():
    import yaml

    from judges.panels import find, judge_files, names
    from judges.spec import JudgeSpec, LocalModel

    for name in names():
        for judge, text in judge_files(find(name)).items():
            spec = JudgeSpec.model_validate({"name": judge, **yaml.safe_load(text)})
            if isinstance(spec.engine, LocalModel):
                pinned = yaml.safe_load(with_revision(text, SHA))
                assert pinned["engine"] == {**yaml.safe_load(text)["engine"], "revision": SHA}
