"""Names of CARE's loggers; commands print the log records, and Dagster stores them with the run."""

PACKAGES = tuple(
    f"{__name__.removesuffix('orchestration.logs')}{package}"
    for package in ("care_ops", "judges", "warehouse", "assets", "orchestration")
)
"""Full names of CARE's packages, which may be installed inside ``care_eval``."""
