"""What a judge is asked about a test set: its pending items, those with equal texts as one question.

Of a long test set only ids, keys and lengths are held. Its texts are read when their turn comes, some at a time.
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
"""Length of the texts that are held at once: less costs more passes over the file, more costs memory."""


_CHARACTERS_COMPARED = 128
"""Beginning of an item's texts by which items are sorted."""

_BEGINNINGS = tuple(2**power for power in range(8, 17))
"""Lengths in characters of the longer beginnings by which items of the same first characters are grouped."""


class ItemSource(ABC):
    """Items whose texts can be read again at any time; sequences are in the order of the source.

    Attributes
    ----------
    ids, keys, text_keys : sequence of str
        Of every item; see ``Item``.
    lengths : sequence of int
        Characters of every item's texts together.
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
        """The position of every item, as ``in_order_of_texts`` has them."""
        return in_order_of_texts(self)

    @abstractmethod
    def __iter__(self) -> Iterator[Item]:
        """Every item."""

    @abstractmethod
    def read(self, positions: Sequence[int]) -> list[Item]:
        """The items at these positions, in the order of ``positions``."""


class ItemsInMemory(ItemSource):
    """A few items, as a source."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        super().__init__()

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def read(self, positions: Sequence[int]) -> list[Item]:
        return [self._items[position] for position in positions]


class Question(NamedTuple):
    """Items of equal texts, which a judge is asked about once.

    Attributes
    ----------
    item : Item
        The one that the judge is shown.
    members : list of (id, key)
        All items that get its score, that one included.
    """

    item: Item
    members: list[tuple[str, str]]


class Questions:
    """What a judge is to be asked about a source of items, but for those whose keys are ``settled``.

    The questions of a language model are sorted so that successive prompts share a long beginning, which is then in the
    model's cache.
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
        """The questions in batches of this size, each read when it is asked for.

        With ``unread``, a batch has neighbours that differ in no other of an item's texts: they are one prompt.
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
    """Questions in batches that are made one by one; those that were asked are kept until they are answered.

    No further batch is to be begun where the judge is ``down``, or all ``has_ended``.
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
        """Whether that is so."""
        return self.down or self._has_ended()

    def until_stopped(self, unread: Collection[str] | None = None) -> Iterator[list[Item]]:
        """The batches, as ``Questions.batches`` has them, up to the one before which the judge is stopped."""
        return takewhile(lambda _: not self.stopped, self._read(unread))

    def one_by_one(self) -> Iterator[list[Item]]:
        """All batches; what is not answered of one is forgotten when the next is read."""
        for batch in self.questions.batches(self._size):
            self._unanswered = {question.item.key: question for question in batch}
            yield [question.item for question in batch]

    def members(self, item: Item) -> int:
        """How many items a question is about."""
        return len(self._unanswered[item.key].members)

    def of_items(self, scores: Sequence[Score]) -> list[Score]:
        """The scores of all items, from one score for each question."""
        return [score.of(*member) for score in scores for member in self._unanswered[score.item_key].members]

    def forget(self, scores: Sequence[Score]) -> None:
        """Forget the questions that these scores answer."""
        for score in scores:
            del self._unanswered[score.item_key]


def _shown(unread: Collection[str], question: Question) -> list[str | None]:
    """An item's texts but for those that no prompt shows."""
    item = question.item
    return [getattr(item, name) for name in TEXTS if name not in unread]


def in_chunks(wanted: Iterable[T], length_of: Callable[[T], int]) -> Iterator[list[T]]:
    """What is wanted, in chunks whose texts are read and held together; ``length_of`` gives the characters of each."""
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
    """The position of every item, so that items whose texts begin alike are neighbours, the longer alike the nearer.

    Little is kept of each item, so that a long test set may be read from a file item by item: of real sets, successive
    texts share as much within 1 % as they would if they were sorted in full.
    """
    kept = [_beginnings(item) for item in items]
    return sorted(range(len(kept)), key=kept.__getitem__)


def _beginnings(item: Item) -> tuple[str, bytes]:
    """The first characters of an item's texts, and checksums of longer beginnings."""
    text = "\0".join(text or "" for text in item.texts)
    checksums: list[int] = []
    start, checksum = 0, 0
    for end in _BEGINNINGS:
        checksum = crc32(text[start:end].encode("utf-8", "surrogatepass"), checksum)
        checksums.append(checksum)
        start = end
    return text[:_CHARACTERS_COMPARED], struct.pack(f">{len(checksums)}I", *checksums)
