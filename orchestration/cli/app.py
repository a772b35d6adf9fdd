"""The command ``care``, of which every other module here is a part."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

from orchestration.cli.backup import backup
from orchestration.cli.commands import Commands
from orchestration.cli.criteria import criteria
from orchestration.cli.doctor import doctor
from orchestration.cli.editions import accept, diff, history, promote, rollback, score
from orchestration.cli.fit import fit
from orchestration.cli.imports import import_
from orchestration.cli.judge_report import judge_report
from orchestration.cli.judges import judges
from orchestration.cli.label import label
from orchestration.cli.output import keep_standard_error, print_logs
from orchestration.cli.probes import probes
from orchestration.cli.rate import gate, rate
from orchestration.cli.retention import forget, gc
from orchestration.cli.run import run
from orchestration.cli.select import select
from orchestration.cli.setup import init, schema
from orchestration.cli.show import daemon, report, status, systems, ui
from orchestration.cli.testsets import testsets


def _print_version(wanted: bool) -> None:
    if wanted:
        from warehouse.database import release

        typer.echo(f"care {release()}")
        raise typer.Exit


app = Commands(
    name="care",
    help="One trustworthy score per item out of many biased judges.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
LOOKING = (status, report, systems, ui, daemon, history, diff)
PUBLISHING = (accept, promote, rollback, score)
TABLES = (fit, criteria, label, rate, gate, select)
for command in (run, *TABLES, *LOOKING, *PUBLISHING, init, schema, doctor, backup, gc, forget):
    app.command()(command)
app.command("import")(import_)
judges.command("report")(judge_report)
app.add_typer(judges, name="judges")
app.add_typer(probes, name="probes")
app.add_typer(testsets, name="testsets")


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
]


@app.callback()
def care(version: Version = False) -> None:
    """One trustworthy score per item out of many biased judges."""


def main() -> None:
    """Entry point."""
    # Dagster warns that parts of it are in beta: this concerns us, who pin its version, and no user of a command.
    warnings.filterwarnings("ignore", message=".*currently in (beta|preview).*")
    keep_standard_error()
    print_logs(verbose=False)
    app()
