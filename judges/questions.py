"""Questions to a judge about a test set: its pending items, where items with equal texts are one question.

Only ids, keys and lengths of a long test set are in memory. Its texts are read in chunks when they are needed.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import groupby, islice, takewhile
from math import ceil
from typing import NamedTuple, TypeVar
from zlib import crc32

from judges.items import TEXTS, Item, Score
from judges.spec import JudgeSpec

T = TypeVar("T")

_CHARACTERS_AT_ONCE = 8 * 2**20
"""Total length of the texts in memory; a smaller one needs more passes over the file, a larger one more memory."""

_CHARACTERS_COMPARED = 128
"""Number of first characters of an item's texts by which items are sorted."""

_BEGINNINGS = tuple(2**power for power in range(8, 17))
"""Lengths of longer beginnings; their checksums sort items with the same first characters."""


class ItemSource(ABC):
    """Items with texts that can be read again at any time; sequences have the order of the source.

    Attributes
    ----------
    ids, keys, text_keys : sequence of str
        See ``Item``.
    lengths : sequence of int
        Total characters of each item's texts.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.keys: list[str] = []
        self.text_keys: list[str] = []
        self.lengths: list[int] = []
        for item in self:
            self.ids.append(item.item_id)
            self.keys.append(item.key)
            self.text_keys.append(item.text_key)
            self.lengths.append(sum(len(text) for text in item.texts if text is not None))

    @cached_property
    def by_text(self) -> Sequence[int]:
        """The positions of all items, as ``in_order_of_texts`` sorts them."""
        return in_order_of_texts(self)

    @abstractmethod
    def __iter__(self) -> Iterator[Item]:
        """Iterate over every item."""

    @abstractmethod
    def read(self, positions: Sequence[int]) -> list[Item]:
        """Read the items at these positions, in the order of ``positions``."""


class ItemsInMemory(ItemSource):
    """A source of items in memory."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        super().__init__()

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def read(self, positions: Sequence[int]) -> list[Item]:
        return [self._items[position] for position in positions]


class Question(NamedTuple):
    """Items with equal texts, which a judge scores once.

    Attributes
    ----------
    item : Item
        The item that the judge is shown.
    members : list of (id, key)
        All items that get its score, including ``item``.
    """

    item: Item
    members: list[tuple[str, str]]


class Questions:
    """Questions to a judge about the items of a source whose keys are not ``settled``.

    The questions to a language model are sorted so that successive prompts share a long beginning, which the model's
    prefix cache then holds.
    """

    def __init__(self, source: ItemSource, spec: JudgeSpec, settled: Collection[str] = ()) -> None:
        self._source = source
        pending = [key not in settled for key in source.keys]
        order = source.by_text if spec.engine.needs.template and any(pending) else range(len(pending))
        groups: dict[str, list[int]] = {}
        for position in order:
            if pending[position]:
                groups.setdefault(source.text_keys[position], []).append(position)
        self._groups = list(groups.values())
        self.items = sum(pending)

    def __len__(self) -> int:
        return len(self._groups)

    def batches(self, size: int, unread: Collection[str] | None = None) -> Iterator[list[Question]]:
        """Yield the questions in batches of this size; each batch is read when it is needed.

        With ``unread``, neighbours that differ only in these texts are in one batch, because they give one prompt.
        """
        runs = [iter(self)] if unread is None else (run for _, run in groupby(self, partial(_shown, unread)))
        for run in runs:
            while batch := list(islice(run, size)):
                yield batch

    def __iter__(self) -> Iterator[Question]:
        ids, keys = self._source.ids, self._source.keys
        lengths = self._source.lengths
        for chunk in in_chunks(self._groups, lambda group: lengths[group[0]]):
            shown = self._source.read([group[0] for group in chunk])[::-1]
            for group in chunk:
                yield Question(shown.pop(), [(ids[position], keys[position]) for position in group])


class Batches:
    """Questions in batches that are read one by one; sent questions are kept until they are answered.

    No further batch is started if the judge is ``down`` or ``has_ended`` returns True.
    """

    def __init__(self, questions: Questions, size: int, has_ended: Callable[[], bool]) -> None:
        self.questions, self._size, self._has_ended = questions, size, has_ended
        self._unanswered: dict[str, Question] = {}
        self.down = False

    def __len__(self) -> int:
        return ceil(len(self.questions) / self._size)

    def __iter__(self) -> Iterator[list[Item]]:
        return self._read()

    def _read(self, unread: Collection[str] | None = None) -> Iterator[list[Item]]:
        for batch in self.questions.batches(self._size, unread):
            self._unanswered.update((question.item.key, question) for question in batch)
            yield [question.item for question in batch]

    @property
    def stopped(self) -> bool:
        """Whether no further batch should be started."""
        return self.down or self._has_ended()

    def until_stopped(self, unread: Collection[str] | None = None) -> Iterator[list[Item]]:
        """Yield the batches of ``Questions.batches`` until the judge is stopped."""
        return takewhile(lambda _: not self.stopped, self._read(unread))

    def one_by_one(self) -> Iterator[list[Item]]:
        """Yield all batches; unanswered questions of a batch are dropped when the next batch is read."""
        for batch in self.questions.batches(self._size):
            self._unanswered = {question.item.key: question for question in batch}
            yield [question.item for question in batch]

    def members(self, item: Item) -> int:
        """Return the number of items that a question is about."""
        return len(self._unanswered[item.key].members)

    def of_items(self, scores: Sequence[Score]) -> list[Score]:
        """Return the scores of all items from one score for each question."""
        return [score.of(*member) for score in scores for member in self._unanswered[score.item_key].members]

    def forget(self, scores: Sequence[Score]) -> None:
        """Drop the questions that these scores answer."""
        for score in scores:
            del self._unanswered[score.item_key]


def _shown(unread: Collection[str], question: Question) -> list[str | None]:
    """Return an item's texts without those that no prompt shows."""
    item = question.item
    return [getattr(item, name) for name in TEXTS if name not in unread]


def in_chunks(wanted: Iterable[T], length_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Split ``wanted`` into chunks whose texts fit into memory; ``length_of`` returns the characters of an element."""
    chunk: list[T] = []
    characters = 0
    for one in wanted:
        characters += length_of(one)
        if chunk and characters > _CHARACTERS_AT_ONCE:
            yield chunk
            chunk, characters = [], length_of(one)
        chunk.append(one)
    if chunk:
        yield chunk


def in_order_of_texts(items: Iterable[Item]) -> list[int]:
    """Return the positions of all items in an order in which neighbours share long beginnings.

    Only short data of each item are kept, so a long test set can be read from a file item by item. In real sets,
    successive texts share within 1 % as much as after a full sort.
    """
    kept = [_beginnings(item) for item in items]
    return sorted(range(len(kept)), key=kept.__getitem__)


def _beginnings(item: Item) -> tuple[str, bytes]:
    """Return the first characters of an item's texts, and checksums of longer beginnings."""
    text = "\0".join(text or "" for text in item.texts)
    checksums: list[int] = []
    start, checksum = 0, 0
    for end in _BEGINNINGS:
        checksum = crc32(text[start:end].encode("utf-8", "surrogatepass"), checksum)
        checksums.append(checksum)
        start = end
    return text[:_CHARACTERS_COMPARED], struct.pack(f">{len(checksums)}I", *checksums)
