"""Writes logs of inspect_ai 0.3.285: two panels of custom scorers, and a panel of models in ``model_graded_qa``.

    pip install inspect_ai openai; python make_inspect.py OUT

Models are mocks, and nothing is downloaded: tokens are counted by words.
"""

import json
import random
import sys
from pathlib import Path

import tiktoken


class _Words:
    def encode(self, text, **_):
        return text.split()

    encode_ordinary = encode


tiktoken.get_encoding = lambda *_: _Words()
tiktoken.encoding_for_model = lambda *_: _Words()

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import Score, mean, model_graded_qa, scorer
from inspect_ai.solver import generate

PANELS = json.loads((Path(__file__).parent / "panels.json").read_text())


def panel_scorer(judge, column):
    @scorer(metrics=[mean()], name=judge)
    def build():
        async def score(state, target):
            return Score(value=state.metadata["scores"][column], explanation="recorded")

        return score

    return build()


def criteria():
    @scorer(metrics=[mean()], name="criteria")
    def build():
        async def score(state, target):
            first, second, _ = state.metadata["scores"]
            return Score(value={"helpful": first, "harmless": second})

        return score

    return build()


def human():
    @scorer(metrics=[mean()], name="human_label")
    def build():
        async def score(state, target):
            return Score(value=state.metadata["label"])

        return score

    return build()


def samples(panel):
    rows = zip(panel["scores"], panel["labels"], strict=True)
    return [
        Sample(id=f"q{k}", input=f"What is {k}+{k}?", target=str(2 * k), metadata={"scores": row, "label": label})
        for k, (row, label) in enumerate(rows)
    ]


def judge(name, seed):
    rng = random.Random(seed)

    def answer(input, tools, tool_choice, config):
        return ModelOutput.from_content(f"mockllm/{name}", "Reasoning. GRADE: " + ("C" if rng.random() < 0.6 else "I"))

    return get_model(f"mockllm/{name}", custom_outputs=answer)


def main(out):
    for name, panel in PANELS.items():
        scorers = [panel_scorer(each, column) for column, each in enumerate(panel["judges"])] + [human()]
        task = Task(dataset=samples(panel), solver=generate(), scorer=scorers, name=name)
        for kind in ("json", "eval"):
            eval(task, model="mockllm/model", log_format=kind, log_dir=f"{out}/{name}_{kind}", display="none")
    several = [
        model_graded_qa(model=judge("judge_a", 1)),
        model_graded_qa(model=[judge(f"judge_{x}", ord(x)) for x in "abc"]),
    ]
    task = Task(
        dataset=samples(PANELS["grades"])[:3], solver=generate(), scorer=[*several, criteria()], epochs=2, name="graded"
    )
    eval(task, model="mockllm/model", log_format="json", log_dir=f"{out}/graded_json", display="none")


if __name__ == "__main__":
    main(sys.argv[1])
