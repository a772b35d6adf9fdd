"""What CARE tells a person to type: every command is collected from the texts that print it, and each one exists.

``test_typed_commands.py`` types them.
"""

import shlex
from collections import defaultdict
from functools import cache

import typer.main

from orchestration.cli.app import app
from tests.support.printed_commands import HOLE, Printed, printed_commands

CARE = typer.main.get_command(app)

NO_COMMANDS = {
    "care": "the name of the program, or of the aggregator",
    "care without labels": "the name of a hypothesis of the aggregator care",
}

ONLY_NAMED = {
    "care fits accept": {
        "assets/publication/review.py": "a check's advice; the verdict of a fit that is held back has the whole",
        "orchestration/cli/editions.py": "the lock's holder",
    },
    "care admin backup": {"orchestration/cli/retention.py": "the lock's holder"},
    "care fits diff": {"assets/publication/review.py": "as care fits accept"},
    "care fit": {"assets/table/criteria.py": "an error of `care criteria` names the command for one criterion"},
    "care fit --items": {"orchestration/cli/imports.py": "help of an option: what its table is for"},
    "care fit --probes": {"orchestration/cli/probes.py": "what the table that was written is for"},
    "care admin forget": {
        "assets/workspace.py": "of each of the items that the error has named",
        "assets/state/repair.py": "of each of the items that the error has named",
        "assets/state/retention.py": "of the item that the error has named",
        "orchestration/cli/retention.py": "the lock's holder",
    },
    "care import": {"care_eval/reducer.py": "an error names the command for finished logs"},
    "care judges retest": {"orchestration/cli/judges.py": "the lock's holder"},
    "care probes make": {"orchestration/cli/fit.py": "help of an option: who wrote the table"},
    "care fits promote": {
        "assets/judging/canary.py": "a check's advice: pin the fit",
        "orchestration/cli/editions.py": "the lock's holder",
    },
    "care fits rollback": {"orchestration/cli/editions.py": "the lock's holder"},
}
"""Commands in sentences of the code that lack what they need: where, and why nobody types them as they stand."""


@cache
def told() -> dict[str, set[Printed]]:
    """Each command, and where it is printed."""
    found: dict[str, set[Printed]] = defaultdict(set)
    for each in printed_commands():
        if each.command not in NO_COMMANDS:
            found[each.command].add(each)
    return found


def what_is_wrong(command: str) -> str | None:
    """Why the command cannot be typed as it stands; None where it can."""
    here, words = CARE, shlex.split(command)[1:]
    while hasattr(here, "commands"):
        if not words or words[0].startswith("-"):
            break
        name = words.pop(0)
        if name not in here.commands:
            return f"there is no command {name!r}"
        here = here.commands[name]
    options = {opt: each for each in here.params for opt in (*each.opts, *each.secondary_opts) if opt.startswith("-")}
    arguments, given = [each for each in here.params if each.param_type_name == "argument"], set()
    values = 0
    while words:
        word = words.pop(0)
        if word in ("-h", "--help"):
            continue
        if word == HOLE:  # a value, or an option with its value
            values += 1
        elif word.startswith("-"):
            if word not in options:
                return f"{here.name} has no option {word}"
            given.add(options[word].name)
            wanted = 0 if options[word].is_flag else options[word].nargs
            if len(words) < wanted:
                return f"lacks the value of {word}"
            del words[:wanted]
        else:
            values += 1
    needed = [each.name for each in arguments if each.required]
    lacking = needed[values:] + [
        e.name for e in here.params if e.required and e not in arguments and e.name not in given
    ]
    if lacking:
        return f"lacks {', '.join(lacking)}"
    most = sum(each.nargs for each in arguments) if all(each.nargs > 0 for each in arguments) else values
    return f"{values} values, and takes {most}" if values - command.split().count(HOLE) > most else None


def only_named(each: Printed) -> bool:
    """Whether a sentence names the command, or an option of it, and does not ask for it to be typed."""
    if each.where.endswith(".md"):
        return not each.alone
    return each.where in ONLY_NAMED.get(each.command, {})


def test_every_command_that_is_printed_can_be_typed_as_it_stands():
    wrong = {command: why for command in told() if (why := what_is_wrong(command))}
    missing = {command for command, why in wrong.items() if not why.startswith("lacks ")}
    assert not missing, {command: (wrong[command], told()[command]) for command in missing}
    unfinished = [
        (each.command, wrong[each.command], each.where) for c in wrong for each in told()[c] if not only_named(each)
    ]
    assert not unfinished, unfinished
    named = {(each.command, each.where) for command in wrong for each in told()[command]}
    assert {(command, where) for command, files in ONLY_NAMED.items() for where in files} <= named, "none is stale"
    assert set(NO_COMMANDS) <= {each.command for each in printed_commands()}, "none is stale"


def test_commands_are_found_where_they_are_printed():
    files = {command: {each.where for each in found} for command, found in told().items()}
    assert "assets/report/verdicts.py" in files[f"care label {HOLE} {HOLE}"]
    assert "README.md" in files["care init mine"]
    assert "assets/state/repair.py" in files["care doctor --repair"], "a string in two parts"
    assert len(files) > 100
    assert what_is_wrong("care labels one") == "there is no command 'labels'"
    assert what_is_wrong("care judges tset one") == "there is no command 'tset'"
    assert what_is_wrong("care run --worksapce x") == "run has no option --worksapce"
    assert what_is_wrong("care fits accept") == "lacks testset"
