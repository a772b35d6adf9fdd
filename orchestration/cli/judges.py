"""``care judges``: list, write and try judges."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from orchestration.cli.output import console, errors, show, speaking_errors

if TYPE_CHECKING:
    from judges.spec import JudgeSpec

judges = typer.Typer(help="List, write and try judges.", no_args_is_help=True)

_Workspace = Annotated[Path, typer.Option(help="Folder of care.yaml.")]
_Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


@judges.command("list")
@speaking_errors
def list_judges(
    workspace: _Workspace = Path(),
    panels: Annotated[bool, typer.Option("--panels", help="The panels that `new --panel` can write.")] = False,
    json: _Json = False,
) -> None:
    """Show the workspace's judges, or the panels there are."""
    if panels:
        from judges.panels import find, names

        rows = [
            {
                "panel": name,
                "models": len(find(name).models),
                "gated": sum(m.gated for m in find(name).models),
                "programs": "all" if find(name).programs == "all" else len(find(name).programs),
                "description": find(name).description,
            }
            for name in names()
        ]
        show(rows, "panels", as_json=json)
        return
    from orchestration.workspace import load_workspace

    loaded = load_workspace(workspace)
    show([_row(spec, loaded.testsets_of(name)) for name, spec in sorted(loaded.judges.items())], "judges", as_json=json)


def _row(spec: JudgeSpec, testsets: list[str]) -> dict[str, Any]:
    engine = spec.engine
    runs = getattr(engine, "model", None) or getattr(engine, "program", None) or getattr(engine, "file", None)
    return {
        "judge": spec.name,
        "engine": engine.kind,
        "runs": runs or getattr(engine, "column", ""),
        "family": spec.family,
        "license": spec.license,
        "test sets": ", ".join(testsets),
    }


@judges.command("new")
@speaking_errors
def new(
    name: Annotated[str | None, typer.Argument(help="Name of the judge.")] = None,
    workspace: _Workspace = Path(),
    panel: Annotated[str | None, typer.Option(help="Write all judges of a panel instead.")] = None,
    model: Annotated[str | None, typer.Option(help="Repository, folder, or an endpoint's name of a model.")] = None,
    revision: Annotated[str | None, typer.Option(help="Commit of the repository, 40 hexadecimal digits.")] = None,
    engine: Annotated[str, typer.Option(help="vllm, transformers or openai.")] = "vllm",
    base_url: Annotated[str | None, typer.Option(help="Of an OpenAI-compatible endpoint.")] = None,
    template: Annotated[str | None, typer.Option(help="Prompt template; by default the test set's.")] = None,
    program: Annotated[str | None, typer.Option(help="Name of a built-in program.")] = None,
    file: Annotated[str | None, typer.Option(help="Python file with program_judge(query, response).")] = None,
    family: Annotated[str | None, typer.Option(help="Base model, vendor or prompt family.")] = None,
) -> None:
    """Write a judge's file, or a panel of them; files that exist stay as they are."""
    from care_ops.errors import InputError
    from judges.engines.base import Context
    from judges.engines.factory import must_exist
    from judges.panels import find, judge_files, judge_yaml
    from judges.spec import JudgeSpec, explain
    from orchestration.workspace import judges_folder

    folder = judges_folder(workspace)
    if panel is not None:
        local: Literal["vllm", "transformers"] = "transformers" if engine == "transformers" else "vllm"
        files = judge_files(find(panel), local)
    else:
        if name is None or sum(given is not None for given in (model, program, file)) != 1:
            raise InputError("give a name and one of --model, --program or --file; or a --panel")
        content: dict[str, Any]
        if model is not None:
            content = {"kind": engine, "model": model, "revision": revision, "base_url": base_url, "template": template}
        else:
            content = {"kind": "program", "program": program, "file": file}
        content = {key: value for key, value in content.items() if value is not None}
        try:
            spec = JudgeSpec.model_validate({"name": name, "engine": content})
        except ValueError as error:
            raise InputError(f"{name}: {explain(error)}") from error  # type: ignore[arg-type]
        must_exist(spec, Context(workspace.absolute()))
        files = {name: judge_yaml(family=family, engine=content)}
    folder.mkdir(parents=True, exist_ok=True)
    kept = [judge for judge in files if (folder / f"{judge}.yaml").exists()]
    for judge, text in files.items():
        if judge not in kept:
            (folder / f"{judge}.yaml").write_text(text, encoding="utf-8")
    console.print(f"wrote {len(files) - len(kept)} judge file(s) to {folder}", highlight=False, soft_wrap=True)
    if kept:
        console.print(f"left as they are: {', '.join(kept)}", highlight=False, soft_wrap=True)


@judges.command("test")
@speaking_errors
def try_judge(
    name: Annotated[str, typer.Argument(help="Name of the judge.")],
    workspace: _Workspace = Path(),
    testset: Annotated[str | None, typer.Option(help="Whose scale and prompt; by default the first it scores.")] = None,
    json: _Json = False,
) -> None:
    """Try a judge on answers whose worth is plain; nothing is kept."""
    from assets.judge_keys import effective_spec
    from care_ops.errors import InputError
    from judges.engines.base import Context, Ledger
    from judges.items import Score
    from judges.pool import Pool
    from judges.trial import PROBES, findings
    from orchestration.workspace import load_workspace

    loaded = load_workspace(workspace)
    mine = loaded.testsets_of(name)
    if loaded.judge(name).engine.needs.recordings:
        raise InputError(f"judge {name!r} is recorded: it has nothing to say about new texts")
    if testset is None and not mine:
        raise InputError(f"judge {name!r} scores no test set; give --testset")
    spec = effective_spec(loaded, name, loaded.testset(testset or mine[0]).name)
    context = Context(loaded.root, ledger=Ledger())
    template = context.template(spec) if spec.engine.needs.template else None
    pair_answers = template.answers(spec.scale) if template is not None and template.pairwise else None
    runs: list[dict[str, Score]] = []
    with Pool(loaded.pool) as pool:
        for _ in range(2):
            found: dict[str, Score] = {}
            pool.run(
                spec,
                list(PROBES.values()),
                lambda batch, _, found=found: found.update({s.item_id.removeprefix("probe "): s for s in batch}),
                context,
            )
            runs.append(found)
    said = findings(runs[0], runs[1], pair_answers)
    rows = [
        {
            "probe": probe,
            "score": score.score,
            "status": str(score.status),
            "valid mass": score.valid_mass,
            "raw": score.raw,
        }
        for probe in PROBES
        for score in [runs[0][probe]]
    ]
    if json:
        show([{"probes": rows, **asdict(said)}], "", as_json=True)
    else:
        show(rows, f"{name} on probes", as_json=False)
        show([asdict(said)], "what they say", as_json=False)
    if all(row["score"] is None for row in rows):
        errors.print("fails: no answer got a score, so this judge is of no use as it is", style="red")
        raise typer.Exit(1)
    if said.spread is None or said.spread <= 0:
        told = "could not be compared" if said.spread is None else f"differ by {said.spread:g}"
        errors.print(
            f"fails: the good and the bad answer {told}; a judge of quality scores the good one higher", style="red"
        )
        raise typer.Exit(1)
    errors.print(f"passes: it scores the good answer {said.spread:g} above the bad one", style="green")
