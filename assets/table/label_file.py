"""CSV file for collecting labels: the items to label, and the labels entered so far.

``read_labels`` can read the file. An unlabelled item has an empty label; a skipped item has an empty label and a time.
Every change locks the file, reads all rows again and replaces the file atomically. No label is lost if the process is
killed, two people label simultaneously, or a person edits the file meanwhile.
"""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Container, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from pathlib import Path

from assets.labels import read_labels
from care_ops.errors import InputError, counted, guard
from care_ops.labels import Label
from warehouse.items import ItemRecord
from warehouse.sources.bounds import within_memory
from warehouse.spreadsheets import as_meant, csv_of
from warehouse.storage import replacing

_TEXTS = ("prompt", "aspect", "reference", "response", "response_2")


def texts_of(item: ItemRecord) -> dict[str, str]:
    """Return the texts of an item that a rater sees, without scores and systems."""
    return {name: text for name in _TEXTS if (text := getattr(item, name))}


def blinded(item_id: str) -> str:
    """Return the item id that a rater sees: the id itself, or a code if the id would reveal the system."""
    return f"item-{blake2b(item_id.encode(), digest_size=6).hexdigest()}" if " / " in item_id else item_id


@dataclass(frozen=True)
class LabelRow:
    """Row of a label file: an item, its label, and how the item was drawn. All fields are strings, as in the file."""

    item_id: str
    label: str = ""
    drawn: str = "random"
    probability: str = ""
    rater: str = ""
    labelled_at: str = ""

    @property
    def waits(self) -> bool:
        """Whether the item is neither labelled nor skipped."""
        return not self.label and not self.labelled_at

    @property
    def skipped(self) -> bool:
        """Whether a person skipped the item."""
        return not self.label and bool(self.labelled_at)


COLUMNS = tuple(field.name for field in fields(LabelRow))


@dataclass
class LabelFile:
    """File of labels; every change of a row rewrites the file."""

    path: Path
    rows: list[LabelRow]

    @classmethod
    def read(cls, path: Path) -> LabelFile:
        """Read a label file; a file that does not exist yet has no rows.

        Raises ``InputError`` if the file has other columns, or labels that ``read_labels`` rejects.
        """
        if not path.exists():
            return cls(path, [])
        remedy = "save it as CSV in UTF-8, or name another file with --out"
        with guard(path, remedy), within_memory(path), path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if not {*COLUMNS[:3]} <= {*(reader.fieldnames or ())} <= {*COLUMNS}:
                raise InputError(
                    f"{path} is not a label file: it has the columns {', '.join(reader.fieldnames or ())}, but needs "
                    f"{', '.join(COLUMNS[:3])}, and may have {', '.join(COLUMNS[3:])}; name another file with --out"
                )
            rows = [LabelRow(**{name: as_meant(row.get(name) or "") for name in COLUMNS}) for row in reader]
        if rows:
            read_labels(path)
        return cls(path, rows)

    @contextmanager
    def locked(self) -> Generator[None]:
        """Lock the file, and read the rows that other sessions have written.

        If the system cannot lock folders, one of two changes within a few milliseconds may be lost.
        """
        with ExitStack() as until_done:
            with suppress(ImportError, OSError):  # Windows and some network file systems have no such locks
                import fcntl

                folders = Path(os.path.realpath(self.path)).parents
                descriptor = os.open(next(filter(Path.is_dir, folders)), os.O_RDONLY)
                until_done.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            self.rows = LabelFile.read(self.path).rows or self.rows
            yield

    def write(self) -> None:
        """Write all rows atomically; keep symbolic links and the file's permissions."""
        target = Path(os.path.realpath(self.path))
        with replacing(target) as temporary:
            temporary.touch(0o600 if target.is_file() else 0o666)
            temporary.write_bytes(csv_of(COLUMNS, [[getattr(row, name) for name in COLUMNS] for row in self.rows]))
            if target.is_file():
                shutil.copymode(target, temporary)

    def change(self, k: int, row: LabelRow) -> None:
        """Replace a row and write the file; keep a label that another session has added meanwhile."""
        before = self.rows[k]
        with self.locked():
            places = [j for j, other in enumerate(self.rows) if other == before]
            if row.label:
                empty = (j for j, other in enumerate(self.rows) if other.item_id == row.item_id and not other.label)
                places += [*empty, len(self.rows)]
            if places:
                self.rows[places[0] : places[0] + 1] = [row]
            self.write()

    def refuse_unknown(self, items: Container[str]) -> None:
        """Raise ``InputError`` if any row's item is not in ``items``."""
        unknown = next((row.item_id for row in self.rows if row.item_id not in items), None)
        if unknown is not None:
            raise InputError(
                f"{self.path}: item {unknown!r} is not in the table of items; name another file with --out"
            )

    def merge(self, labels: Sequence[Label], rater: str, moment: str) -> tuple[int, int]:
        """Add labels to unlabelled rows, or as second labels; call this only while the file is ``locked``.

        ``rater`` and ``moment`` are used for labels without a rater or a time. A label that the same rater has already
        given is not added again. Returns the number of rows that got a label, and the number of second labels. Raises
        ``InputError``, and merges nothing, if an item is not among the rows.
        """
        known = {shown: row.item_id for row in self.rows for shown in (row.item_id, blinded(row.item_id))}
        unknown = [label.item_id for label in labels if label.item_id not in known]
        if unknown:
            raise InputError(
                f"no label added: {self.path} lacks {counted(len(unknown), 'item')}, such as {unknown[0]!r}; "
                "export the items of the label file (`care label --export FILE`), and fill in the column `label`"
            )
        filled = repeated = 0
        for label in labels:
            mine = [k for k, row in enumerate(self.rows) if row.item_id == known[label.item_id]]
            open_row = next((k for k in mine if not self.rows[k].label), None)
            how, who = self.rows[mine[0]], label.rater or rater
            merged = replace(how, label=f"{label.value:g}", rater=who, labelled_at=label.labelled_at or moment)
            alike = [self.rows[k] for k in mine if (self.rows[k].label, self.rows[k].rater) == (merged.label, who)]
            if any(row.labelled_at == merged.labelled_at for row in alike):
                continue  # the label was merged before
            if open_row is not None:
                self.rows[open_row] = merged
                filled += 1
            elif not alike:
                self.rows.append(merged)
                repeated += 1
        self.write()
        return filled, repeated


def exported(path: Path, rows: Sequence[LabelRow], items: Mapping[str, ItemRecord]) -> bytes:
    """Return the unlabelled rows and their texts as a CSV file in which a person fills in ``label``.

    Raises ``InputError`` if the name of the file does not end in .csv.
    """
    if path.suffix.lower() != ".csv":
        raise InputError(f"{path}: items are exported as CSV; use a name that ends in .csv")
    texts = [texts_of(items[row.item_id]) for row in rows]
    seen = [name for name in _TEXTS if any(name in shown for shown in texts)]
    lines = [
        [blinded(row.item_id), *(shown.get(name, "") for name in seen), "", row.drawn, row.probability]
        for row, shown in zip(rows, texts, strict=True)
    ]
    # Without the byte order mark, Excel assumes another encoding.
    return b"\xef\xbb\xbf" + csv_of(["item_id", *seen, "label", "drawn", "probability"], lines)
