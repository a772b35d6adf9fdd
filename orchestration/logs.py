"""Whose logs a person sees who debugs a night: those of our packages.

Every module logs by ``logging.getLogger(__name__)``, so a package's name stands for all of its modules. Commands print
what is logged (``cli.output``), and Dagster keeps it with the run in which it was logged (``instance``).
"""

PACKAGES = tuple(
    f"{__name__.removesuffix('orchestration.logs')}{package}"
    for package in ("care_ops", "judges", "warehouse", "assets", "orchestration")
)
"""Our packages, by their full names also where they are installed inside another package."""
