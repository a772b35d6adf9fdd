"""The protocol that all engines implement, and what an engine is given besides a judge's specification.

Belongs here: the interface. Belongs elsewhere: which engine a specification asks for (``factory``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from care_ops.errors import InputError, JudgeError
from judges.items import Item, Score
from judges.prompts import Template, find
from judges.sandbox import ProgramFile
from judges.spec import JudgeSpec

if TYPE_CHECKING:
    from care_ops.scores import Array


@dataclass(frozen=True)
class Recordings:
    """The recorded scores of one judge on one test set.

    Attributes
    ----------
    rows : mapping item_id -> int
        Where each item's score is among ``values``.
    values : (n,) array
        NaN where the judge has none.
    responses : mapping item_id -> str
        The texts that were scored, if the source keeps them.
    """

    rows: Mapping[str, int]
    values: Array
    responses: Mapping[str, str]


class SpendLimitError(JudgeError):
    """The spend limit is reached; ``scores`` holds those scores of the batch that were paid for."""

    def __init__(self, message: str, scores: Sequence[Score] = ()) -> None:
        super().__init__(message)
        self.scores = list(scores)


@dataclass
class Ledger:
    """What a judge has spent in this run, in US dollars."""

    spent: float = 0.0


@dataclass(frozen=True)
class Context:
    """What an engine is given besides a judge's specification.

    Attributes
    ----------
    root : Path
        Folder of the workspace. Relative paths of programs start here, and ``root / "prompts"`` holds its templates.
    recordings : Recordings, optional
        The scores of a recorded judge, which are part of its key.
    ledger : Ledger, optional
        What a paid judge has spent so far, over all test sets of the run.
    own_template : Template, optional
        The judge's prompt template, where it was read before: another machine does not have the workspace's folder.
    own_program : ProgramFile, optional
        The judge's program, where it is a file of the workspace and was read before, for the same reason.
    """

    root: Path = Path()
    recordings: Recordings | None = None
    ledger: Ledger | None = None
    own_template: Template | None = None
    own_program: ProgramFile | None = None

    def path(self, name: str) -> Path:
        """The absolute path of a file that is named relative to the workspace."""
        return (self.root / name).absolute()

    def template(self, spec: JudgeSpec) -> Template:
        """The prompt template of a judge that is a language model.

        Raises
        ------
        InputError
            Neither the judge nor the test set names a template, or there is none of that name.
        """
        if self.own_template is not None:
            return self.own_template
        name = spec.engine.template_name
        if name is None:
            raise InputError(
                f"judge {spec.name!r} has no prompt template, nor has the test set; add template: NAME to the judge's "
                "engine, or prompt: NAME to the test set"
            )
        return find(name, self.root / "prompts", spec.engine.template_variant)

    def program(self, spec: JudgeSpec) -> ProgramFile:
        """The program of a judge that is a file of the workspace.

        Raises
        ------
        InputError
            The file cannot be read.
        """
        return self.own_program or ProgramFile.read(self.path(spec.engine.program_file or ""))

    def for_another_machine(self, spec: JudgeSpec) -> Context:
        """This context with everything in it that the judge would read from the workspace's folder."""
        return replace(
            self,
            own_template=self.template(spec) if spec.engine.needs.template else None,
            own_program=self.program(spec) if spec.engine.program_file is not None else None,
        )


class Engine(Protocol):
    """Scores batches of items.

    Attributes
    ----------
    version : str
        What made the scores. It is recorded beside each score and is no part of the judge's key.
    """

    version: str

    def score(self, items: Sequence[Item]) -> list[Score]:
        """Score each item, in order; an item that fails gets a status and raises no exception."""
        ...

    def close(self) -> None:
        """End the processes and connections of the engine, which cannot score afterwards."""
        ...
