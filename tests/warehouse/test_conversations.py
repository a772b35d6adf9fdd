"""Tests of conversations with tool calls, from a file or a frame to the texts for a judge."""

import json

import pandas as pd
import pytest

from warehouse.conversations import messages_of, split_answer, transcript
from warehouse.sources.files import read_items, read_scores, texts_in_scores

OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Oslo?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "-3 C"},
    {"role": "assistant", "content": "It is -3 C in Oslo."},
]
ANTHROPIC = [
    {"role": "user", "content": "Weather in Oslo?"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "name": "weather", "input": {"city": "Oslo"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "-3 C"}]}]},
    {"role": "assistant", "content": [{"type": "text", "text": "It is -3 C in Oslo."}]},
]


def test_the_answer_is_what_follows_the_users_last_message():
    prompt, answer = split_answer(OPENAI)
    assert prompt == "System: Be brief.\n\nUser: Weather in Oslo?"
    assert answer == 'Assistant: calls weather({"city": "Oslo"})\n\nTool: -3 C\n\nAssistant: It is -3 C in Oslo.'
    prompt, answer = split_answer(ANTHROPIC)
    assert prompt == "Weather in Oslo?"
    assert (
        answer == 'Assistant: I look.\ncalls weather({"city": "Oslo"})\n\nTool: -3 C\n\nAssistant: It is -3 C in Oslo.'
    )


def test_one_question_and_one_answer_have_no_speaker_names():
    assert split_answer([{"from": "human", "value": "2 + 2?"}, {"from": "gpt", "value": "4"}]) == ("2 + 2?", "4")
    assert split_answer([{"role": "assistant", "content": "4"}]) == (None, "4")
    assert split_answer([{"role": "user", "content": "2 + 2?"}]) == ("2 + 2?", None)


@pytest.mark.parametrize(
    "value", [None, 3, "", "[1, 2]", "[not json]", ["a"], [{"text": "no role"}], "[[[" * 9999 + "]"]
)
def test_anything_else_is_no_conversation(value):
    assert messages_of(value) == []


@pytest.mark.parametrize("written", ["messages.jsonl", "messages.json", "messages.csv", "messages.parquet"])
def test_a_file_of_conversations_is_read(tmp_path, written):
    path, rows = tmp_path / written, [{"id": f"a{k}", "messages": talk} for k, talk in enumerate((OPENAI, ANTHROPIC))]
    if written.endswith("jsonl"):
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    elif written.endswith("json"):
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        frame = pd.DataFrame({"id": [r["id"] for r in rows], "messages": [json.dumps(r["messages"]) for r in rows]})
        frame.to_csv(path, index=False) if written.endswith("csv") else frame.to_parquet(path)
    for record, talk in zip(read_items(path), (OPENAI, ANTHROPIC), strict=True):
        assert (record.prompt, record.response) == split_answer(talk)
        assert record.metadata == {}


def test_both_conversations_of_a_pair(tmp_path):
    frame = pd.DataFrame({"item": ["x"], "conversation_a": [OPENAI], "conversation_b": [OPENAI[:2] + OPENAI[4:]]})
    (record,) = read_items(frame)
    assert record.prompt == "System: Be brief.\n\nUser: Weather in Oslo?"
    assert record.response == split_answer(OPENAI)[1]
    assert record.response_2 == "It is -3 C in Oslo."


def test_a_prompt_of_its_own_stays_and_one_of_messages_is_a_transcript():
    own = pd.DataFrame({"item": ["x"], "prompt": ["Oslo"], "messages": [ANTHROPIC]})
    assert read_items(own)[0].prompt == "Oslo"
    asked = pd.DataFrame({"item": ["x"], "prompt": [OPENAI[:2]], "response": ["-3 C"]})
    assert read_items(asked)[0].prompt == transcript(OPENAI[:2])


def test_conversations_in_a_table_of_scores_are_texts_of_the_items(tmp_path):
    path, readings = tmp_path / "judged.jsonl", []
    rows = [{"id": f"q{k}", "messages": OPENAI, "gpt": 3 + k, "claude": 4 + k, "qwen": 5 - k} for k in range(4)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    scores = read_scores(path, report=readings.append).scores
    records, reading = texts_in_scores(path, readings[0])
    assert scores.judges == ("gpt", "claude", "qwen")
    assert records[0].response == split_answer(OPENAI)[1]
    assert reading.columns["response"] == "messages"


def test_a_text_that_is_the_same_in_all_rows_of_an_item_is_read_from_a_long_table():
    rows = [("x", "a", "Oslo", "Bergen"), ("x", "b", "Oslo", "fine"), ("y", "a", "Bern", "so-so")]
    table = pd.DataFrame(rows, columns=["item_id", "judge", "answer", "output"]).assign(score=[1, 2, 3])
    readings = []
    read_scores(table, report=readings.append)
    records, reading = texts_in_scores(table, readings[0])
    assert {record.item_id: record.response for record in records} == {"x": "Oslo", "y": "Bern"}
    assert "output" in [left.column for left in reading.left_out]  # each judge wrote its own
