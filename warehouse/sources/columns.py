"""Functions that determine the role of each table column from the user's options and the column's name and content.

CARE records every decision (``reading``) and shows it to the user. Comparisons of names ignore case, spaces,
underscores, hyphens, dots and colons: ``Item ID`` equals ``item_id``.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from care_ops.errors import InputError
from warehouse.conversations import NAMES as CONVERSATIONS
from warehouse.sources.input_table import InputTable
from warehouse.sources.numbers import (
    HOW_TO_ORDER,
    WORD_EXAMPLES,
    holds_grades,
    holds_numbers,
    holds_words,
)
from warehouse.sources.reading import LeftOut, listed
from warehouse.sources.values import is_text
from warehouse.testsets import ItemColumns, ScoreColumns

# Synonyms for the name of a column; the usual name comes first.
ITEM = (
    *("item_id", "item", "id", "example_id", "sample_id", "instance_id", "document_id", "doc_id", "uid", "uuid"),
    *("test_case", "test_case_id"),
)
JUDGE = (
    *("judge", "judge_id", "judge_name", "judge_model", "rater", "rater_id", "annotator", "annotator_id"),
    *("grader", "evaluator", "scorer", "worker", "worker_id"),
)
_PAIR = ("pair_id", "comparison_id", "battle_id")
_QUESTION = ("question_id", "prompt_id", "query_id", "task_id", "conversation_id")
"""Common names for columns that identify items if there is no column with a name in ``ITEM``."""
SCORE = ("score", "rating", "grade", "points", "mark", "judgment", "judgement", "value")
_CHOICE = ("winner", "preference", "preferred", "vote")
"""Common names for columns that contain scores if there is no column with a name in ``SCORE``."""
LABEL = (
    *("label", "labels", "gold", "gold_label", "gold_score", "gold_standard", "target", "truth", "ground_truth"),
    *("true_label", "y_true", "human", "human_label", "human_score", "human_rating", "correct", "is_correct"),
)
LABEL_COLUMNS = {
    "drawn": ("drawn",),
    "probability": ("probability", "chance"),
    "rater": ("rater",),
    "labelled_at": ("labelled_at", "labeled_at"),
}
"""Common names for the optional columns of a table of labels, by role."""
FAMILY = ("family", "base_model", "vendor", "provider")

# Names of columns that are not judges.
_INDEX = ("index", "level_0", "row", "row_number", "row_id", "row_nr", "nr", "number", "#", "")
_SIZES = (
    *("length", "len", "response_length", "answer_length", "prompt_length", "text_length", "size"),
    *("chars", "n_chars", "num_chars", "char_count", "characters", "words", "n_words", "num_words", "word_count"),
    *("tokens", "n_tokens", "num_tokens", "token_count", "tokens_in", "tokens_out", "latency", "latency_ms", "cost"),
    *("duration", "seconds"),
)
_DATES = ("date", "datetime", "time", "timestamp", "created_at", "updated_at", "year", "month", "day")
_BOOKKEEPING = ("fold", "split", "seed", "epoch", "run", "batch", "version", "turn", "repeat", "trial", "attempt")
_AGGREGATES = ("mean", "avg", "average", "median", "sum", "total", "mean_score", "avg_score", "average_score", "std")
TEXTS = {
    "prompt": ("prompt", "question", "instruction", "query", "input"),
    "response": ("response", "answer", "output", "completion", "generation", "text", *CONVERSATIONS),
}
"""Common column names for an item's texts, by item field."""

_MORE_TEXTS = {
    "prompt": re.compile("(text|user)?(prompt|question|instruction|query|input|message)(text)?"),
    "response": re.compile(
        "(text|model|llm|assistant|bot|generated)?(response|answer|output|completion|generat(ion|ed)|reply|prediction)(text)?"
    ),
}
"""Patterns of further names of text columns in an item table without a response column, by item field."""

_ANSWERS = ("response", "answer", "output", "conversation", "messages")
_PAIRS = tuple((f"{name}_{left}", f"{name}_{right}") for name in _ANSWERS for left, right in ("ab", "12"))
"""Common names for the columns with the left and the right answer of a pair."""

_TEXTS = (*TEXTS["prompt"], *TEXTS["response"], "reference")
HOLDS_TEXT = "holds text"
"""Reason, for messages, why a column of texts is left out."""

HOLDS_WORDS = "holds words, but judges' columns hold numbers; to use it, list all judges, each with --judge"
_UNNAMED = re.compile(r"^(Unnamed: \d+|unnamed column \d+|__index_level_\d+__)$")
_COUNTED_ROWS = 10
"""In a table with more rows than this, a column of consecutive whole numbers contains row numbers, not scores."""


ScoreLayout = tuple[str | None, str | None, str | None]
"""Names of the item, judge and score columns of a table of scores; the last two are None for a wide table."""


@lru_cache(maxsize=4096)  # score files of a workspace repeat the same column names
def plain(name: str) -> str:
    """Normalize a name for comparisons: convert it to lower case, and remove spaces and punctuation."""
    return re.sub(r"[\s_.\-:]+", "", name).casefold()


def find(where: str, names: Sequence[str], synonyms: Sequence[str], remedy: str | None = None) -> str | None:
    """Return the column whose name matches one of ``synonyms`` (the first has precedence); None if none matches.

    Raises ``InputError`` if several columns match. The message begins with ``where``, such as the path of the file, and
    ends with ``remedy``; by default, to rename one of the columns.
    """
    usual = synonyms[0]
    if usual in names:
        return usual
    for wanted in ([usual], synonyms):
        candidates = [name for name in names if is_called(name, wanted)]
        if len(candidates) > 1:
            several = listed([repr(name) for name in candidates])
            remedy = remedy or f"rename one of them to {usual}"
            raise InputError(f"{where}: several columns match the name {usual}: {several}; {remedy}")
        if candidates:
            return candidates[0]
    return None


def split_item(names: Sequence[str], item: str) -> tuple[str, ...]:
    """Split ``item`` at commas into the names of the columns that together identify an item."""
    return (item,) if item in names else tuple(name.strip() for name in item.split(","))


def is_score(name: str) -> bool:
    """Return whether the name of a column suggests scores."""
    return is_called(name, (*SCORE, *_CHOICE))


def named(where: str, names: Sequence[str], column: str) -> str:
    """Return ``column`` if the table has a column with this name; otherwise raise ``InputError``."""
    if column not in names:
        raise InputError(f"{where}: no column {column!r}; choose one of {listed([repr(n) for n in names], 40)}")
    return column


def item_column(where: str, names: Sequence[str], wanted: str | None = None) -> str | None:
    """Return the column of item ids: the column ``wanted`` or, by default, a column whose name suggests ids.

    ``wanted`` may be several columns, separated by commas. Returns None if ``wanted`` is None and no name suggests ids.
    """
    if wanted is not None:
        return ",".join(named(where, names, name) for name in split_item(names, wanted))
    remedy = "choose one column with --item (columns.item_id in a workspace)"
    return next((found for each in (ITEM, _PAIR, _QUESTION) if (found := find(where, names, each, remedy))), None)


def needed(input_table: InputTable, synonyms: Sequence[str], shape: str) -> str:
    """Return the column that matches a synonym; otherwise raise ``InputError`` with the explanation ``shape``."""
    column = find(input_table.name, input_table.names, synonyms)
    if column is None:
        raise InputError(
            f"{input_table.name}: no column {synonyms[0]!r}; {shape}, so rename one of the columns "
            f"{listed([repr(name) for name in input_table.names], 40)}"
        )
    return column


def item_fields(
    where: str, names: Sequence[str], item: str, columns: ItemColumns | None, drop: Sequence[str]
) -> dict[str, str]:
    """Return a mapping from each field of an item, except the id, to the name of its column.

    By default, a field is read from the column with the field's name. If prompt and response both lack a column,
    CARE also accepts synonyms, such as ``question`` and ``answer``.
    """
    named_columns = (columns or ItemColumns()).model_dump(exclude={"item_id"}, exclude_none=True)
    fields = {f: named(where, names, c) for f, c in named_columns.items()}
    free = {name for name in names if name not in (item, *drop, *fields.values())}
    fields |= {f: f for f in ItemColumns.model_fields if f in free and f not in fields}
    pair = next((pair for pair in _PAIRS if free.issuperset(pair)), None)
    if pair is not None and "response" not in fields:
        fields["response"], fields["response_2"] = pair
    for role, synonyms in TEXTS.items() if pair is not None or not fields.keys() & {"prompt", "response"} else ():
        usual = [c for name in synonyms for c in names if c in free and is_called(c, (name,))]
        if usual:
            fields.setdefault(role, usual[0])
    if "response_2" in fields and "response" not in fields:
        raise InputError(
            f"{where}: column {fields['response_2']!r} contains the second texts of pairs, but no column has the first "
            "texts; rename the column of the first texts to response"
        )
    return fields


def more_texts(table: pa.Table, free: Sequence[str], assigned: Collection[str]) -> dict[str, str]:
    """Map fields without a column to text columns with names in ``_MORE_TEXTS``; {} if the response has a column."""
    texts: dict[str, list[str]] = {}
    for role, usual in _MORE_TEXTS.items() if "response" not in assigned else ():
        named_so = [name for name in free if role not in assigned and usual.fullmatch(plain(name))]
        texts[role] = [name for name in named_so if why_no_judge(name, table.column(name)) == HOLDS_TEXT]
    return {role: names[0] for role, names in texts.items() if len(names) == 1}


def names_text(name: str) -> bool:
    """Return whether the name of a column suggests an item's text."""
    usual = (*_TEXTS, *(side for pair in _PAIRS for side in pair))
    return is_called(name, usual) or any(pattern.fullmatch(plain(name)) for pattern in _MORE_TEXTS.values())


def score_layout(where: str, names: Sequence[str], columns: ScoreColumns) -> ScoreLayout:
    """Determine from the column names whether a table of scores is long or wide.

    Raises ``InputError`` if the table lacks a column that the user named or that a long table needs.
    """
    given = columns.model_fields_set
    item = item_column(where, names, columns.item_id if "item_id" in given else None)
    if columns.judge_columns:
        return item, None, None

    def chosen(role: str, taken: Collection[str | None], *synonyms: Sequence[str]) -> str | None:
        if role in given:
            return named(where, names, getattr(columns, role))
        others = [name for name in names if name not in taken]
        remedy = f"choose one column with --{role} (columns.{role} in a workspace)"
        return next((found for usual in synonyms if (found := find(where, others, usual, remedy))), None)

    own = {item} if item is None else set(split_item(names, item))
    judge = chosen("judge", own, JUDGE)
    if judge is None and "score" not in given:
        return item, None, None
    score = chosen("score", {*own, judge}, SCORE, _CHOICE)
    if judge is not None and score is not None:
        return item, judge, score
    if not given & {"judge", "score"}:
        return item, None, None
    raise InputError(
        f"{where}: {_long_without(names, judge)}; the columns are {listed([repr(name) for name in names], 40)}"
    )


def _long_without(names: Sequence[str], judge: str | None) -> str:
    if judge is None:
        return (
            f"each row is one judge's score, but no column is called judge or a synonym ({listed(JUDGE[1:], 20)}); "
            "choose the column of judges with --judge (columns.judge in a workspace)"
        )
    return (
        f"{judge!r} contains the judge of each row, but no column is called score or a synonym "
        f"({listed(SCORE[1:], 20)}); choose the column of scores with --score (columns.score in a workspace); if each "
        "judge has a column, list all judges, each with --judge (columns.judge_columns)"
    )


def item_or_index(input_table: InputTable, item: str | None) -> str:
    """Return ``item``; if it is None, return the only index column whose values are not row numbers.

    Raises ``InputError`` if ``item`` is None and the table has no such index column, or several.
    """
    if item is not None:
        return item
    candidates = [
        n for n in input_table.names if is_index(n) and not _counts_rows(input_table.table.column(n), minimum=0)
    ]
    if len(candidates) == 1:
        return candidates[0]
    raise InputError(
        f"{input_table.name}: no column is called item_id or a synonym ({listed(ITEM[1:], 20)}); set --item "
        f"(columns.item_id in a workspace) to one of the columns {listed([*map(repr, input_table.names)], 40)}"
    )


def judge_columns(
    input_table: InputTable, item: str, columns: ScoreColumns, order: Sequence[str] = ()
) -> tuple[list[str], list[LeftOut]]:
    """Return the judge columns of a wide table, and each other column with the reason why it is left out.

    ``order`` lists words that are grades, in ascending order. Raises ``InputError`` if a column that the user named is
    missing, the table is a long table without a score column, or no column contains a judge's scores.
    """
    others = [name for name in input_table.names if name not in (item, *item.split(","))]
    if columns.judge_columns:
        judges = [named(input_table.name, others, name) for name in columns.judge_columns]
        return judges, [LeftOut(name, "not a judge that you named") for name in others if name not in judges]
    for name in columns.drop:
        named(input_table.name, others, name)
    kept = [name for name in others if name not in columns.drop]
    judge_names = [name for name in kept if is_called(name, JUDGE) and is_text(input_table.table.column(name).type)]
    if judge_names:
        raise InputError(
            f"{input_table.name}: {_long_without(input_table.names, judge_names[0])}; the columns are "
            f"{listed(input_table.names, 40)}"
        )
    table = input_table.table.select(others)
    reasons = {name: why_no_judge(name, table.column(name), columns.drop, order) for name in others}
    judges = [name for name, why in reasons.items() if why is None]
    texts = [name for name in judges if is_text(table.column(name).type)]
    worded = [n for n in texts if holds_words(table.column(n)) and not holds_grades(table.column(n), order)]
    if len(worded) < len(judges):  # otherwise a yes/no column that describes the items would be read as a judge
        reasons |= dict.fromkeys(worded, HOLDS_WORDS)
        judges = [name for name in judges if name not in worded]
    left_out = [LeftOut(name, why) for name, why in reasons.items() if why is not None]
    if not judges:
        reasons_listed = listed([f"{left.column!r} is left out ({left.why})" for left in left_out])
        raise InputError(
            f"{input_table.name}: no column has judge scores{': ' if reasons_listed else ''}{reasons_listed}; "
            f"give each judge a column of numbers, or of words such as {WORD_EXAMPLES}; {HOW_TO_ORDER}; to use a "
            "column left out by name, list all judges, each with --judge (columns.judge_columns in a workspace)"
        )
    return judges, left_out


def why_no_judge(
    name: str, column: pa.ChunkedArray, drop: Collection[str] = (), order: Sequence[str] = ()
) -> str | None:
    """Return the reason why a column of a wide table is left out, or None if it contains a judge's scores."""
    if name in drop:
        return "as you asked"
    kind = column.type
    by_name = _why_by_name(name)
    if by_name is not None:
        return by_name
    if pa.types.is_nested(kind):
        return HOLDS_TEXT if is_called(name, _TEXTS) else "holds nested data; make each field a column"
    if pa.types.is_temporal(kind):
        return "holds dates or times"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "holds bytes"
    has_scores = not is_text(kind) or holds_numbers(column) or holds_words(column) or holds_grades(column, order)
    if not has_scores or (is_text(kind) and is_called(name, _TEXTS)):
        return HOLDS_TEXT
    if not is_text(kind) and _counts_rows(column, minimum=_COUNTED_ROWS):
        return "contains row numbers"
    return None


def perhaps_judges(left_out: Sequence[LeftOut]) -> tuple[LeftOut, ...]:
    """Return the text columns that were left out only because of their content."""
    return tuple(x for x in left_out if x.why in (HOLDS_TEXT, HOLDS_WORDS) and not is_called(x.column, _TEXTS))


def _why_by_name(name: str) -> str | None:
    if _UNNAMED.match(name):
        return "no name; treated as an index"
    if is_index(name):
        return "its name suggests an index"
    for what, names in (
        ("its name suggests a label; the fit does not use it", LABEL),
        ("its name suggests an id", ITEM),
        ("its name suggests a size or a cost", _SIZES),
        ("its name suggests a date or time", _DATES),
        ("its name suggests run metadata, such as a seed or an epoch", _BOOKKEEPING),
        ("its name suggests an aggregate, such as a mean", _AGGREGATES),
    ):
        if is_called(name, names):
            return what
    if re.search(r"([_\s.\-]id|[a-z]I[dD])$", name, re.ASCII):
        return "its name suggests an id"
    return None


def is_called(name: str, synonyms: Sequence[str]) -> bool:
    """Return whether a name equals one of the synonyms; case, spaces and punctuation are ignored."""
    return plain(name) in _plain_forms(tuple(synonyms))


@lru_cache(maxsize=128)
def _plain_forms(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(plain, names))


def is_index(name: str) -> bool:
    """Return whether the name of a column suggests an index."""
    return _UNNAMED.match(name) is not None or is_called(name, _INDEX)


def _counts_rows(column: pa.ChunkedArray, minimum: int) -> bool:
    """Return whether a column has more than ``minimum`` rows and contains consecutive whole numbers."""
    if is_text(column.type):  # an index is read as text, because it may hold item ids
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid:
            return False
    if len(column) <= minimum or column.null_count or not pa.types.is_integer(column.type):
        return False
    return bool((np.diff(column.to_numpy()) == 1).all())
