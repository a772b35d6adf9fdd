"""Tests of ``care judges``, ``care testsets`` and reports of ``care doctor`` about judges."""

import pytest
import yaml

from assets.judge_keys import judge_key
from judges import panels
from judges.engines.checks import checks
from orchestration.workspace import load_workspace
from tests.support.openai_server import answer, first_token
from tests.support.workspaces import make, run, typed_json, typed_line, write_api_judge
from warehouse import catalog


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "w", judges=("length",))


def test_a_new_judge_is_a_file_that_loads(folder):
    typed_line("judges", "new", "readable", "--program", "readability", "--family", "style", "--workspace", folder)
    typed_line("judges", "new", "qwen", "--model", "Qwen/Qwen3-4B", "--revision", "a" * 40, "--workspace", folder)
    url = "http://127.0.0.1:1/v1"
    endpoint = ("--model", "m", "--engine", "openai", "--base-url", url, "--api-key-env", "OTHER_KEY")
    typed_line("judges", "new", "api", *endpoint, "--workspace", folder)
    judges = load_workspace(folder).judges
    assert (judges["readable"].family, judges["qwen"].engine.kind) == ("style", "vllm")
    assert judges["api"].engine.base_url == url
    assert judges["api"].engine.api_key_env == "OTHER_KEY"
    before = (folder / "judges" / "qwen.yaml").read_text()
    other = ("--model", "other", "--revision", "b" * 40)
    printed = typed_line("judges", "new", "qwen", *other, "--workspace", folder)
    assert "already exist and stay unchanged: qwen" in printed
    assert (folder / "judges" / "qwen.yaml").read_text() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give a name"),
        (["x"], "one of --model"),
        (["x", "--model", "m", "--revision", "main"], "revision: 'main' is not a commit; give a commit"),
        (["x", "--model", "m", "--engine", "magic"], "engine"),
        (["--panel", "none"], "no judge preset 'none'"),
        (["--panel", "../panels/demo"], "no judge preset '../panels/demo'"),
        (["../../x", "--program", "length"], "'../../x' has a slash"),
        (["..\\x", "--program", "length"], "has a slash"),
        (["Length", "--program", "length"], "'length' and 'Length' differ only in case"),
    ],
)
def test_a_judge_that_cannot_be_written_is_reported(folder, arguments, words):
    assert words in typed_line("judges", "new", *arguments, "--workspace", folder, code=2)
    assert not list(folder.parent.rglob("x.yaml"))
    assert sorted(p.name for p in (folder / "judges").iterdir()) == ["length.yaml"]


@pytest.mark.parametrize("panel", panels.names())
def test_every_panel_loads(folder, panel):
    (folder / "testsets" / "one.yaml").write_text((folder / "testsets" / "one.yaml").read_text() + "prompt: quality\n")
    typed_line("judges", "new", "--panel", panel, "--workspace", folder)
    loaded = load_workspace(folder)
    entry = panels.find(panel)
    assert {*entry.programs, *(m["name"] for m in entry.models)} <= set(loaded.judges)
    free = {m["name"] for m in entry.models if not m.get("gated")}
    assert {m["instead"] for m in entry.models if m.get("gated")} <= free
    for judge in loaded.judges:
        judge_key(loaded, judge, "one")


def test_a_panel_with_the_papers_profile_scores_only_the_papers_test_sets(folder):
    for panel in ("scoring", "classification", "loadings"):
        typed_line("judges", "new", "--panel", panel, "--profile", "paper", "--workspace", folder)
    typed_line("testsets", "add", "--all", "--workspace", folder)
    loaded = load_workspace(folder)
    scoring = {m["name"] for m in panels.find("scoring").models}
    classification = {m["name"] for m in panels.find("classification").models}
    loadings = {m["name"] for m in panels.find("loadings").models} | {"length", "keyword"}
    for testset in ("asset", "feedbackqa", "review_5k", "summarize_axis", "ultrafeedback", "yelp", "judgment_bias"):
        assert {*loaded.judges_of(testset)} - {"length"} == scoring, testset
    for testset in ("civilcomments", "chatbot_arena", "pku_better", "pku_safer", "shp", "summarize_comparisons"):
        assert {*loaded.judges_of(testset)} - {"length"} == classification, testset
    assert {*loaded.judges_of("rlvr_openings")} - {"length"} == classification
    assert {*loaded.judges_of("feedbackqa_loadings")} == loadings | {"length"}
    assert {*loaded.judges_of("multi_subject_rlvr")} <= {"length"}, "only what is made of it is scored"
    assert "one" not in loaded.testsets_of("qwen3-4b"), "a set of one's own is no set of the paper"
    engine = loaded.judge("qwen3-4b").engine
    assert (engine.profile, engine.prompt, engine.scoring) == ("paper", "raw", "text")  # type: ignore[union-attr]


def test_a_panel_can_use_an_endpoint_that_serves_its_models(folder):
    at = ("--engine", "openai", "--base-url", "https://host/v1", "--api-key-env", "HOST_KEY")
    typed_line("judges", "new", "--panel", "scoring", "--profile", "paper", *at, "--workspace", folder)
    engine = load_workspace(folder).judge("qwen3-8b").engine
    assert (engine.kind, engine.model, engine.base_url) == ("openai", "Qwen/Qwen3-8B", "https://host/v1")  # type: ignore[union-attr]
    assert (engine.prompt, engine.scoring, engine.max_tokens) == ("auto", "text", 8), "a chat endpoint has no raw text"  # type: ignore[union-attr]
    assert "base_url" in typed_line(
        "judges", "new", "--panel", "scoring", "--engine", "openai", "--workspace", folder, code=2
    )


def test_judges_test_passes_a_program(folder):
    verdict = typed_json("judges", "test", "length", "--workspace", folder)[0]
    assert verdict["length_gain"] > 0  # the dummy pays for padding
    assert {p["probe"] for p in verdict["probes"]} >= {"good", "bad", "empty", "long and bad"}
    assert "passes: the judge scores the good answer" in typed_line("judges", "test", "length", "--workspace", folder)


def test_judges_test_fails_a_judge_without_answers(folder):
    (folder / "judges" / "file.yaml").write_text("engine: {kind: program, file: judge.py, unsafe: true}\n")
    (folder / "judge.py").write_text("def program_judge(query, response):\n    raise ValueError('broken')\n")
    assert "is unusable; see the column `raw`" in typed_line("judges", "test", "file", "--workspace", folder, code=1)


def test_judges_test_fails_a_judge_with_position_bias(folder, endpoint):
    endpoint.say = lambda *_: answer("0", first_token("0", _0=0.9, _6=0.1))
    write_api_judge(folder, endpoint.url, "first", template="preference")
    (verdict,) = typed_json("judges", "test", "first", "--workspace", folder, code=1)
    assert verdict["spread"] == 0
    assert [probe["valid mass"] for probe in verdict["probes"]] == pytest.approx([1.0] * len(verdict["probes"]))


def test_the_catalog_is_listed_and_added(folder):
    rows = typed_json("testsets", "list")
    assert {r["test set"] for r in rows} == set(catalog.names())
    assert len(rows) >= 14
    refused = typed_line("testsets", "add", "../catalog/asset", "--workspace", folder, code=2)
    assert "no test set '../catalog/asset'" in refused
    assert "care testsets pin" in typed_line("testsets", "add", "asset", "--workspace", folder)
    spec = load_workspace(folder).testset("asset")
    assert (spec.source.revision, spec.prompt) == (None, "asset")  # type: ignore[union-attr]
    assert "already" in typed_line("testsets", "add", "asset", "--workspace", folder, code=2)
    assert "no test set 'nope'" in typed_line("testsets", "add", "nope", "--workspace", folder, code=2)


def test_the_doctor_checks_judges(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("NOT_SET", raising=False)
    (folder / "testsets" / "one.yaml").write_text((folder / "testsets" / "one.yaml").read_text() + "prompt: quality\n")
    (tmp_path / "model").mkdir()
    engines = {
        "away": {"kind": "vllm", "model": "a/b", "revision": "c" * 40},
        "half": {"kind": "vllm", "model": str(tmp_path / "model"), "num_gpus": 0},
        "keyless": {"kind": "openai", "base_url": "http://127.0.0.1:1", "model": "m", "api_key_env": "NOT_SET"},
        "nowhere": {"kind": "openai", "base_url": "http://127.0.0.1:1", "model": "m", "api_key_env": None},
        "file": {"kind": "program", "file": "judge.py", "unsafe": True},
    }
    (folder / "judge.py").write_text("def program_judge(query, response): return 1\n")
    for name, engine in engines.items():
        (folder / "judges" / f"{name}.yaml").write_text(yaml.safe_dump({"engine": engine}))
    rows = typed_json("doctor", "--workspace", folder, code=1)
    assert "pip install '.[vllm]'" in typed_line("doctor", "--workspace", folder, code=1)
    state_of = {(r["check"], r["what"]): r["state"] for r in rows if r["check"].startswith("judge ")}
    fails = " | ".join(f"{check}: {what}" for (check, what), state in state_of.items() if state == "fails")
    for words in ("away: vllm is not installed", "half: ", "NOT_SET is not set", "nowhere: http://127.0.0.1:1 cannot"):
        assert words in fails
    assert any("runs with all your permissions; remove unsafe: true" in what for _, what in state_of)
    assert any("declares no license" in what for _, what in state_of)


def write_model(folder, name, model):
    (folder / "judges" / f"{name}.yaml").write_text(
        f"engine: {{kind: vllm, model: {model}, template: quality, num_gpus: 0}}\n"
    )


def test_a_models_folder_may_be_named_relative_to_the_workspace(tmp_path, monkeypatch):
    """The current folder does not matter, also for the doctor; a missing folder is read as a repository."""
    folder = make(tmp_path / "w")
    (folder / "models" / "small").mkdir(parents=True)
    for name, model in (("inside", "models/small"), ("nowhere", "models/other")):
        write_model(folder, name, model)
    monkeypatch.chdir(tmp_path)
    typed_line("judges", "new", "written", "--model", "models/small", "--workspace", folder)
    workspace = load_workspace(folder)
    assert workspace.judge("inside").engine.model == str(folder / "models" / "small")
    assert workspace.judge("written").engine.model == workspace.judge("inside").engine.model
    assert workspace.judge("nowhere").engine.model == "models/other"
    problems = " ".join(message for _, message in checks(workspace.judge("inside")))
    assert f"{folder / 'models' / 'small'} lacks config.json" in problems


def test_judges_with_the_same_model_run_one_after_another(tmp_path, monkeypatch):
    """The order of names does not matter; each model is loaded once."""
    folder = make(tmp_path / "w", judges=("length",))
    for name, model in (("a", "one"), ("b", "other"), ("c", "one"), ("d", "other")):
        (folder / model).mkdir(exist_ok=True)
        write_model(folder, name, model)
    asked = []
    monkeypatch.setattr(
        "assets.judging.judge_inference.score_pending", lambda _, judge, *more: asked.append(judge) or ([], {})
    )
    run(folder, selection="key:judge_inference or key:items or key:gold")
    order = [judge for judge in asked if judge != "length"]
    assert sorted(asked) == ["a", "b", "c", "d", "length"]
    assert order in (["a", "c", "b", "d"], ["b", "d", "a", "c"])


def test_a_judges_program_path_may_be_relative_to_the_current_folder_or_the_workspace(tmp_path, monkeypatch):
    folder = make(tmp_path / "ws")
    (tmp_path / "here.py").write_text("def program_judge(query, response):\n    return len(response)\n")
    monkeypatch.chdir(tmp_path)
    typed_line("judges", "new", "mine", "--file", "here.py", "--workspace", folder)
    assert yaml.safe_load((folder / "judges" / "mine.yaml").read_text())["engine"]["file"] == "../here.py"
