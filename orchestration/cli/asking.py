"""Terminal dialogue of ``care label``: the rater reads an item, and presses a key or types a number as its label."""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from care_ops.errors import InputError
from orchestration.cli.output import console

if TYPE_CHECKING:
    from assets.table.label_file import LabelFile
    from warehouse.items import ItemRecord

UNDO, SKIP, QUIT = "u", "s", "q"
_COMMANDS = f"{UNDO} undoes, {SKIP} skips, {QUIT} ends"
_RANGE = re.compile(r"(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)")
_PAIR = "Which answer is better?"
_SIDES = "left", "right"
_GOOD = "Is this answer good?"


@dataclass(frozen=True)
class Answers:
    """Question to a rater about an item, with the permitted answers.

    Attributes
    ----------
    question : str
        Question that the rater answers.
    keys : mapping key -> label
        Label of each key; empty if raters type a number.
    words : mapping key -> str
        Text that is shown for a key; by default, the key itself.
    scale : (lo, hi), optional
        Smallest and largest permitted label.
    """

    question: str
    keys: Mapping[str, float]
    words: Mapping[str, str]
    scale: tuple[float, float] | None = None

    def offered(self) -> str:
        """Return a line of text with the permitted answers, for the terminal."""
        if self.scale is not None and not self.keys:
            return f"type a number from {self.scale[0]:g} to {self.scale[1]:g}, then Enter; {_COMMANDS}"
        texts = [f"{key} = {self.words[key]}" if key in self.words else key for key in self.keys]
        return f"press {', '.join(texts)}; {_COMMANDS}"

    def buttons(self) -> list[tuple[str, str, str]]:
        """Return (key, label, text) of each permitted answer, for the buttons of a page."""
        return [(key, f"{label:g}", self.words.get(key, key)) for key, label in self.keys.items()]

    def written(self) -> str:
        """Return a line of text with the permitted labels, for raters who fill in a table."""
        if self.scale is not None:
            return f"a grade from {self.scale[0]:g} to {self.scale[1]:g}"
        return ", ".join(f"{label:g} = {self.words.get(key, key)}" for key, label in self.keys.items())

    def permits(self, label: float) -> bool:
        lo, hi = self.scale or (min(self.keys.values()), max(self.keys.values()))
        return lo <= label <= hi

    def label_of(self, typed: str) -> float | None:
        """Return the label of a typed answer; None if the answer is not permitted."""
        if self.keys:
            return self.keys.get(typed, self.keys.get(typed.lower()))
        try:
            number = float(typed.replace(",", "."))
        except ValueError:
            return None
        return number if self.permits(number) else None


def answers_for(
    wanted: str | None, scale: tuple[float, float] | None, *, pairs: bool, higher_is_right: bool = False
) -> Answers:
    """Return the question and the permitted answers; without ``--answers``, the scale of the scores determines them.

    ``wanted`` is the value of ``--answers``: keys with labels (y=1,n=0) or a range (1-5); other values raise
    ``InputError``. For pairs, a higher score favours the left answer, or the right answer if ``higher_is_right``.
    """
    lowest, highest = _SIDES if higher_is_right else reversed(_SIDES)
    if wanted is not None and (found := _RANGE.fullmatch(wanted.strip())) is not None:
        lo, hi = float(found[1]), float(found[2])
        if not lo < hi:
            raise InputError(f"--answers {wanted!r} is not a range: its first label must be the lowest, as in 1-5")
        return _graded(lo, hi, f"from {lo:g} ({lowest}) to {hi:g} ({highest})" if pairs else None)
    if wanted is not None:
        return Answers(_PAIR if pairs else "How good is this answer?", *_chosen_keys(wanted))
    if pairs:
        sides = {highest: 1.0, lowest: 0.0}
        keys = {"l": sides["left"], "r": sides["right"], "t": 0.5}
        return Answers(_PAIR, keys, {"l": "left", "r": "right", "t": "tie"})
    if scale is None or scale == (0.0, 1.0):
        return Answers(_GOOD, {"y": 1.0, "n": 0.0}, {"y": "yes", "n": "no"})
    return _graded(*scale)


def _graded(lo: float, hi: float, sides: str | None = None) -> Answers:
    question = (
        f"How good is this answer, from {lo:g} to {hi:g}?" if sides is None else f"Which answer is better, {sides}?"
    )
    whole = lo.is_integer() and hi.is_integer() and lo >= 0 and hi <= 9
    keys = {str(digit): float(digit) for digit in range(int(lo), int(hi) + 1)} if whole else {}
    return Answers(question, keys, {}, (lo, hi))


def _chosen_keys(wanted: str) -> tuple[dict[str, float], dict[str, str]]:
    try:
        keys = {key.strip(): float(value) for key, value in (pair.split("=") for pair in wanted.split(","))}
    except ValueError:
        keys = {}
    if len(keys) < 2 or any(len(key) != 1 or key in (UNDO, SKIP, QUIT) for key in keys):
        raise InputError(
            f"--answers {wanted!r} is not valid; give single keys with their labels (such as y=1,n=0) or a range (such "
            f"as 1-5 or 0-100). The keys {UNDO}, {SKIP} and {QUIT} are reserved: {_COMMANDS}"
        )
    return keys, {key: f"{label:g}" for key, label in keys.items()}


def refuse_without_terminal(export: str, take_back: str) -> None:
    """Raise ``InputError`` if standard input is not a terminal, because a person must read the items.

    The message names the commands that need no terminal.
    """
    if not sys.stdin.isatty():
        raise InputError(
            "standard input is not a terminal, so no person can answer; write the items to a table with "
            f"`{export}`, fill in its column `label`, and import it with `{take_back}`"
        )


def ask(file: LabelFile, items: Mapping[str, ItemRecord], answers: Answers, rater: str) -> None:
    """Ask the rater for the missing labels; items that were skipped in earlier sessions come last."""
    from warehouse.fits import now

    passed: list[int] = []
    while (k := _next(file, items, passed)) is not None:
        _show(items[file.rows[k].item_id], labelling_progress(file), answers)
        answer = _answer(answers)
        if answer == QUIT:
            break
        if answer == UNDO:
            done = (j for j, row in enumerate(file.rows) if row.labelled_at and row.rater == rater)
            before = max(done, key=lambda j: file.rows[j].labelled_at, default=None)
            if before is None:
                console.print("there is nothing to undo")
                continue
            file.change(before, replace(file.rows[before], label="", rater="", labelled_at=""))
            passed = [j for j in passed if j != before]
        elif answer == SKIP:
            file.change(k, replace(file.rows[k], rater=rater, labelled_at=now()))
            passed.append(k)
        else:
            file.change(k, replace(file.rows[k], label=f"{answer:g}", rater=rater, labelled_at=now()))
    console.print(f"{labelling_progress(file)}, in {file.path}")


def _next(file: LabelFile, items: Container[str], passed: Sequence[int]) -> int | None:
    # Another session may add rows of other items.
    known = [(k, row) for k, row in enumerate(file.rows) if row.item_id in items]
    waiting = (k for k, row in known if row.waits)
    skipped = (k for k, row in known if row.skipped and k not in passed)
    return next(waiting, next(skipped, None))


def _show(item: ItemRecord, progress: str, answers: Answers) -> None:
    from assets.table.label_file import texts_of

    console.rule(progress)
    sides = {"response": "left", "response_2": "right"} if item.response_2 else {}
    for name, text in texts_of(item).items():
        console.print(f"{sides.get(name, name)}:", style="bold")
        console.print(text)
    console.print(answers.question, style="bold")
    console.print(f"[{answers.offered()}]")


def _answer(answers: Answers) -> str | float:
    while True:
        try:
            typed = click.getchar() if answers.keys else console.input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            return QUIT
        if typed in (UNDO, SKIP, QUIT):
            return typed
        label = answers.label_of(typed)
        if label is not None:
            return label
        named = repr(typed) if typed.strip() else "This key"
        console.print(f"{named} is not an answer; {answers.offered()}")


def labelling_progress(file: LabelFile) -> str:
    """Return a phrase with the numbers of labelled and skipped items."""
    labelled, skipped = sum(bool(row.label) for row in file.rows), sum(row.skipped for row in file.rows)
    return f"{labelled} of {len(file.rows)} labelled" + (f", {skipped} skipped" if skipped else "")
