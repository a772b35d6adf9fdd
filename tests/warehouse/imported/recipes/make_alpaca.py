"""Writes the annotations of alpaca_eval 0.6.6: three annotators with recorded preferences.

    pip install alpaca_eval==0.6.6; python make_alpaca.py OUT

A preference is between 1 and 2. Those of the panel ``votes`` are 1 or 2; those of ``grades`` are real numbers, as
weighted annotators give them.
"""

import json
import sys
from pathlib import Path

import alpaca_eval.annotators.base as base
from alpaca_eval import main

HERE = Path(__file__).resolve().parent
PANELS = json.loads((HERE / "panels.json").read_text())


def preferences(name, column):
    rows = [row[column] for row in PANELS[name]["scores"]]
    return [1 + value / (10 if name == "grades" else 1) for value in rows]


def write(out, name, judge, column):
    recorded = preferences(name, column)
    instructions = [f"What is {k}+{k}?" for k in range(len(recorded))]

    def answer(prompts, **_):
        places = [next(k for k, text in enumerate(instructions) if text in prompt) for prompt in prompts]
        return {
            "completions": [str(recorded[k]) for k in places],
            "price_per_example": [0.0] * len(prompts),
            "time_per_example": [0.01] * len(prompts),
            "completions_all": [None] * len(prompts),
        }

    base.get_fn_completions = lambda _: answer
    folder = Path(out) / name / "config" / judge
    folder.mkdir(parents=True, exist_ok=True)
    prompt = (folder / "prompt.txt").resolve()
    prompt.write_text("{instruction}\n(a): {output_1}\n(b): {output_2}\n")
    (folder / "configs.yaml").write_text(
        f"{judge}:\n  prompt_template: {prompt}\n  fn_completions: openai_completions\n"
        f"  completions_kwargs: {{model_name: {judge}}}\n  fn_completion_parser: eval_parser\n  batch_size: 1\n"
        "  is_randomize_output_order: false\n"
    )
    ours = [
        {"dataset": "toy", "instruction": i, "output": f"ours: {i}", "generator": "our-model"} for i in instructions
    ]
    reference = [
        {**each, "output": "reference: " + each["instruction"], "generator": "reference-model"} for each in ours
    ]
    main.evaluate(
        model_outputs=ours,
        reference_outputs=reference,
        annotators_config=str(folder.resolve()),
        output_path=f"{out}/{name}/{judge}",
        precomputed_leaderboard=None,
        fn_metric="get_winrate",
        sort_by="win_rate",
        caching_path=None,
    )


if __name__ == "__main__":
    for panel, content in PANELS.items():
        for place, annotator in enumerate(content["judges"]):
            write(sys.argv[1], panel, annotator, place)
