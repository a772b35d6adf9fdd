"""Writes annotations of Phoenix 20.26 by its client: two panels of judges and a person.

pip install arize-phoenix arize-phoenix-client pandas
PHOENIX_PORT=16006 phoenix serve; python make_phoenix.py OUT
"""

import datetime as dt
import json
import sys
import time
from pathlib import Path

from phoenix.client import Client

PANELS = json.loads((Path(__file__).parent / "panels.json").read_text())


def main(out):
    client = Client(base_url="http://127.0.0.1:16006")
    now = dt.datetime.now(dt.UTC).isoformat()
    for number, (name, panel) in enumerate(PANELS.items(), start=1):
        ids = [f"{100 * number + k:016x}" for k in range(len(panel["labels"]))]
        spans = [
            {
                "name": "answer",
                "context": {"trace_id": f"{100 * number + k:032x}", "span_id": span},
                "span_kind": "LLM",
                "parent_id": None,
                "start_time": now,
                "end_time": now,
                "status_code": "OK",
                "status_message": "",
                "attributes": {
                    "input.value": f"What is {k}+{k}?",
                    "output.value": str(2 * k),
                    "llm.model_name": "mock",
                },
            }
            for k, span in enumerate(ids)
        ]
        client.spans.log_spans(project_identifier=name, spans=spans)
        time.sleep(6)
        for column, judge in enumerate(panel["judges"]):
            rows = [
                {
                    "span_id": span,
                    "name": judge,
                    "annotator_kind": "LLM",
                    "result": {"label": "recorded", "score": float(row[column]), "explanation": "recorded"},
                }
                for span, row in zip(ids, panel["scores"], strict=True)
            ]
            client.spans.log_span_annotations(span_annotations=rows, sync=True)
        people = [
            {"span_id": span, "name": "quality", "annotator_kind": "HUMAN", "result": {"score": float(label)}}
            for span, label in zip(ids, panel["labels"], strict=True)
        ]
        client.spans.log_span_annotations(span_annotations=people, sync=True)
        frame = client.spans.get_spans_dataframe(project_identifier=name)
        annotations = client.spans.get_span_annotations_dataframe(spans_dataframe=frame, project_identifier=name)
        folder = Path(out) / name
        folder.mkdir(parents=True, exist_ok=True)
        annotations.reset_index().to_json(folder / "annotations.jsonl", orient="records", lines=True, date_format="iso")
        annotations.reset_index().to_csv(folder / "annotations.csv", index=False)
        raw = client.spans.get_span_annotations(span_ids=ids, project_identifier=name)
        (folder / "annotations_api.json").write_text(json.dumps(raw, default=str, indent=1))
        frame.reset_index(drop=True).to_json(folder / "spans.jsonl", orient="records", lines=True, date_format="iso")


if __name__ == "__main__":
    main(sys.argv[1])
