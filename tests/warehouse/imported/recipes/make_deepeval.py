"""Writes the run files of deepeval 4.3: two panels of metrics.

pip install deepeval; DEEPEVAL_TELEMETRY_OPT_OUT=YES python make_deepeval.py OUT
"""

import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PANELS = json.loads((HERE / "panels.json").read_text())


def main(out, name):
    folder = Path(out) / name
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    from deepeval import evaluate
    from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
    from deepeval.metrics import BaseMetric
    from deepeval.test_case import LLMTestCase

    panel = PANELS[name]

    class Recorded(BaseMetric):
        def __init__(self, judge, column):
            self.threshold, self.judge, self.column = 0.5, judge, column
            self.evaluation_model = f"mock/{judge}"
            self.include_reason, self.async_mode, self.strict_mode = True, False, False
            self.evaluation_cost, self.error = 0.0, None

        def measure(self, test_case, *_, **__):
            self.score = panel["scores"][int(test_case.name[1:])][self.column]
            self.reason, self.success = "recorded", self.score >= self.threshold
            return self.score

        async def a_measure(self, test_case, *_, **__):
            return self.measure(test_case)

        def is_successful(self):
            return self.success

        @property
        def __name__(self):
            return self.judge

    cases = [
        LLMTestCase(
            name=f"q{k}",
            input=f"What is {k}+{k}?",
            actual_output=f"It is {2 * k}.",
            expected_output=str(2 * k),
            metadata={"item_id": f"q{k}", "label": label},
        )
        for k, label in enumerate(panel["labels"])
    ]
    metrics = [Recorded(judge, column) for column, judge in enumerate(panel["judges"])]
    quiet = DisplayConfig(show_indicator=False, print_results=False)
    evaluate(
        cases,
        metrics,
        async_config=AsyncConfig(run_async=False),
        display_config=quiet,
        cache_config=CacheConfig(write_cache=True),
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
