"""What every command of the command line keeps to: an option that takes one value is given once; errors speak."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

from care_ops.errors import InputError
from orchestration.cli.output import speaking_errors

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")


class _Command(TyperCommand):
    """A command that refuses what would otherwise be left out in silence: all but the last value of an option."""

    @speaking_errors()
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command; ``InputError`` where an option that takes one value is there twice."""
        args = _one_word_a_scale(args)
        if not ctx.resilient_parsing:  # as it is while a shell completes a word
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for option, count in Counter(order).items():
                flag, many = getattr(option, "is_flag", True), getattr(option, "multiple", True)
                if count > 1 and not flag and not many:
                    raise InputError(f"{option.opts[0]} takes one value and was given {count} times; give it once")
        return super().parse_args(ctx, args)

    @speaking_errors()
    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        return super().invoke(ctx)


def _one_word_a_scale(words: list[str]) -> list[str]:
    """The words of a command with ``--scale 1 10`` as ``--scale 1:10``, since another one may be ``JUDGE=0:100``."""
    joined: list[str] = []
    for word in words:
        if joined[-2:-1] == ["--scale"] and _NUMBER.fullmatch(joined[-1]) and _NUMBER.fullmatch(word):
            joined[-1] = f"{joined[-1]}:{word}"
        else:
            joined.append(word)
    return joined


class Commands(typer.Typer):
    """A group of such commands."""

    def command(self, *args: Any, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Take a function as a command, with the arguments of ``typer.Typer.command``."""
        return super().command(*args, cls=_Command, **settings)
