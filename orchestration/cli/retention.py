"""Commands ``care admin backup``, ``restore``, ``gc`` and ``forget``, which back up and clean a workspace."""

import shlex
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from care_ops.errors import InputError, WarehouseError
from orchestration.cli.output import Root, console, show


def gc(
    workspace: Root = Path(),
    yes: Annotated[
        bool, typer.Option("--yes", help="Delete the files; without this option, CARE only lists them.")
    ] = False,
    versions: Annotated[
        int, typer.Option("--fit-versions", help="Number of latest fits to keep for each test set.", min=1)
    ] = 30,
    days: Annotated[float, typer.Option(help="Number of days for which CARE keeps unused score files.", min=0)] = 90,
) -> None:
    """Delete old fits, and scores of removed or changed judges; merge small files."""
    from assets.state.retention import merge, removable, remove, scattered
    from orchestration.locks import locked_workspace

    with locked_workspace(workspace, "care admin gc") as loaded:
        to_delete = removable(loaded, versions=versions, days=days)
        rows = [{"what": entry.what, "why": entry.why, "bytes": entry.size or None} for entry in to_delete]
        to_merge = scattered(loaded)
        if not to_delete and not to_merge:
            if yes:  # a killed command may have deleted files but not their rows in the database
                remove(loaded, [])
            console.print("nothing to delete")
            return
        if to_delete:
            show(rows, "deleted" if yes else "would be deleted", as_json=False)
        if to_merge:
            parts = [{"judge": j, "test set": t, "parts": count} for (j, t), count in to_merge.items()]
            show(parts, "merged, without loss" if yes else "would be merged, without loss", as_json=False)
        if yes:
            freed = remove(loaded, to_delete)
            console.print(f"{freed / 2**20:.1f} MiB freed, {merge(loaded, to_merge)} files merged")
        else:
            console.print("nothing was deleted; run the command again with --yes to delete the listed files")


def forget(
    item: Annotated[str, typer.Argument(help="Id of the item, as in the column item_id.")],
    testset: Annotated[str, typer.Option(help="Test set of the item.")],
    workspace: Root = Path(),
) -> None:
    """Remove an item and its scores from data, fits, database and pages; later runs ignore the item."""
    from assets.labels import read_labels
    from assets.state.retention import forget as remove_item
    from assets.state.retention import still_held
    from orchestration.locks import locked_workspace

    with locked_workspace(workspace, "care admin forget") as loaded:
        removed = remove_item(loaded, testset, item)
    counts = ", ".join(f"{count} in {place}" for place, count in removed.items())
    console.print(f"item {item} is removed: {counts}. Run `care run` to write the pages again")
    own_files = ", ".join(still_held(loaded, testset)) or "the source of the test set"
    console.print(f"your own files and backups may still contain item {item}; delete it there yourself: {own_files}")
    labels = loaded.labels_file(testset)
    if labels is not None and item in read_labels(labels).values:
        console.print(f"{labels} still has labels of item {item}, which CARE ignores; delete these rows yourself")


def backup(
    file: Annotated[Path, typer.Argument(help="Tar file to write, on another disk; an existing file is replaced.")],
    workspace: Root = Path(),
) -> None:
    """Copy the workspace into one file: settings, your files, scores and fits, without files that CARE rebuilds."""
    from assets.state.backup import write_backup
    from assets.state.retention import still_held
    from orchestration.locks import locked_workspace
    from warehouse.testsets import resolve

    with locked_workspace(workspace, "care admin backup") as loaded:
        outside: set[str] = set()
        for named in (path for testset in loaded.testsets for path in still_held(loaded, testset)):
            with suppress(InputError):  # a URL, or an environment variable that is not set
                if not (path := resolve(named, loaded.root)).is_relative_to(loaded.root.resolve()):
                    outside.add(str(path))
        files, size = write_backup(loaded, file)
    if outside:
        listed = ", ".join(sorted(outside))
        console.print(f"files outside of {loaded.root} are not in the backup; keep copies of them: {listed}")
    target = f" {shlex.quote(str(loaded.root.resolve().parent))}" if outside else ""
    console.print(
        f"{file} holds {files} files, {size / 2**20:.1f} MiB. `care admin restore {shlex.quote(str(file))}{target} "
        "--check` checks whether it can be restored, and sends no requests to judges"
    )


def restore(
    file: Annotated[Path, typer.Argument(help="File from `care admin backup`.")],
    folder: Annotated[Path | None, typer.Argument(help="Empty folder for the workspace.")] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Test the backup: restore it into a temporary folder (in FOLDER if given), then delete the copy.",
        ),
    ] = False,
) -> None:
    """Restore a workspace from a backup, check each file and rebuild the database; exit with 1 if a file is missing."""
    from assets.state.backup import read_back, unpack
    from orchestration.workspace import load_workspace

    if folder is None and not check:
        raise InputError("nothing was restored: give the folder of the new workspace, or test the backup with --check")
    if check and folder is not None and not folder.is_dir():
        raise InputError(f"{folder} is not a folder; with --check, name a folder that exists, or no folder")
    place = TemporaryDirectory(prefix="care-restore-", dir=folder) if check else nullcontext(str(folder))
    with place as target:
        files = unpack(file, Path(target))
        try:
            rows = read_back(load_workspace(Path(target)))
        except InputError as error:
            raise WarehouseError(
                f"{error}. A backup has only the files in the workspace's folder; copy the other files back yourself"
            ) from None
    show(rows, f"{files} files, all read and checked", as_json=False)
    made = f"{folder} is restored; `care run --workspace {shlex.quote(str(folder))}` continues with it"
    console.print(f"{file} can be restored" if check else made)
