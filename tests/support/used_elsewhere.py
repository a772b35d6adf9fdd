"""Names that look unused to vulture and are not, each with who uses it. Read by ``make lint``, imported by nobody."""

# ruff: noqa: B018, F821
logarithmic  # asdict of a chart, drawn by assets/experiments/pages.py
asks  # templates/experiments.html
protocol  # templates/experiments.html
alpha  # templates/page.html
judge_rows  # templates/page.html
factor_rows  # templates/page.html
disagreements  # templates/page.html
labels_seen  # templates/page.html
avg  # templates/page.html
Named  # an annotation written as a string, so that importing the asset imports no types
missing_rate  # asdict of a judge's check, templates/page.html
scale_free  # declared by every aggregator, tested as a property of each (law 3)
mae_filled  # read by name through the fields of Evaluation
balanced_accuracy  # likewise
risk_coverage  # likewise
dependent  # public: judges that depend on one another (docs/care-tensor.md)
conditional_mutual_information  # public, likewise
tailed_scatter  # public, likewise
dependent_judges  # public: draws for the above
weighted_kappa  # public: agreement of two judges (docs/uncertainty.md)
identifiability_of_model  # public: a theorem of the paper as a number (docs/care-svd.md)
stability  # public, likewise
directions_error  # public, likewise
items_needed  # public, likewise
misspecified_mean_error  # public, likewise
least_weight  # of a theorem's constants, read by whoever evaluates it
tensor_rate  # public, likewise
solve_conic  # public: constraints that the nightly solver does not have (docs/care-svd.md)
within_families  # public: such a constraint
choose_by_order  # public: the rule of position bias, for pairs asked in both orders
exc  # the signature of a context manager
cls  # the signature of a pydantic validator
yield_for_execution  # called by Dagster at the start of a run (orchestration/resources.py)
trigger_gain  # asdict of what a trial found, printed by `care judges test`
length_gain  # likewise
retest  # likewise
__arrow_c_stream__  # called by pyarrow (warehouse/sources/tables.py)
