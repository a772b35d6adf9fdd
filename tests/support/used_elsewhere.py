"""Names that look unused to vulture and are not, each with who uses it. Read by ``make lint``, imported by nobody."""

# ruff: noqa: B018, F821
logarithmic  # asdict of a chart, drawn by assets/experiments/pages.py
asks  # templates/experiments.html
getitem  # by Jinja, of judges/prompts/template.py
protocol  # templates/experiments.html
alpha  # templates/page.html
kappa  # templates/page.html
labels_seen  # templates/page.html
gold_before  # templates/page.html
gold_after  # templates/page.html
answer_rank  # templates/page.html
without  # templates/page.html
parted  # templates/page.html
bill_in_words  # templates/page.html
tokens_reasoning  # by name, from a bill to the view `bills` and templates/page.html
forecast_tokens  # likewise
p50_ms  # likewise
p95_ms  # likewise
prices  # likewise
wide  # templates/figures.html
is_right  # templates/probes.html
is_graded  # templates/probes.html
shown  # templates/probes.html
Named  # an annotation written as a string, so that importing the asset imports no types
missing_rate  # asdict of a judge's check, templates/page.html
mae_filled  # read by name through the fields of Evaluation
balanced_accuracy  # likewise
risk_coverage  # likewise
least_weight  # asdict of a theorem's rate, in the details of care_tensor
exc  # the signature of a context manager
cls  # the signature of a pydantic validator
yield_for_execution  # called by Dagster at the start of a run (orchestration/resources.py)
WatchedRunLauncher  # named by deploy/dagster.yaml
from_config_value  # called by Dagster for the class that dagster.yaml names (orchestration/storage.py)
Storage  # named by dagster.yaml of a workspace
run_storage  # likewise
supports_check_run_worker_health  # called by Dagster's run monitoring (orchestration/launcher.py)
check_run_worker_health  # likewise
latency_ms  # a column of the parts, written by judges/items.py
trigger_gain  # asdict of what a trial found, printed by `care judges test`
length_gain  # likewise
retest  # likewise
__arrow_c_stream__  # called by pyarrow (warehouse/sources/tables.py)
__signature__  # read by typer (orchestration/cli/tables.py)
_.to_frame  # public: care_eval (docs/data.md)
_.judges_frame  # likewise
_.metrics_frame  # likewise
_.summary  # likewise
_.halo_frame  # likewise
_repr_html_  # called by a notebook
_.predict  # public: care_ops/estimators.py, and the methods and attributes that follow
_.fit_predict
_.get_params
_.set_params
_.sd_
_.weights_
_.threshold_
_.fidelity_
__sklearn_is_fitted__  # called by scikit-learn
__sklearn_tags__  # likewise
__getattr__  # called by Python where a module lacks a name (care_eval/__init__.py)
__dir__  # likewise
CareWorkspaceComponent  # named in the defs.yaml of other projects (docs/nights.md)
generate_trace_id  # called by OpenTelemetry for each span (orchestration/telemetry.py)
