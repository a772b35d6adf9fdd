"""Allow list of vulture (``make lint``): names that seem unused, with the library that uses each name."""

# ruff: noqa: B018, F821
paper  # templates/experiments.html
getitem  # by Jinja, of judges/prompts/template.py
protocol  # templates/experiments.html
alpha  # templates/page.html
tokens_reasoning  # by name, from a bill to the view `bills`
forecast_tokens  # likewise
p50_ms  # likewise
p95_ms  # likewise
prices  # likewise
wide  # templates/figures.html
mae_filled  # read by name through the fields of Evaluation
balanced_accuracy  # likewise
risk_coverage  # likewise
exc  # the signature of a context manager
yield_for_execution  # called by Dagster at the start of a run (orchestration/resources.py)
from_config_value  # called by Dagster for the class that dagster.yaml names (orchestration/storage.py)
run_storage  # likewise
check_run_worker_health  # likewise
link  # by asdict, in the document of an alert (orchestration/alerts.py)
p_json  # a column of score parts (judges.items.Score.as_row)
__arrow_c_stream__  # called by pyarrow (warehouse/sources/tables.py)
__signature__  # read by typer (orchestration/cli/tables.py)
_.to_frame  # public: care_eval (docs/data.md)
_.judges_frame  # likewise
_.metrics_frame  # likewise
_repr_html_  # called by a notebook
_.predict  # public: care_ops/estimators.py, and the methods and attributes that follow
_.fit_predict
_.set_params
_.sd_
_.weights_
_.threshold_
_.fidelity_
__getattr__  # called by Python if a module lacks a name (care_eval/__init__.py)
__dir__  # likewise
timeout  # the signature of httpcore's streams (judges/engines/endpoint.py)
load_input  # called by Dagster (orchestration/resources.py)
handle_output  # likewise
