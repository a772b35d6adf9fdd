"""Questions to a judge about the pending items of a test set, with one question for all items with equal texts.

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
"""Maximum number of characters in memory; a smaller number needs more passes over the file."""

_CHARACTERS_COMPARED = 128
"""Number of characters at the beginning of an item's texts by which items are sorted."""

_BEGINNINGS = tuple(2**power for power in range(8, 17))
"""Lengths of longer beginnings, whose checksums sort items with the same first characters."""


class ItemSource(ABC):
    """Base class of sources of items, whose texts can be read again at any time.

    Attributes
    ----------
    ids, keys, text_keys : sequence of str
        Ids and content keys of the items, as in ``Item``, in the order of the source.
    lengths : sequence of int
        Total number of characters of each item's texts.
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
        """Positions of all items, in the order of ``in_order_of_texts``."""
        return in_order_of_texts(self)

    @abstractmethod
    def __iter__(self) -> Iterator[Item]:
        """Yield every item, in the order of the source."""

    @abstractmethod
    def read(self, positions: Sequence[int]) -> list[Item]:
        """Return the items at the given positions, in the order of ``positions``."""


class ItemsInMemory(ItemSource):
    """Source of items that are in memory."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        super().__init__()

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def read(self, positions: Sequence[int]) -> list[Item]:
        return [self._items[position] for position in positions]


class Question(NamedTuple):
    """Question to a judge about all items with equal texts, which the judge scores once.

    Attributes
    ----------
    item : Item
        The item that the judge is shown.
    members : list of (id, key)
        All items that get the score of ``item``, including ``item``.
    """

    item: Item
    members: list[tuple[str, str]]


class Questions:
    """Questions to a judge about the pending items of a source, whose keys are not ``settled``.

    Questions to a language model are sorted by text, because successive prompts with a long common beginning use the
    model's prefix cache.
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
        """Yield the questions in batches of at most ``size``, each of which is read when it is needed.

        With ``unread``, a batch has only neighbours that differ in no other texts, because they give the same prompt.
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
    """Batches of questions, which are read one by one; each sent question is kept until it is answered.

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
        """Whether the judge must start no further batch."""
        return self.down or self._has_ended()

    def until_stopped(self, unread: Collection[str] | None = None) -> Iterator[list[Item]]:
        """Yield the batches of ``Questions.batches`` until the judge is stopped."""
        return takewhile(lambda _: not self.stopped, self._read(unread))

    def one_by_one(self) -> Iterator[list[Item]]:
        """Yield all batches, and forget the unanswered questions of a batch when the next batch is read."""
        for batch in self.questions.batches(self._size):
            self._unanswered = {question.item.key: question for question in batch}
            yield [question.item for question in batch]

    def members(self, item: Item) -> int:
        """Return the number of items with the same question as an item."""
        return len(self._unanswered[item.key].members)

    def of_items(self, scores: Sequence[Score]) -> list[Score]:
        """Return the scores of all items from one score for each question."""
        return [score.of(*member) for score in scores for member in self._unanswered[score.item_key].members]

    def forget(self, scores: Sequence[Score]) -> None:
        """Forget the questions that have been answered by the given scores."""
        for score in scores:
            del self._unanswered[score.item_key]


def _shown(unread: Collection[str], question: Question) -> list[str | None]:
    """Return the texts of a question's item that a prompt shows."""
    item = question.item
    return [getattr(item, name) for name in TEXTS if name not in unread]


def in_chunks(wanted: Iterable[T], length_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield chunks of ``wanted`` whose texts fit into memory; ``length_of`` counts the characters of an element."""
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

    Only a short key of each item is kept, so a long test set can be read from a file item by item. In real test sets,
    the shared beginnings of successive texts are within 1 % as long as after a full sort.
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
