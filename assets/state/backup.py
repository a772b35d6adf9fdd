"""Backups of a workspace in one tar file, without data that CARE can rebuild."""

import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from assets.state.rebuild import rebuild_warehouse
from assets.state.repair import findings
from assets.workspace import Workspace
from care_ops.errors import InputError, WarehouseError, guard
from judges.settings_files import load_yaml
from warehouse.remote.address import INDEX_FOLDER
from warehouse.storage import replacing

REBUILT = ("care.duckdb", "care.duckdb.wal", "report", "dagster", "dagster.tar", INDEX_FOLDER)
"""Entries of the data folder that a backup leaves out, because CARE can rebuild them or they hold no results."""

_OF_KEYS = re.compile(r"\.env(\..*)?|.*\.env")
"""Names of files with API keys, which a backup leaves out."""

_HELD = """
SELECT testset, count(*) AS items,
       (SELECT count(*) FROM scores JOIN items i USING (item_ix) WHERE i.testset = items.testset) AS scores,
       (SELECT max(published_at) FROM published p WHERE p.testset = items.testset) AS published,
       (SELECT count(*) FROM latest_fits f WHERE f.testset = items.testset) AS fits
FROM items GROUP BY testset ORDER BY testset
"""
"""Query for each test set's numbers of rows and published fits, and time of the last publication."""


def write_backup(workspace: Workspace, path: Path) -> tuple[int, int]:
    """Copy a workspace into an uncompressed tar file, atomically; no other process may change the workspace.

    The file contains the folder of care.yaml, except hidden folders and ``.env`` files. Its folder ``data`` contains
    the data folder, except entries that CARE can rebuild. Links are followed. Only the owner may read the file. Returns
    the number of files and bytes.

    Raises ``InputError`` if the folder of the file does not exist, or is one of the copied folders.
    """
    path = path.parent.resolve() / path.name
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is not a folder; create it, or choose another path for the backup")
    copied = [*_files(workspace)]
    linked = {file.parent.resolve() for file, _ in copied}
    if path.parent in linked or any(path.is_relative_to(own.resolve()) for own in (workspace.root, workspace.data)):
        raise InputError(f"{path} is inside the workspace and could be lost with it; name a file on another disk")
    with replacing(path) as temporary:
        temporary.touch(0o600)
        with tarfile.open(temporary, "w", dereference=True) as archive:
            for file, name in copied:
                archive.add(file, arcname=str(name), recursive=False)
    return len(copied), sum(file.stat().st_size for file, _ in copied)


def unpack(path: Path, folder: Path) -> int:
    """Unpack a backup into an empty folder; return the number of files.

    Raises ``InputError``, and unpacks nothing, if the folder is not empty or the file is not a complete backup.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; choose a folder that does not exist yet")
    # A compressed file could expand to a thousand times its size.
    with (
        guard(path, "give the path of a backup of a workspace, an uncompressed tar file"),
        tarfile.open(path, "r:") as archive,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder) as half:
            archive.extractall(half, filter="data")
            assert archive.fileobj is not None
            archive.fileobj.seek(archive.offset)  # `tarfile` accepts a file that is cut off at a header
            if archive.fileobj.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
                raise InputError(f"the backup {path} is incomplete; choose a complete backup of a workspace")
            settings = Path(half) / "care.yaml"
            if not settings.is_file():
                raise InputError(f"{path} does not contain care.yaml; choose a backup of a workspace")
            _keep_data_within(settings)
            for made in Path(half).iterdir():
                made.rename(folder / made.name)
        return len(archive.getnames())


def _keep_data_within(settings: Path) -> None:
    values = load_yaml(settings)
    if values.get("data", "data") != "data":
        wanted = {**values, "data": "data"}
        text = re.sub(r"(?m)^data:.*$", "data: data", settings.read_text(encoding="utf-8"))
        try:
            keeps_comments = yaml.safe_load(text) == wanted
        except yaml.YAMLError:  # the line does not have the usual form
            keeps_comments = False
        settings.write_text(text if keeps_comments else yaml.safe_dump(wanted, sort_keys=False), encoding="utf-8")


def read_back(workspace: Workspace) -> list[dict[str, Any]]:
    """Read every file of an unpacked workspace and rebuild the database; return each test set's row counts.

    Raises ``WarehouseError`` if a file is damaged, scores or labels cannot be read, or a published fit is missing.
    """
    found = findings(workspace, repair=False)
    wrong = [finding.message for finding in found if finding.state == "fails"]
    wrong += [f"judge {judge}: {why}" for judge, why in rebuild_warehouse(workspace).items()]
    wrong += [why for testset in workspace.labels if (why := workspace.unread_labels(testset))]
    with workspace.warehouse.reader() as connection:
        rows = connection.sql(_HELD).to_arrow_table().to_pylist()
    there = {row["testset"] for row in rows if row["fits"] or not row["published"]}
    lost = {*workspace.parts.testsets()} - there
    wrong += [f"test set {name} or its published fit is not in the database" for name in lost]
    if wrong:
        raise WarehouseError(f"this backup is incomplete or damaged ({'; '.join(wrong)}); use another backup")
    return rows


def _files(workspace: Workspace) -> Iterator[tuple[Path, Path]]:
    root, data = workspace.root.absolute(), workspace.data.absolute()
    for file in _below(root, hidden=False):
        if _OF_KEYS.fullmatch(file.name):
            continue
        if not file.is_relative_to(data) and not file.resolve().is_relative_to(data.resolve()):
            yield file, file.relative_to(root)
    for file in _below(data, hidden=True):
        name = file.relative_to(data)
        if name.parts[0] not in REBUILT:
            yield file, Path("data") / name


def _below(folder: Path, *, hidden: bool) -> list[Path]:
    """List the files below a folder and below linked folders; do not follow a link to a parent folder."""
    found: list[Path] = []
    for name, folders, files in os.walk(folder, followlinks=True):
        here = Path(name)
        way = {step.resolve() for step in (here, *here.parents) if step.is_relative_to(folder)}
        folders[:] = [
            inner for inner in folders if (hidden or not inner.startswith(".")) and (here / inner).resolve() not in way
        ]
        found += [path for file in files if (path := here / file).is_file()]
    return sorted(found)
