"""Versions of answers: the same each time, changed where they should be and nowhere else."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from care_ops.errors import InputError
from warehouse.conversations import transcript
from warehouse.items import ItemRecord
from warehouse.probes import KINDS, SWAP, WHOLE, Probe, ProbePlan, make, plan_of, sample
from warehouse.sources import demo

DRESSES = ("padding", "formatting", "citation", "compliment", "hedging", "announcement")
SPOILS = ("other_prompt", "sentences", "one_fact", "two_facts", "all_facts", "negation")
DEMO = demo.generate()
BY_ID = {record.item_id: record for record in DEMO}


def versions(records: list[ItemRecord], *kinds: str, **options: int) -> dict[tuple[str, str], str]:
    probes = make(records, plan_of(kinds, **options))
    return {(probe.of, probe.kind): probe.record.response or "" for probe in probes}


def answer(text: str, item_id: str = "a", prompt: str = "Where?") -> ItemRecord:
    return ItemRecord(item_id, prompt=prompt, response=text)


OTHERS = [
    answer("She lives in Oslo, near Bergen, since 1901.", "b", "Who?"),
    answer("He moved from Lima to Quito in 1844.", "c", "When?"),
]


def test_every_declared_kind_exists_and_says_what_it_does():
    assert {*DRESSES, SWAP} <= {name for name, kind in KINDS.items() if kind.effect == "keeps"}
    assert set(SPOILS) == {name for name, kind in KINDS.items() if kind.effect == "spoils"}
    assert all(kind.changed for kind in KINDS.values())


def test_versions_follow_from_items_kinds_and_seed_alone():
    plan = plan_of((*DRESSES, *SPOILS))
    assert make(DEMO, plan) == make(DEMO[::-1], plan)
    assert make(DEMO, plan) != make(DEMO, replace(plan, seed=1))
    assert {p.of for p in make(DEMO, plan)} == {r.item_id for r in sample(DEMO, 60, 0)}
    fewer = make(DEMO, plan_of(("padding",), items=7))
    assert len(fewer) == 7
    assert all(probe in make(DEMO, plan) for probe in fewer)  # a larger sample holds the smaller one


def test_versions_have_ids_of_their_own_and_no_gold():
    probes = make(DEMO, plan_of((*DRESSES, *SPOILS)))
    ids = [probe.record.item_id for probe in probes]
    assert len(set(ids)) == len(ids)
    assert not set(ids) & set(BY_ID)
    assert all(probe.record.gold is None for probe in probes)


def _right_facts(probe: Probe) -> tuple[int, int]:
    """How many of the four facts that are asked stand in the original and in the version, as right sentences."""
    record = BY_ID[probe.of]
    sentences = [s.strip(" .") for s in (record.reference or "").split(". ")]

    def count(text: str) -> int:
        return sum(sentence in text for sentence in sentences)

    return count(record.response or ""), count(probe.record.response or "")


def test_dresses_keep_every_fact_of_the_demo_and_spoilt_versions_gain_none():
    lost = dict.fromkeys(SPOILS, 0)
    for probe in make(DEMO, plan_of((*DRESSES, "headings", *SPOILS), items=200)):
        before, after = _right_facts(probe)
        if KINDS[probe.kind].effect == "keeps":
            assert after == before, probe
        else:
            assert after <= before or probe.kind == "other_prompt", probe  # a continent may be right by chance
            lost[probe.kind] += before - after
    assert min(lost.values()) > 20, lost


def test_one_two_and_all_facts_are_nested():
    text = "He was born in Paris in 1788, lived in Rome and died near Vienna."
    spoilt = versions([answer(text), *OTHERS], "one_fact", "two_facts", "all_facts")
    changed = {kind: _changed(text, spoilt["a", kind]) for kind in ("one_fact", "two_facts", "all_facts")}
    assert [len(words) for words in changed.values()] == [1, 2, 4]
    assert changed["one_fact"] < changed["two_facts"] < changed["all_facts"]


def _changed(before: str, after: str) -> set[str]:
    return set(before.replace(",", "").replace(".", "").split()) - set(after.replace(",", "").replace(".", "").split())


def test_what_the_question_or_the_reference_names_is_never_exchanged_or_put_in():
    asked = ItemRecord(
        "a", "Where in France?", "It is in France, at Lyon, since 1788.", reference="At Oslo since 1901."
    )
    for seed in range(20):
        text = versions([asked, *OTHERS], "all_facts", seed=seed)["a", "all_facts"]
        assert "France" in text
        assert "Lyon" not in text
        assert "Oslo" not in text
        assert "1901" not in text


def test_asides_headings_and_numbers_of_a_list_are_no_facts():
    text = "**Step 1**\n1. It stands in Lyon [2] (Atlas, 2019).\n2. it is old."
    spoilt = versions([answer(text), *OTHERS], "all_facts")["a", "all_facts"]
    assert spoilt.startswith("**Step 1**\n1. It stands in ")
    assert spoilt.endswith("[2] (Atlas, 2019).\n2. it is old.")
    assert "Lyon" not in spoilt


def test_where_there_is_nothing_to_change_there_is_no_version():
    plain = answer("no names here", "a")
    assert set(versions([plain, *OTHERS], "one_fact", "padding")) >= {("a", "padding")}
    assert ("a", "one_fact") not in versions([plain, *OTHERS], "one_fact", "padding")
    same_question = [answer("One.", "a"), answer("Two.", "b")]
    with pytest.raises(InputError, match="none of 60 items can be changed by other_prompt"):
        make(same_question, plan_of(("other_prompt",)))
    with pytest.raises(InputError, match="no item has a response"):
        make([ItemRecord("a")], plan_of(("padding",)))
    with pytest.raises(InputError, match="no kind 'paddding'; there are padding,"):
        plan_of(("paddding",))


def test_an_answer_to_another_prompt_has_about_the_same_length():
    for (of, _), text in versions(DEMO, "other_prompt").items():
        record = BY_ID[of]
        assert abs(len(text) - len(record.response or "")) <= max(40, 0.3 * len(record.response or ""))
        assert text != record.response


def test_a_negation_denies_every_sentence():
    text = "The capital is Oslo. Paint it white.\n- It has fjords."
    denied = versions([answer(text), *OTHERS], "negation")["a", "negation"]
    assert denied == "The capital is not Oslo. It is wrong to say: Paint it white.\n- It has not fjords."


def test_pairs_have_one_side_replaced_or_both_exchanged():
    pair = ItemRecord("a", "Where?", "In Lyon.", "In Nice.")
    probes = {p.kind: p.record for p in make([pair, *OTHERS], plan_of((SWAP, "other_prompt"))) if p.of == "a"}
    assert (probes[SWAP].response, probes[SWAP].response_2) == ("In Nice.", "In Lyon.")
    assert probes["other_prompt"].response_2 == "In Nice."
    assert probes["other_prompt"].response != "In Lyon."


def test_an_own_kind_is_a_template():
    plan = ProbePlan({"shouted": "keeps"}, {"shouted": "LOOK: {response} ({prompt})"})
    (probe,) = (p for p in make([answer("So {prompt}."), *OTHERS], plan) if p.of == "a")
    assert probe.record.response == "LOOK: So {prompt}. (Where?)"


@settings(max_examples=50, deadline=None)
@given(text=st.text(min_size=1, max_size=200))
def test_any_text_is_changed_or_left_out(text):
    for probe in make([answer(text), *OTHERS], plan_of(tuple(KINDS))):
        assert probe.record.response != (BY_ID.get(probe.of) or answer(text)).response or probe.of != "a"


def trajectory(k: int) -> ItemRecord:
    call = {"function": {"name": "search", "arguments": f'{{"year": 19{k}}}'}}
    said = transcript(
        [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": f"Oslo had {k} bridges in 19{k}."},
            {"role": "assistant", "content": f"There are {k} bridges in Oslo."},
        ]
    )
    return ItemRecord(f"t{k}", prompt=f"How many bridges had Oslo in 19{k}?", response=said)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(WHOLE)))
def test_a_kind_that_makes_no_sense_of_a_conversation_says_so(kind):
    conversations = [trajectory(k) for k in range(10, 30)]
    with pytest.raises(InputError, match=rf"^probes: {kind} make no sense of a conversation .*; declare swap or other"):
        make(conversations, plan_of([kind, "other_prompt"]))
    single = [answer(f"It has {k} bridges, and Bergen has {k + 1}.", f"s{k}", f"And in {k}?") for k in range(10, 20)]
    mixed = make(conversations + single, plan_of([kind]))
    assert mixed
    assert {probe.of[0] for probe in mixed} == {"s"}, "those of one message alone"


def test_what_takes_a_conversation_as_a_whole_is_made_of_it():
    conversations = [replace(trajectory(k), response_2="There are none.") for k in range(10, 30)]
    plan = ProbePlan({SWAP: "keeps", "other_prompt": "spoils", "own": "keeps"}, {"own": "{response}\n\nUser: Thanks."})
    probes = make(conversations, plan)
    assert {probe.kind for probe in probes} == {SWAP, "other_prompt", "own"}
    assert len(probes) == 60
