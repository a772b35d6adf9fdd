"""Command ``care`` with its subcommands."""

import atexit
import gc as collector
from typing import Annotated

import typer

from care_ops.errors import release
from orchestration.cli.commands import Commands
from orchestration.cli.doctor import doctor
from orchestration.cli.fit import fit
from orchestration.cli.fits import fits
from orchestration.cli.history import history
from orchestration.cli.imports import import_
from orchestration.cli.judge_report import judge_report
from orchestration.cli.judges import judges
from orchestration.cli.label import label
from orchestration.cli.output import keep_standard_error, print_logs
from orchestration.cli.rate import gate, rate
from orchestration.cli.retention import backup, forget, gc, restore
from orchestration.cli.run import run
from orchestration.cli.select import select
from orchestration.cli.setup import init
from orchestration.cli.show import daemon, report, status, ui
from orchestration.cli.testsets import testsets


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"care {release()}")
        raise typer.Exit


app = Commands(
    name="care",
    help="Turn the scores of many biased LLM judges into one score per item.",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
EVERYDAY, WORKSPACE, PUBLISH, ADMINISTER = "Everyday", "Workspace", "Publish", "Administer"
for command in (fit, label, rate, gate, select):
    app.command(rich_help_panel=EVERYDAY)(command)
app.command("import", rich_help_panel=EVERYDAY)(import_)
for command in (init, run, status, history, report, ui, doctor):
    app.command(rich_help_panel=WORKSPACE)(command)
judges.command("report")(judge_report)
app.add_typer(judges, name="judges", rich_help_panel=WORKSPACE)
app.add_typer(testsets, name="testsets", rich_help_panel=WORKSPACE)
app.add_typer(fits, name="fits", rich_help_panel=PUBLISH)
admin = Commands(help="Run the daemon; back up, clean and repair a workspace.", no_args_is_help=True)
for command in (daemon, backup, restore, gc, forget):
    admin.command()(command)
app.add_typer(admin, name="admin", rich_help_panel=ADMINISTER)

_FIRST = """\
Turn the scores of many biased LLM judges into one score per item.

  care fit scores.csv --items items.csv     one score per item, and whether you can trust it
  care label --items items.csv              label a few answers, if the scores alone cannot decide
  care rate --help                          pass rates of systems from few labels; care gate decides on a release
  care init panel                           a workspace of judges and test sets; care run brings it up to date

care --help lists all commands; care COMMAND --help lists the options of a command."""


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
]


@app.callback()
def care(context: typer.Context, version: Version = False) -> None:
    """Print an introduction if no command is given."""
    if context.invoked_subcommand is None:
        typer.echo(_FIRST)


def main() -> None:
    """Run the command ``care``."""
    # Garbage collection of imported modules frees nothing, and takes a fifth of the time of a run without changes.
    collector.set_threshold(10_000)
    atexit.register(collector.disable)
    keep_standard_error()
    print_logs(verbose=False)
    app()
