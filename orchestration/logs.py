"""Names of the loggers of our packages.

Commands print their records (``cli.output``), and Dagster keeps them with the run (``instance``).
"""

PACKAGES = tuple(
    f"{__name__.removesuffix('orchestration.logs')}{package}"
    for package in ("care_ops", "judges", "warehouse", "assets", "orchestration")
)
"""Our packages, by their full names if they are installed inside another package."""
