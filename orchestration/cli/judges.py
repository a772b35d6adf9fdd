"""Commands of ``care judges``, which add, pin, test and retest judges."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from care_ops.errors import InputError, counted
from orchestration.cli.commands import Commands
from orchestration.cli.output import Json, Root, console, errors, print_failures, show, watching
from orchestration.cli.pin import pin
from orchestration.cli.rate import JUDGE_CHANGED

if TYPE_CHECKING:
    from assets.report.staleness import Partition
    from assets.workspace import Workspace

judges = Commands(help="Add, pin, test and retest judges; report their agreement with people.", no_args_is_help=True)


@judges.command("new")
def new(
    name: Annotated[str | None, typer.Argument(help="Name of the judge.")] = None,
    workspace: Root = Path(),
    panel: Annotated[str | None, typer.Option(help="Judge preset; write the files of all its judges.")] = None,
    model: Annotated[str | None, typer.Option(help="Model: Hugging Face name, folder or name at an endpoint.")] = None,
    revision: Annotated[str | None, typer.Option(help="Commit of the model repository, 40 hexadecimal digits.")] = None,
    engine: Annotated[str, typer.Option(help="Engine that runs the model: vllm or openai.")] = "vllm",
    base_url: Annotated[str | None, typer.Option(help="URL of an OpenAI-compatible endpoint.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the endpoint's API key; by default OPENAI_API_KEY.")
    ] = None,
    template: Annotated[str | None, typer.Option(help="Prompt template; by default, the test set's template.")] = None,
    program: Annotated[str | None, typer.Option(help="Name of a built-in program.")] = None,
    file: Annotated[str | None, typer.Option(help="Python file with program_judge(query, response).")] = None,
    family: Annotated[str | None, typer.Option(help="Family of the judge: its base model, vendor or prompt.")] = None,
    profile: Annotated[
        Literal["care", "paper", "paper-raw"],
        typer.Option(help="paper: prompts and parsing of the paper; a preset's judges score the paper's test sets."),
    ] = "care",
) -> None:
    """Write the YAML file of a judge, or the files of all judges of a preset; existing files stay unchanged."""
    from judges.panels import find, judge_files, judge_yaml, with_fence
    from orchestration.workspace import folder_of

    folder = folder_of(workspace, "judges")
    asked = {"kind": engine, "revision": revision, "base_url": base_url, "api_key_env": api_key_env}
    asked |= {"template": template, "profile": None if profile == "care" else profile}
    asked = {key: value for key, value in asked.items() if value is not None}
    if panel is not None:
        _must_be_usable(panel, {"model": "any", "revision": "0" * 40, **asked}, workspace)  # pinned later
        files = judge_files(find(panel), asked, as_paper=profile == "paper")
    else:
        if name is None or sum(given is not None for given in (model, program, file)) != 1:
            raise InputError("no judge is named; give a name and one of --model, --program or --file, or give --panel")
        # A path may be relative to the current folder.
        if file is not None and not (workspace / file).exists() and Path(file).exists():
            file = os.path.relpath(Path(file).absolute(), workspace.absolute())
        of_program = {"program": program} if file is None else {"file": file}
        settings = with_fence({**asked, "model": model}) if model else {"kind": "program", **of_program}
        _must_be_usable(name, settings, workspace)
        files = {name: judge_yaml(family=family, engine=settings)}
    _write_new(folder, files)


def _must_be_usable(name: str, engine: Mapping[str, Any], workspace: Path) -> None:
    from pydantic import ValidationError

    from judges.engines.base import Context
    from judges.engines.factory import must_exist
    from judges.settings_files import explain
    from judges.spec import JudgeSpec

    try:
        spec = JudgeSpec.model_validate({"name": name, "engine": engine})
    except ValidationError as error:
        raise InputError(f"{name}: {explain(error)}") from None
    must_exist(spec, Context(workspace.absolute()))


def _write_new(folder: Path, files: Mapping[str, str]) -> None:
    from assets.report.names import refuse_alike

    if outside := [name for name in files if {"/", "\\"} & {*name}]:
        raise InputError(
            f"judge name {outside[0]!r} has a slash, so it cannot be a file name in {folder}; remove the slash"
        )
    folder.mkdir(parents=True, exist_ok=True)
    refuse_alike("judge", [*sorted(path.stem for path in folder.glob("*.y*ml")), *files], folder)
    existing = [judge for judge in files if (folder / f"{judge}.yaml").exists()]
    for judge, text in files.items():
        if judge not in existing:
            (folder / f"{judge}.yaml").write_text(text, encoding="utf-8")
    console.print(f"wrote {counted(len(files) - len(existing), 'judge file')} to {folder}")
    if existing:
        console.print(f"already exist and stay unchanged: {', '.join(existing)}")


judges.command("pin")(pin)


@judges.command("test")
def try_judge(
    name: Annotated[str, typer.Argument(help="Name of the judge.")],
    workspace: Root = Path(),
    testset: Annotated[
        str | None, typer.Option(help="Test set whose scale and prompt to use; by default, the judge's first test set.")
    ] = None,
    json: Json = False,
) -> None:
    """Try a judge on a few clearly good and clearly bad answers; only the cost is recorded."""
    from assets.judge_keys import effective_spec, engine_context
    from assets.judging.bill import Account, purses
    from judges.items import Score
    from judges.pool import Pool
    from judges.trial import PROBES, gain_over_bad
    from orchestration.workspace import load_workspace

    loaded = load_workspace(workspace)
    its_testsets = loaded.testsets_of(name)
    if loaded.judge(name).engine.needs.recordings:
        raise InputError(f"judge {name!r} has only recorded scores, so it cannot score new texts; test another judge")
    if testset is None and not its_testsets:
        raise InputError(f"judge {name!r} scores no test set; name a test set with --testset")
    spec = effective_spec(loaded, name, loaded.testset(testset or its_testsets[0]).name)
    account = Account(loaded, name, purses(loaded))
    account.begin(testset or its_testsets[0], "trial")
    context = engine_context(loaded, account)
    pairwise = spec.engine.needs.template and context.template(spec).pairwise
    scores, answered_by = dict[str, Score](), set[str]()

    def keep(batch: Sequence[Score], version: str) -> None:
        answered_by.add(version)
        scores.update((score.item_id.removeprefix("probe "), score) for score in batch)

    try:
        with watching(f"testing {name}") as watch, Pool(loaded.pool, loaded.ray) as pool:
            probes = list(PROBES.values())
            with pool.session(spec.engine.gpus) as session:
                session.run(spec, probes, keep, context, lambda now: watch(f"testing {name}", now.done, now.total))
    finally:
        account.record()
    rows = [
        {"probe": probe, "score": s.score, "status": str(s.status), "valid mass": s.valid_mass, "raw": s.raw}
        for probe, s in ((probe, scores[probe]) for probe in PROBES)
    ]
    spread = gain_over_bad(scores, "good", pairwise=pairwise)
    length_gain = gain_over_bad(scores, "long and bad", pairwise=pairwise)
    found = {"spread": spread, "length_gain": length_gain, "answered_by": ", ".join(sorted(answered_by))}
    if json:
        show([{"probes": rows, **found}], "", as_json=True)
    else:
        show(rows, f"{name} on probes", as_json=False)
        show([found], "findings", as_json=False)
    if all(row["score"] is None for row in rows):
        errors.print("fails: no probe got a score, so the judge is unusable; see the column `raw` above", style="red")
        raise typer.Exit(1)
    _must_prefer_good(spread, length_gain)


def _must_prefer_good(spread: float | None, length_gain: float | None) -> None:
    if spread is None or spread <= 0:
        difference = "an answer has no score" if spread is None else f"the difference is {spread:g}"
        errors.print(
            f"fails: the judge does not score the good answer above the bad one ({difference}); change its model or "
            "its prompt, or remove the judge",
            style="red",
        )
        raise typer.Exit(1)
    errors.print(f"passes: the judge scores the good answer {spread:g} above the bad one", style="green")
    if length_gain is not None and length_gain > spread:
        errors.print(
            f"warning: the judge scores a long bad answer {length_gain - spread:g} above the good one, so it may "
            "reward length; say in its prompt that length is not quality, or change its model",
            style="yellow",
        )


@judges.command("retest")
def retest(name: Annotated[str, typer.Argument(help="Name of the judge.")], workspace: Root = Path()) -> None:
    """Let a judge score a few items again, and show how much its scores changed.

    Exits with code 6, like `care gate`, if the judge's model seems to have changed.
    """
    from assets.report.retests import last_retest
    from judges.items import FROM_A_FILE
    from orchestration.instance import workspace_instance
    from orchestration.locks import locked_workspace
    from orchestration.runner import run_stale

    with locked_workspace(workspace, "care judges retest") as loaded:
        if loaded.judge(name).engine.needs.recordings:
            raise InputError(f"judge {name!r}: {FROM_A_FILE}")
        if loaded.canary.items == 0:
            raise InputError("care.yaml: `canary: {items: 0}` turns retests off; set a number of items above 0")
        with workspace_instance(loaded) as instance:
            again = _canary_and_pages(loaded, name)
            outcome = run_stale(loaded, instance, selection="key:canary", judge=name, again=again)
            found = last_retest(instance, name)
    print_failures(outcome)
    if outcome.failures:
        raise typer.Exit(1)
    if found is None:
        console.print(f"{name}: the judge has no scores yet; run `care run` first")
    elif found.moved is None:
        console.print(f"{name}: the judge answered none of {found.items} items; check its endpoint with `care doctor`")
    else:
        by = f" (answered by {found.answered_by})" if found.answered_by else ""
        console.print(f"{name}: {found.message}{by}")
    if found is not None and not found.passed:
        raise typer.Exit(JUDGE_CHANGED)


def _canary_and_pages(loaded: Workspace, name: str) -> list[Partition]:
    from assets.fit.kept import panel_is_newer
    from assets.publication.fit_versions import blocked_fit
    from assets.report.names import page_name

    found: list[Partition] = [("canary", name)]
    for testset in loaded.testsets_of(name):
        is_drawn = (loaded.report_folder / page_name(testset)).is_file()
        if is_drawn and blocked_fit(loaded, testset) is None and not panel_is_newer(loaded.fit_folder(testset)):
            found.append(("report", testset))
    return found
