"""Reads a table of judges' scores of probes: item_id, of, kind, judge, score, and effect where a kind is one's own."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from care_ops.errors import InputError
from care_ops.scores import ScoreMatrix
from warehouse.probes import KINDS
from warehouse.sources.columns import ITEM, JUDGE, SCORE, find
from warehouse.sources.files import needed
from warehouse.sources.input_table import InputTable, WantedColumns
from warehouse.sources.reading import Reading
from warehouse.sources.tables import TableSource, read_input_table
from warehouse.sources.values import as_texts, identifiers, numbers
from warehouse.testsets import ReadingOptions

_SHAPE = "scores of probes are a table of item_id, of, kind, judge, score"
_EFFECTS = ("keeps", "spoils")


def read_probe_scores(
    source: TableSource, panel: ScoreMatrix, options: ReadingOptions
) -> tuple[dict[str, tuple[str, str, bool]], ScoreMatrix, Reading]:
    """Read what judges say of probes.

    Returns for each version's id of which item it is, its kind, and whether it spoils; the scores, NaN where a judge
    did not score a version; and how the table was read, by the panel's own ``options``.

    ``panel`` has the scores of the originals, and must know every item and every judge of the table. Raises
    ``InputError``, which says where, if a column is missing, a row is of no declared kind, two rows contradict each
    other, or an item or a judge is not on the panel.
    """
    score = partial(find, "probes", synonyms=SCORE, option="its usual name")
    table = read_input_table(source, lambda names: WantedColumns(frozenset(names) - {score(names=names)}), options)
    columns = {name: needed(table, synonyms, _SHAPE) for name, synonyms in _COLUMNS.items()}
    ids, of, kinds, judges = (as_texts(identifiers(table, columns[n])) for n in ("item_id", "of", "kind", "judge"))
    graded = float(np.nanmax(panel.values)) > 1
    values, notes = numbers(table, [columns["score"]], options.decimal, read_words=not graded, order=options.grades)
    spoils = _effects(table, kinds)
    _must_be_known(table, of, panel.item_ids, "item")
    _must_be_known(table, judges, panel.judges, "judge")
    versions: dict[str, tuple[str, str, bool]] = {}
    position = {judge: j for j, judge in enumerate(dict.fromkeys(judges))}
    row_of = {item_id: k for k, item_id in enumerate(dict.fromkeys(ids))}
    matrix = np.full((len(row_of), len(position)), np.nan)
    seen: dict[tuple[str, str], int] = {}
    for row, (item_id, judge) in enumerate(zip(ids, judges, strict=True)):
        version = (of[row], kinds[row], spoils[row])
        if versions.setdefault(item_id, version) != version:
            raise InputError(
                f"{table.name}: {table.locate([row])[0]} says that {item_id!r} is of {of[row]!r} and kind "
                f"{kinds[row]!r}, an earlier line says otherwise; give each version an id of its own"
            )
        first = seen.setdefault((item_id, judge), row)
        if first != row:
            places = " and ".join(table.locate([first, row]))
            raise InputError(f"{table.name}: judge {judge!r} scores {item_id!r} twice ({places}); keep one")
        matrix[row_of[item_id], position[judge]] = values[row, 0]
    reading = Reading(table.name, table.parser, len(ids), None, columns, tuple(position), (), (*table.notes, *notes))
    return versions, ScoreMatrix(matrix, tuple(row_of), tuple(position)), reading


_COLUMNS: dict[str, Sequence[str]] = {"item_id": ITEM, "of": ("of",), "kind": ("kind",), "judge": JUDGE, "score": SCORE}


def _effects(table: InputTable, kinds: Sequence[str]) -> list[bool]:
    """Whether the kind of each row spoils: as the table's column ``effect`` says, or else as the kind itself does."""
    declared: Sequence[str | None] = [None] * len(kinds)
    if "effect" in table.names:
        declared = [None if value is None else str(value) for value in table.table.column("effect").to_pylist()]
    spoils: list[bool] = []
    for row, (kind, effect) in enumerate(zip(kinds, declared, strict=True)):
        if effect is not None and effect not in _EFFECTS:
            raise InputError(f"{table.name}: effect is {table.cells([row], [effect])}; write keeps or spoils")
        if effect is None and kind not in KINDS:
            raise InputError(
                f"{table.name}: kind is {table.cells([row], [kind])}, which is none of {', '.join(KINDS)}; for a kind "
                "of your own add a column effect, with keeps or spoils in each row"
            )
        spoils.append((effect or KINDS[kind].effect) == "spoils")
    return spoils


def _must_be_known(table: InputTable, names: Sequence[str], known: Sequence[str], what: str) -> None:
    on_panel = set(known)
    rows = [row for row, name in enumerate(names) if name not in on_panel]
    if rows:
        cells = table.cells(rows, [names[row] for row in rows])
        raise InputError(f"{table.name}: {what} not among the scores: {cells}; correct the name, or leave the row out")
