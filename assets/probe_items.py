"""Probe items of a test set: written beside its items, asked by ``judge_inference``, read for the asset ``probes``.

They lie in a store of parts of their own (``Workspace.probe_parts``), so that no panel, page or count of items meets
them.

An own kind may be made by a program of somebody else's, which runs in the sandbox of judges' programs.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from assets.judge_keys import judge_item, judge_key
from assets.workspace import Workspace
from care_ops.errors import InputError
from judges.items import Status
from judges.sandbox import ProgramFile, Sandbox, SandboxDiedError, SandboxTimeoutError, available, why_unavailable
from warehouse.items import ItemRecord
from warehouse.probes import Program, make
from warehouse.testsets import resolve

OF, KIND, EFFECT = "of", "kind", "effect"
"""Metadata of a probe item: the item that it was made from, how, and what that does to quality."""

_PROGRAM_TIMEOUT_S, _PROGRAM_MEMORY_MB = 10.0, 1024
"""What a program that makes versions may use for one of them."""

_SHOWN = 60
"""Characters of a response that a message shows."""


def write_probe_items(workspace: Workspace, testset: str, records: Sequence[ItemRecord]) -> str:
    """Replace the probe items of a test set; returns their version, empty where the test set declares none.

    Raises ``InputError`` where nothing can be changed in the items in the ways that are declared, or the program of an
    own kind fails.
    """
    declared = workspace.testset(testset).probes
    if declared is None:
        from warehouse.storage import delete

        delete(workspace.probe_parts.items_file(testset))
        return ""
    plan = declared.plan
    with ExitStack() as stack:
        programs = {
            kind: stack.enter_context(_program(kind, resolve(path, workspace.root)))
            for kind, path in declared.programs.items()
        }
        made = [
            replace(probe.record, metadata={OF: probe.of, KIND: probe.kind, EFFECT: plan.kinds[probe.kind]})
            for probe in make(records, plan, programs)
        ]
    return "".join(workspace.probe_parts.write_items(testset, made))


@contextmanager
def _program(kind: str, path: Path) -> Generator[Program]:
    """A program that makes versions, while its sandbox is open."""
    safest = available()
    if safest == "none":
        raise InputError(
            f"probes: kind {kind!r} is made by {path}, which runs in a sandbox alone: {why_unavailable()}, or give a "
            "template"
        )
    sandbox = Sandbox(ProgramFile.read(path), _PROGRAM_TIMEOUT_S, _PROGRAM_MEMORY_MB, safest, "probe")

    def version(prompt: str, response: str) -> str | None:
        try:
            answer = sandbox.ask(prompt, response)
        except (SandboxDiedError, SandboxTimeoutError) as error:
            answer = {"error": str(error)}
        if "error" in answer:
            raise InputError(
                f"probes: {path} fails on the response {response[:_SHOWN]!r}: {answer['error']}; return None where "
                "there is nothing to change"
            )
        return answer["text"]

    try:
        yield version
    finally:
        sandbox.close()


def probe_scores(workspace: Workspace, judge: str, testset: str) -> dict[str, float]:
    """A judge's scores of the current probe items under its current key, by the content key of the item."""
    current = {judge_item(record).key for record in probe_items(workspace, testset)}
    if not current:
        return {}
    key = judge_key(workspace, judge, testset)
    rows = workspace.probe_parts.read_scores(judge, testset, ("item_key", "score", "status"), key=key).to_pylist()
    return {r["item_key"]: r["score"] for r in rows if r["status"] == Status.OK and r["item_key"] in current}


def probe_items(workspace: Workspace, testset: str) -> list[ItemRecord]:
    """The probe items of a test set; none where it declares none, or they have not been made yet."""
    if workspace.testset(testset).probes is None or not workspace.probe_parts.items_file(testset).exists():
        return []
    return workspace.probe_parts.read_items(testset)
