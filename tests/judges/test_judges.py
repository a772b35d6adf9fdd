"""Tests of specifications, programs, recorded judges and the pool."""

import time

import numpy as np
import pytest

from care_ops.errors import InputError, JudgeError
from care_ops.scores import ScoreMatrix
from judges import programs
from judges.engines.factory import build_engine, revision_of
from judges.engines.recorded import NOTHING_RECORDED, checked_scores, fingerprints
from judges.items import Item, Status, checked_score
from judges.programs import registry
from judges.programs.registry import program_judge
from judges.settings_files import read_model
from judges.spec import JudgeSpec, ProgramEngine, RecordedEngine
from warehouse.sources.files import RecordedTable

TEXTS = ["", " ", "One.", "你好，世界", "🎉" * 50, "- a\n- b [1] (Doe, 2001)", "word " * 20_000, None, "\ud800"]
LONG = [
    "a" * 2**20,
    "1 " * 2**19,
    "(" * 2**20,
    "All women. " * 95_325,
    "a@" * 2**19,
    "Is it. Not it. " * 69_905,
    "文" * 2**20,
]


def spec(name: str = "length", **more) -> JudgeSpec:
    return JudgeSpec(name=name, engine=ProgramEngine(program=more.pop("program", name)), **more)


def items(n: int) -> list[Item]:
    return [Item(f"i{k}", "What is it?", f"It is {k}. " * (k % 7 + 1), reference="It is 3.") for k in range(n)]


@pytest.mark.parametrize("name", programs.names())
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_every_program_answers_any_text(name, text):
    judge = programs.find(name)
    for item in (Item("a", "What is it?", text, reference="It is Paris."), Item("a", None, text)):
        value = judge.function(item)
        assert checked_score(value, judge.scale)[1] in (Status.OK, Status.REFUSED)


@pytest.mark.slow
@pytest.mark.parametrize("name", programs.names())
def test_every_program_answers_a_megabyte_in_seconds(name):
    judge = programs.find(name)
    started = time.process_time()
    for text in LONG:
        value = judge.function(Item("a", "Is it Paris, and why?", text, reference="It is Paris."))
        assert checked_score(value, judge.scale)[1] in (Status.OK, Status.REFUSED)
    assert time.process_time() - started < 60


def test_thirty_programs_cover_the_papers_criteria():
    all_programs = [programs.find(name) for name in programs.names()]
    dummies = {"length", "keyword"}
    assert dummies < set(programs.names())
    assert len(all_programs) - len(dummies) >= 30
    nine = ("factual accuracy", "coherence", "clarity and conciseness", "completeness", "relevance", "language quality")
    nine += ("bias", "safety", "redundancy")
    assert set(nine) <= {p.criterion for p in all_programs}
    assert len({p.family for p in all_programs}) >= 4
    assert all(p.description for p in all_programs)
    assert len({p.description for p in all_programs}) == len(all_programs)


def test_programs_prefer_the_better_answer():
    """Each program scores an answer that it should prefer and an answer that it should not."""
    good = "Paris is the capital of France because the government sits there. It lies on the Seine in the north."
    pairs = {
        "number_support": ("It has 2 rivers.", "It has 99 rivers."),
        "certainty": (good, "It is always, absolutely, definitely, undoubtedly Paris."),
        "contradiction": (good, "Paris is the capital of France. Paris is not the capital of France."),
        "connectives": (good, "Paris. It is. Big."),
        "topic_flow": ("Paris is big. Paris has a river.", "Paris is big. Cheese tastes fine."),
        "entity_coverage": ("The capital of France is Paris.", "It is there."),
        "sentence_length": (good, "No. Yes. No. Yes."),
        "active_voice": ("The king built the city.", "The city was created by a king."),
        "filler": (good, "Great question. Basically, in order to say it, it is really very nice overall."),
        "directness": ("The capital of France is Paris.", "Sure! Let me think. It is what it is."),
        "parts_answered": ("The capital is Paris, its rivers are the Seine and Marne.", "Cheese."),
        "ending": ("It is Paris.", "It is Par"),
        "ngram_similarity": ("The capital of France is Paris.", "zzz qqq xxx"),
        "lexical_diversity": (good, "Paris " * 30),
        "surface_grammar": ("It is Paris.", "it is is Paris ,and i know!!"),
        "generalisations": (good, "All women are the same, and those immigrants never work."),
        "loaded_language": (good, "The amazing, awful, disgusting, horrible best worst city."),
        "insults": (good, "You 1d1ot, you stupid moron."),
        "personal_data": (good, "Write to jane@example.com or call +49 170 1234567."),
        "repeated_phrases": (good, "it is so it is so it is so it is so"),
        "repeated_sentences": (good, "Paris is big. Paris is big. Paris is big."),
        "keyword": ("First, however, the key reason is important.", "Yes."),
        "conciseness": ("Paris, capital, Seine.", "It is what it is and that is that " * 20),
    }
    question = "What is the capital of France, and which 2 rivers does it have?"
    for name, (better, worse) in pairs.items():
        scores = [
            programs.find(name).function(Item("a", question, text, reference="Paris, 2")) for text in (better, worse)
        ]
        assert None not in scores, name
        assert scores[0] > scores[1], (name, scores)


def test_the_key_changes_only_with_settings_that_change_a_score():
    key = spec().key("r1")
    assert spec(family="x", description="y", batch_size=3, testsets=("a",)).key("r1") == key
    assert spec(scale=(0, 1)).key("r1") != key != spec().key("r2")


def test_the_item_key_is_a_hash_of_texts_and_id():
    item = Item("a", "p", "r")
    assert item.key == Item("a", "p", "r").key
    others = [Item("b", "p", "r"), Item("a", "pr", ""), Item("a", "p", None), Item("a", "p", None, "r")]
    assert len({item.key, *(o.key for o in others)}) == 5


@pytest.mark.parametrize(
    ("yaml", "words"),
    [
        ("engine: {kind: magic}", "engine"),
        ("engine: {kind: program}", "engine.program: .*exactly one of"),
        ("engine: {kind: program, program: length}\nscale: [5, 1]", "low < high"),
        ("engine: {kind: program, program: length}\nname: a|b", "partition key"),
        ("engine: {kind: program, program: length}\ncolour: red", "colour"),
        ("- a\n- b", "mapping"),
        ("a: [", "YAML"),
    ],
)
def test_bad_specifications_name_file_and_field(tmp_path, yaml, words):
    path = tmp_path / "judge.yaml"
    path.write_text(yaml)
    with pytest.raises(InputError, match=words) as error:
        read_model(path, JudgeSpec)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (3, (3.0, Status.OK)),
        (None, (None, Status.REFUSED)),
        (11, (None, Status.OUT_OF_RANGE)),
        (float("nan"), (None, Status.PARSE_ERROR)),
        ("7", (None, Status.PARSE_ERROR)),
        (True, (None, Status.PARSE_ERROR)),
    ],
)
def test_only_numbers_on_the_scale_are_scores(value, wanted):
    assert checked_score(value, (0, 10)) == wanted
    assert checked_score(float("inf"), None) == (None, Status.OUT_OF_RANGE)


def test_a_program_that_raises_gives_a_status_and_its_message(monkeypatch):
    monkeypatch.setattr(registry, "_PROGRAMS", dict(registry._PROGRAMS))

    @program_judge("test_raises", family="test", criterion="none")
    def test_raises(item: Item) -> float | None:
        """Raise."""
        raise ValueError("no good")

    score = build_engine(spec("test_raises")).score(items(1))[0]
    assert (score.score, score.status, score.raw) == (None, Status.ENGINE_ERROR, "ValueError: no good")


def test_hashes_of_all_recordings_equal_those_of_single_judges():
    """The hash is part of the keys of recorded scores, so it must not change."""
    values = np.array([[0.1, np.nan], [-0.0, 7.0], [1e70, 2.0]])
    scores = ScoreMatrix(values, ("it's", "a", 'z"'), ("one", "two"))
    responses = {"one": {"a": "said 'so'", 'z"': "b\ud800"}}
    hashes = fingerprints(scores, responses)
    assert hashes == {**fingerprints(scores.select_judges(["one"]), responses), "two": hashes["two"]}
    assert fingerprints(scores.select_items(np.zeros(3, dtype=bool)), {})["one"] == NOTHING_RECORDED
    assert hashes["two"] == "4e227ce8e25f4b6c8cbbc6939f48ceb68f4fa41a505155a287d9ea7e8e0ee4cc"


@pytest.mark.parametrize("scale", [(0.0, 10.0), None])
def test_checks_of_many_recorded_scores_equal_those_of_single_ones(scale):
    matrix = ScoreMatrix(np.array([12.0, 4.0, np.nan])[:, None], ("i2", "i0", "i1"), ("gpt",))
    values = RecordedTable(matrix).scores_of("gpt", ["i0", "i1", "i2", "not recorded"])
    np.testing.assert_array_equal(values, [4.0, np.nan, 12.0, np.nan])
    np.testing.assert_array_equal(RecordedTable(matrix).scores_of("nobody", ["i0"]), [np.nan])
    values = np.append(values, np.inf)
    scores, statuses = checked_scores(values, scale)
    single = [checked_score(None if value != value else value, scale) for value in values.tolist()]
    assert [(None if score != score else score) for score in scores.tolist()] == [score for score, _ in single]
    assert statuses.tolist() == [str(status) for _, status in single]


def test_a_recorded_judge_is_known_by_its_recordings_and_cannot_be_asked():
    judge = JudgeSpec(name="gpt", engine=RecordedEngine(column="gpt"), scale=(0, 10))
    scores = ScoreMatrix(np.array([[4.0], [5.0]]), ("a", "b"), ("gpt",))
    shuffled = ScoreMatrix(scores.values[::-1], ("b", "a"), ("gpt",))
    inputs = [(scores, "text"), (shuffled, "text"), (scores, "another text")]
    revisions = [fingerprints(matrix, {"gpt": {"b": text}})["gpt"] for matrix, text in inputs]
    assert revisions[0] == revisions[1] != revisions[2]
    with pytest.raises(JudgeError, match="has recorded scores, so it has no revision"):
        revision_of(judge)
    with pytest.raises(JudgeError, match="cannot score new items"):
        build_engine(judge)
