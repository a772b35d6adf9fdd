"""Names of the loggers of CARE's packages.

Commands print the log records (``cli.output``), and Dagster keeps them with the run (``instance``).
"""

PACKAGES = tuple(
    f"{__name__.removesuffix('orchestration.logs')}{package}"
    for package in ("care_ops", "judges", "warehouse", "assets", "orchestration")
)
"""Full names of CARE's packages, which may be installed inside another package."""
