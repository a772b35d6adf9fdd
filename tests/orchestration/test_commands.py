"""What holds of every command and option that there is, as the command line itself lists them."""

import pytest
import typer
from typer.testing import CliRunner

from orchestration.cli.app import app


def options_of_one_value(command, words=()):
    """Each option that takes one value, as (words of its command, option, how many words make its value)."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from options_of_one_value(inner, (*words, name))
    for option in command.params:
        if option.param_type_name == "option" and not (option.is_flag or option.multiple):
            yield words, option.opts[0], option.nargs


ALL = list(options_of_one_value(typer.main.get_command(app)))


def test_every_command_is_there():
    assert {("fit",), ("gate",), ("judges", "new"), ("probes", "make"), ("testsets", "add")} <= {w for w, *_ in ALL}


@pytest.mark.parametrize(("words", "option", "values"), ALL, ids=lambda part: str(part))
def test_an_option_of_one_value_is_never_given_twice_in_silence(words, option, values):
    twice = [option, *"1" * values] * 2
    done = CliRunner().invoke(app, [*words, *twice])
    said = " ".join(done.output.split())
    assert (done.exit_code, said) == (2, f"error: {option} takes one value and was given 2 times; give it once")
