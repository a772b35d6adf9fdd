"""Tests of data sets read by the `datasets` library from a folder; each catalog entry gets a table of its shape."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

pytest.importorskip("datasets", reason="install the extra huggingface to read data sets")

from assets.judge_keys import judge_item
from care_ops.errors import InputError
from judges import prompts
from warehouse import catalog
from warehouse.items import ItemRecord
from warehouse.sources.huggingface import read_items
from warehouse.testsets import HuggingFaceSource, TestsetSpec
from warehouse.versions import TRIGGERS, versions_of


@pytest.fixture(autouse=True)
def _offline(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))


def dataset(folder, rows, split="train"):
    (folder / "set").mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "set" / f"{split}.parquet")
    return folder


def source(**more):
    return HuggingFaceSource(dataset="set", split="train", **more)


def test_rows_become_items_by_paths_and_gold_by_rule(tmp_path):
    rows = [
        {"q": f"q{k}", "talk": [{"text": "hi"}, {"text": f"a{k}"}], "votes": [str(k), "good"], "kind": k % 2}
        for k in range(6)
    ]
    spec = source(
        columns={"prompt": "q", "response": "talk[1].text", "split_unit": "q"},
        gold={"mean_of": ["votes[0]", "votes[1]"], "values": {"good": 4}},
        where={"kind": 1},
    )
    items = read_items(spec, dataset(tmp_path, rows))
    assert [(i.item_id, i.prompt, i.response, i.gold) for i in items] == [
        ("train-1", "q1", "a1", 2.5),
        ("train-3", "q3", "a3", 3.5),
        ("train-5", "q5", "a5", 4.5),
    ]
    assert read_items(source(columns={"prompt": "q"}, gold={"mean_of": ["kind"], "above": 0.5}), tmp_path)[1].gold == 1


def test_samples_are_the_same_for_the_same_seed(tmp_path):
    dataset(tmp_path, [{"t": f"text {k}"} for k in range(100)])
    one, again, other = (
        [i.item_id for i in read_items(source(columns={"response": "t"}, sample=10, seed=s), tmp_path)]
        for s in (1, 1, 2)
    )
    assert len(set(one)) == 10
    assert one == again != other


def test_pairs_are_shown_in_an_order_of_their_own(tmp_path):
    dataset(tmp_path, [{"p": "q", "good": f"good {k}", "bad": f"bad {k}"} for k in range(200)])
    items = read_items(source(columns={"prompt": "p"}, pair={"better": "good", "worse": "bad"}), tmp_path)
    assert all((i.response_2 or "").startswith("good") == (i.gold == 1) for i in items)
    assert 70 < sum(i.gold or 0 for i in items) < 130


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"columns": {"response": "gone"}}, "a row has no 'gone'; choose from the columns t"),
        ({"columns": {"response": "t"}, "gold": {"mean_of": ["t"]}}, "contains 'text 0', which is not a number"),
        ({"columns": {"response": "t"}, "where": {"t": "x"}}, "no row matches"),
        ({"columns": {"response": "t"}, "split": "test"}, "split 'test': cannot be loaded"),
        ({"columns": {"response": "t", "item_id": "same"}}, "have the same 'same'"),
        ({"columns": {"response": "t"}, "dataset": "somebody/set"}, "needs a pinned commit"),
        ({"columns": {"response": "t"}, "dataset": "somebody/set", "revision": "a" * 40}, "cannot be loaded"),
    ],
)
def test_unreadable_data_sets_are_refused(tmp_path, spec, words):
    dataset(tmp_path, [{"t": f"text {k}", "same": 1} for k in range(3)])
    with pytest.raises(InputError, match=words):
        read_items(HuggingFaceSource(**{"dataset": "set", "split": "train", **spec}), tmp_path)


def spec_of(name):
    return TestsetSpec.model_validate({"name": name, **yaml.safe_load(catalog.text(name))})


OF_THE_HUB = [name for name in catalog.names() if isinstance(spec_of(name).source, HuggingFaceSource)]


def test_one_entry_is_built_from_another_one():
    (made,) = set(catalog.names()) - set(OF_THE_HUB)
    source = spec_of(made).source
    assert (made, source.of) == ("rlvr_openings", "multi_subject_rlvr")
    assert source.changes == tuple(TRIGGERS)
    items = versions_of([ItemRecord("q", prompt="Why?", response="So.", reference="So.")], source.changes, 0.0)
    assert [item.response for item in items] == ["So.", *TRIGGERS.values()]
    form = prompts.find("correctness")
    assert [form.missing(judge_item(item)) for item in items] == [[]] * 7, "a blank answer is asked about, too"
    assert form.missing(judge_item(replace(items[0], response=None))) == ["response"]


@pytest.mark.parametrize("name", OF_THE_HUB)
def test_every_catalog_entry_is_valid_and_readable(name, tmp_path):
    """The rows follow the entry's own description, because its names cannot be checked without the hub."""
    spec = spec_of(name)
    hub = spec.source
    assert isinstance(hub, HuggingFaceSource)
    assert hub.license
    assert hub.checked
    assert spec.prompt in prompts.names()
    row: dict = {}
    paths = [path for path in hub.columns.model_dump(exclude_unset=True).values() if path]
    named = [one.strip() for path in paths for one in path.split("|")]
    for path in named + ([hub.pair.better, hub.pair.worse] if hub.pair else []):
        plant(row, path, f"text of {path}")
    for path in hub.gold.mean_of if hub.gold else ():
        plant(row, path, next(iter(hub.gold.values), 1) if hub.gold else 1)
    for path, value in hub.where.items():
        plant(row, path, value[0] if isinstance(value, list) else value)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train.jsonl").write_text(json.dumps(row) + "\n")
    items = read_items(
        hub.model_copy(update={"dataset": "set", "config": None, "split": "train", "files": None}), tmp_path
    )
    assert len(items) == 1
    template = prompts.find(spec.prompt)
    assert template.missing(items[0]) == []
    assert template.pairwise == (items[0].response_2 is not None)


def entry(name):
    """Return the source of a catalog entry."""
    hub = spec_of(name).source
    assert isinstance(hub, HuggingFaceSource)
    return hub


def test_feedbackqa_is_read_from_its_files_in_their_published_shape(tmp_path):
    """The rows are as in data/feedback_valid.json, because scripts of repositories do not run any more."""
    rows = [
        {
            "question": "Are masks needed?",
            "passage": {
                "passage_id": 7,
                "source": "CDC",
                "reference": {
                    "page_title": "Masks",
                    "section_headers": ["Who"],
                    "section_content": "Everyone over two.",
                },
            },
            "feedback": ["Short and clear.", "It leaves out exceptions."],
            "rating": ["Excellent", "Could be Improved"],
            "domain": "CDC",
        },
        {
            "question": "Where?",
            "passage": {"reference": {"section_content": "Indoors."}},
            "feedback": ["Good.", "Wrong."],
            "rating": ["Acceptable", "Bad"],
            "domain": "UK",
        },
    ]
    hub = entry("feedbackqa")
    folder = tmp_path / "set" / "data"
    folder.mkdir(parents=True)
    (folder / "feedback_valid.json").write_text(json.dumps(rows))
    items = read_items(hub.model_copy(update={"dataset": "set"}), tmp_path)
    assert [(i.prompt, i.response, i.gold) for i in items] == [
        ("Are masks needed?", "Everyone over two.", 3.0),
        ("Where?", "Indoors.", 2.0),
    ]
    raters = spec_of("feedbackqa_loadings").further_columns
    with_raters = read_items(entry("feedbackqa_loadings").model_copy(update={"dataset": "set"}), tmp_path, raters)
    assert [i.metadata for i in with_raters] == [
        {"rating[0]": 4, "rating[1]": 2},
        {"rating[0]": 3, "rating[1]": 1},
    ]


def read_with_class(tmp_path, name, column, names, rows):
    """Return the items of a catalog entry whose column is a class, which the library stores as a number."""
    import datasets

    table = datasets.Dataset.from_dict(rows).cast_column(column, datasets.ClassLabel(names=names))
    (tmp_path / "set").mkdir()
    table.to_parquet(tmp_path / "set" / "train.parquet")
    return read_items(entry(name).model_copy(update={"dataset": "set", "config": None, "split": "train"}), tmp_path)


def test_an_aspect_that_is_stored_as_a_class_is_read_by_its_name(tmp_path):
    """ASSET's card: `aspect` is meaning, fluency or simplicity."""
    texts = {"original": ["He settled in London."] * 3, "simplification": ["He lived in London."] * 3}
    rows = {**texts, "original_sentence_id": [4] * 3, "aspect": [0, 1, 2], "rating": [90, 100, 40]}
    items = read_with_class(tmp_path, "asset", "aspect", ["meaning", "fluency", "simplicity"], rows)
    assert [(i.aspect, i.gold) for i in items] == [("meaning", 90), ("fluency", 100), ("simplicity", 40)]


def test_stars_are_stored_from_zero_and_read_from_one(tmp_path):
    """Yelp's card: the classes of `label` are 1 star, 2 star, 3 stars, 4 stars and 5 stars."""
    names = ["1 star", "2 star", "3 stars", "4 stars", "5 stars"]
    items = read_with_class(tmp_path, "yelp", "label", names, {"label": [0, 4], "text": ["Cold soup.", "Perfect."]})
    assert [(i.response, i.gold) for i in items] == [("Cold soup.", 1.0), ("Perfect.", 5.0)]


def test_a_tie_in_the_arena_is_no_item_and_a_reply_is_the_message_that_was_judged(tmp_path):
    def talk(reply):
        return [{"role": "user", "content": "Why is the sky blue?"}, {"role": "assistant", "content": reply}]

    rows = [
        {
            "winner": winner,
            "turn": turn,
            "conversation_a": talk("Rayleigh."),
            "conversation_b": talk("It mirrors the sea."),
        }
        for winner, turn in (("model_a", 1), ("tie", 1), ("tie (bothbad)", 1), ("model_b", 1), ("model_a", 2))
    ]
    items = read_items(entry("chatbot_arena").model_copy(update={"dataset": "set"}), dataset(tmp_path, rows))
    assert [(i.prompt, i.response, i.response_2, i.gold) for i in items] == [
        ("Why is the sky blue?", "Rayleigh.", "It mirrors the sea.", 0.0),
        ("Why is the sky blue?", "Rayleigh.", "It mirrors the sea.", 1.0),
    ]


def test_half_of_the_raters_are_enough_to_call_a_comment_toxic(tmp_path):
    rows = [{"text": f"comment {k}", "toxicity": share} for k, share in enumerate((0.0, 0.49, 0.5, 1.0))]
    hub = entry("civilcomments").model_copy(update={"dataset": "set", "split": "train"})
    assert [i.gold for i in read_items(hub, dataset(tmp_path, rows))] == [0, 0, 1, 1]


@pytest.mark.parametrize("name", ["shp", "pku_better", "pku_safer", "summarize_comparisons"])
def test_a_prompt_of_messages_reaches_a_judge_as_a_conversation(tmp_path, name):
    """The data have both shapes; a judge must never read the brackets of a list."""
    first = [{"role": "user", "content": "How do I boil an egg?"}]
    longer = [*first, {"role": "assistant", "content": "In water."}, {"role": "user", "content": "How long?"}]
    answers = [[{"role": "assistant", "content": "Seven minutes."}], [{"role": "assistant", "content": "An hour."}]]
    rows = [{"prompt": prompt, "chosen": answers[0], "rejected": answers[1]} for prompt in (first, longer)]
    hub = entry(name).model_copy(update={"dataset": "set", "split": "train"})
    one, two = read_items(hub, dataset(tmp_path, rows))
    assert one.prompt == "How do I boil an egg?"
    assert two.prompt == "User: How do I boil an egg?\n\nAssistant: In water.\n\nUser: How long?"
    assert {one.response, one.response_2} == {"Seven minutes.", "An hour."}
    assert all((i.response_2 == "Seven minutes.") == (i.gold == 1) for i in (one, two))


def published(tmp_path, name, rows):
    """Return the items of a catalog entry from rows in their published shape."""
    folder = tmp_path / "set"
    folder.mkdir(exist_ok=True)
    file = entry(name).files or "train.jsonl"
    (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_items(entry(name).model_copy(update={"dataset": "set", "config": None, "split": "train"}), tmp_path)


def test_a_summary_of_a_news_article_has_its_text_and_one_that_nobody_rated_has_no_gold(tmp_path):
    """`info.post` is empty if `info.article` is not, and `axes.overall` may be empty."""

    def row(post, article, overall):
        axes = {"overall": overall, "accuracy": 6, "coverage": 5, "coherence": 7, "compatible": None}
        info = {"id": "t3", "post": post, "title": "t", "subreddit": "r", "site": None, "article": article}
        return {"info": info, "summary": {"text": "Short.", "policy": "p", "note": None, "axes": axes}, "worker": "w"}

    rows = [row("A long post.", None, 6), row(None, "News.", 3), row("Another.", None, None)]
    items = published(tmp_path, "summarize_axis", rows)
    assert [(i.prompt, i.response, i.gold) for i in items] == [
        ("A long post.", "Short.", 6.0),
        ("News.", "Short.", 3.0),
        ("Another.", "Short.", None),
    ]
    assert prompts.find("summary").missing(items[1]) == []


def test_the_question_of_multi_subject_rlvr_is_the_users_message(tmp_path):
    query = [{"role": "system", "content": "Answer at the end."}, {"role": "user", "content": "What is osmosis?"}]
    rows = [{"query": query, "label": "Diffusion of water.", "subject": None, "subset": None}]
    (item,) = published(tmp_path, "multi_subject_rlvr", rows)
    assert (item.prompt, item.response, item.reference) == ("What is osmosis?", *["Diffusion of water."] * 2)


def test_judgment_bias_has_every_answer_with_its_versions(tmp_path, data_dir):
    """The repository's recorded texts are written in its format; no pair may be lost or invented."""
    recorded = pq.read_table(data_dir / "bias_perturb" / "items.parquet").to_pylist()
    dressed = [row for row in recorded if row["perturbation"] in ("beauty", "authority")]
    files: dict = {name: {} for name in ("raw.json", "rich_content.json", "reference.json")}
    for row in dressed:
        place = row["perturbed_slot"]
        if row["variant"] == "other":
            place = "answer2" if place == "answer1" else "answer1"
        changed = "rich_content.json" if row["perturbation"] == "beauty" else "reference.json"
        for name in ("raw.json",) if row["variant"] == "original" else (changed,):
            files[name].setdefault(row["prompt"], {})[place] = {"answer": row["response"]}
        if row["variant"] == "other":
            files["raw.json"].setdefault(row["prompt"], {}).setdefault(place, {"answer": row["response"]})
    (tmp_path / "clone" / "data").mkdir(parents=True)
    for name, rows in files.items():
        lines = [json.dumps({"question": question, "answers": answers}) for question, answers in rows.items()]
        (tmp_path / "clone" / "data" / name).write_text("\n".join(lines))
    script = [sys.executable, "examples/paper/judgment_bias.py", tmp_path / "clone", tmp_path / "set"]
    subprocess.run(script, cwd=Path(__file__).parents[2], check=True)
    spec = spec_of("judgment_bias")
    items = read_items(entry("judgment_bias").model_copy(update={"dataset": "set"}), tmp_path, spec.further_columns)
    assert spec.versions is not None
    versions = {item.item_id: (spec.versions.version_of(item.metadata), item.prompt, item.response) for item in items}
    original = {
        (pair, prompt): response for (pair, change), prompt, response in versions.values() if change == "original"
    }
    ours = {(change, prompt, original[pair, prompt], text) for (pair, change), prompt, text in versions.values()}
    by_pair: dict = {}
    for row in dressed:
        by_pair.setdefault(row["pair_id"], {})[row["variant"]] = row
    theirs = {
        (
            p["perturbed"]["perturbation"],
            p["perturbed"]["prompt"],
            p["original"]["response"],
            p["perturbed"]["response"],
        )
        for p in by_pair.values()
    }
    assert {row for row in ours if row[0] != "original"} == {row for row in theirs if row[2] != row[3]}
    assert len(theirs) > 250


def test_settings_that_were_added_later_and_are_not_used_leave_the_version_of_a_source_as_it_was(tmp_path):
    """The expected text is ``TestsetSpec.fingerprint`` of commit f1506ab, without ``files`` and ``at_least``."""
    rules = {"mean_of": ["label"], "values": {"0": 1, "1": 2}}
    hub = HuggingFaceSource(dataset="somebody/set", split="test", columns={"response": "text"}, gold=rules)
    assert TestsetSpec(name="old", source=hub).fingerprint(tmp_path) == "c5a14a6bb18f5c8c216a7bace1ecdf33"


def test_both_thresholds_of_a_gold_rule_are_refused():
    with pytest.raises(ValueError, match="both `above` and `at_least`"):
        source(gold={"mean_of": ["x"], "above": 0.5, "at_least": 0.5})


def plant(row, path, value):
    """Set a value at a path such as a.b[1].c, and create missing parents."""
    from warehouse.sources.huggingface import _STEP

    steps = [int(place) if place else key for key, place in _STEP.findall(path)]
    here = row
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(step, int):
            while len(here) <= step:
                here.append({} if isinstance(following, str) else "")
        if following is None:
            here[step] = value
            return
        below = [] if isinstance(following, int) else {}
        here = here.setdefault(step, below) if isinstance(step, str) else here[step]
