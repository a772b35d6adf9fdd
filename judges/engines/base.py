"""Base class of engines, and the context that an engine receives in addition to the judge specification."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from care_ops.errors import InputError, JudgeError
from judges.bill import Ledger
from judges.items import Item, Score
from judges.prompts import Template, find
from judges.sandbox import ProgramFile
from judges.spec import JudgeSpec, LanguageModel, ProgramEngine

if TYPE_CHECKING:
    from judges.batch import BatchStore


class StoppedError(JudgeError):
    """Error raised when a judge can send no more requests; ``scores`` are the scores that were already paid for."""

    def __init__(self, message: str, scores: Sequence[Score] = ()) -> None:
        super().__init__(message)
        self.scores = list(scores)


@dataclass(frozen=True)
class Context:
    """Folders, costs and callbacks that an engine receives in addition to the judge specification.

    Attributes
    ----------
    root : Path
        Folder of the workspace; relative paths of programs start here, and ``root / "prompts"`` holds prompt templates.
    ledger : Ledger, optional
        Cost so far of a judge that uses an endpoint, summed over all test sets of the run.
    learned : Path, optional
        Folder for files with the request parameters that each endpoint accepts. If None, each run learns them again.
    batches : BatchStore, optional
        Batch records of a judge on one test set. If given, the judge sends batch files and collects their answers.
    answered : callable, optional
        Function that receives the scores of one question and the version of the engine as soon as an endpoint has
        answered. Any thread may call it. The scores are stored later.
    own_template : Template, optional
        Prompt template of the judge, read in advance for a machine that lacks the workspace's folder.
    own_program : ProgramFile, optional
        Program file of the judge, read in advance for a machine that lacks the workspace's folder.
    """

    root: Path = Path()
    ledger: Ledger | None = None
    learned: Path | None = None
    batches: BatchStore | None = None
    answered: Callable[[Sequence[Score], str], None] | None = None
    own_template: Template | None = None
    own_program: ProgramFile | None = None

    def path(self, name: str) -> Path:
        """Return the absolute path of a file, given its path relative to the workspace."""
        return (self.root / name).absolute()

    def template(self, spec: JudgeSpec) -> Template:
        """Return a judge's prompt template; raise ``InputError`` if no template is named or the template is missing."""
        if self.own_template is not None:
            return self.own_template
        engine = spec.engine
        if not isinstance(engine, LanguageModel) or engine.template is None:
            raise InputError(
                f"neither judge {spec.name!r} nor the test set has a prompt template; add template: NAME to the "
                "judge's engine, or prompt: NAME to the test set"
            )
        variant = "paper" if engine.profile == "paper" else None
        return find(engine.template, self.root / "prompts", variant, fenced=engine.fence)

    def program(self, engine: ProgramEngine) -> ProgramFile:
        """Read the Python file of a program judge; raise ``InputError`` if the file cannot be read."""
        return self.own_program or ProgramFile.read(self.path(engine.file or ""))

    def for_another_machine(self, spec: JudgeSpec) -> Context:
        """Copy the context for another machine, with the template or program file but no ``ledger`` or ``answered``."""
        engine = spec.engine
        return replace(
            self,
            ledger=None,
            answered=None,
            own_template=self.template(spec) if engine.needs.template else None,
            own_program=self.program(engine) if isinstance(engine, ProgramEngine) and engine.file else None,
        )


class Engine(ABC):
    """Abstract base class of the engines that score batches of items.

    Attributes
    ----------
    version : str
        Name and version of the engine. CARE stores it with each score, but it is not part of the judge's key.
    """

    version: str

    @abstractmethod
    def score(self, items: Sequence[Item]) -> list[Score]:
        """Return one score for each item, in the same order; a score's status reports a failure."""

    def close(self) -> None:  # noqa: B027  (a default that subclasses may override)
        """Close the processes and connections of the engine; a closed engine cannot score."""
