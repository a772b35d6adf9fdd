"""Base classes of commands, which reject repeated options and print errors as messages."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

from care_ops.errors import InputError
from orchestration.cli.output import errors_as_messages

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")


class _Command(TyperCommand):
    """Command that rejects a repeated option, because click would silently use only the last value."""

    @errors_as_messages()
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        args = _join_scale_ends(args)
        if not ctx.resilient_parsing:  # true while a shell completes a word
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for option, count in Counter(order).items():
                flag, many = getattr(option, "is_flag", True), getattr(option, "multiple", True)
                if count > 1 and not flag and not many:
                    raise InputError(f"{option.opts[0]} takes one value and was given {count} times; give it once")
        return super().parse_args(ctx, args)

    @errors_as_messages()
    def invoke(self, ctx: Any) -> Any:
        return super().invoke(ctx)


def _join_scale_ends(words: list[str]) -> list[str]:
    """Rewrite ``--scale 1 10`` as ``--scale 1:10``, because each ``--scale`` takes one value, as in ``JUDGE=0:100``."""
    joined: list[str] = []
    for word in words:
        if joined[-2:-1] == ["--scale"] and _NUMBER.fullmatch(joined[-1]) and _NUMBER.fullmatch(word):
            joined[-1] = f"{joined[-1]}:{word}"
        else:
            joined.append(word)
    return joined


class Commands(typer.Typer):
    """Group of commands that reject repeated options and print errors as messages."""

    def command(self, *args: Any, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return super().command(*args, cls=_Command, **settings)
