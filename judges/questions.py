"""Questions to a judge about the pending items of a test set; items with equal texts share one question.

Only the ids, keys and text lengths of a long test set are kept in memory. Texts are read in chunks when needed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import groupby, islice, takewhile
from math import ceil
from typing import TypeVar
from zlib import crc32

from judges.items import TEXTS, Item, Score
from judges.spec import JudgeSpec

T = TypeVar("T")

_CHARACTERS_AT_ONCE = 8 * 2**20
"""Maximum number of characters of texts in memory; a smaller maximum needs more passes over the file."""

_CHARACTERS_COMPARED = 128
"""Number of characters at the beginning of the prompt, and of the other texts, that determine the order."""


class ItemSource(ABC):
    """Base class of item sources that can be read several times.

    Attributes
    ----------
    ids, keys, text_keys : sequence of str
        Ids and content keys of the items (see ``Item``), in the order of the source.
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
        """Positions of all items, sorted by text; consecutive texts then often share a long prefix.

        Only a short key of each item is kept in memory, so a long test set can be read from a file item by item.
        """
        kept = [_beginnings(item) for item in self]
        return sorted(range(len(kept)), key=kept.__getitem__)

    @abstractmethod
    def __iter__(self) -> Iterator[Item]:
        """Yield every item, in the order of the source."""

    @abstractmethod
    def read(self, positions: Sequence[int]) -> list[Item]:
        """Return the items at the given positions, in the order of ``positions``."""


class ItemsInMemory(ItemSource):
    """Item source that keeps all items in memory."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        super().__init__()

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def read(self, positions: Sequence[int]) -> list[Item]:
        return [self._items[position] for position in positions]


class Questions:
    """Questions to a judge about the pending items of a source: all items except those with a key in ``settled``.

    Items with equal texts share one question, which uses the first of these items. Questions to a language model
    are sorted by text, because successive prompts with a long common prefix use the model's prefix cache.
    """

    def __init__(self, source: ItemSource, spec: JudgeSpec, settled: Collection[str] = ()) -> None:
        self._source = source
        pending = [key not in settled for key in source.keys]
        order = source.by_text if spec.engine.needs.template and any(pending) else range(len(pending))
        groups: dict[str, list[int]] = {}
        for position in order:
            if pending[position]:
                groups.setdefault(source.text_keys[position], []).append(position)
        self._positions = {source.keys[group[0]]: group for group in groups.values()}
        self.items = sum(pending)

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[Item]:
        lengths = self._source.lengths
        for chunk in in_chunks((group[0] for group in self._positions.values()), lengths.__getitem__):
            yield from self._source.read(chunk)

    def batches(self, size: int, unread: Collection[str] | None = None) -> Iterator[list[Item]]:
        """Yield batches of at most ``size`` items, one item per question; read each batch when it is needed.

        If ``unread`` names the texts that the prompt does not show, all items of a batch have the same prompt.
        """
        runs = [iter(self)] if unread is None else (run for _, run in groupby(self, partial(_shown, unread)))
        for run in runs:
            while batch := list(islice(run, size)):
                yield batch

    def members(self, item: Item) -> int:
        """Return the number of items that share the question about ``item``."""
        return len(self._positions[item.key])

    def of_items(self, scores: Sequence[Score]) -> list[Score]:
        """Copy the score of each question to all items that share the question; return the items' scores."""
        ids, keys = self._source.ids, self._source.keys
        return [score.of(ids[k], keys[k]) for score in scores for k in self._positions[score.item_key]]


class Batches:
    """Batches of questions to a judge; no batch starts after the judge has failed or its run has been stopped."""

    def __init__(self, questions: Questions, size: int, has_ended: Callable[[], bool]) -> None:
        self.questions, self._size, self._has_ended = questions, size, has_ended
        self.down = False

    def __len__(self) -> int:
        return ceil(len(self.questions) / self._size)

    def __iter__(self) -> Iterator[list[Item]]:
        return self.questions.batches(self._size)

    @property
    def stopped(self) -> bool:
        """Whether no further batch may be started."""
        return self.down or self._has_ended()

    def until_stopped(self, unread: Collection[str] | None = None) -> Iterator[list[Item]]:
        """Yield the batches of ``Questions.batches`` until ``stopped`` is true."""
        return takewhile(lambda _: not self.stopped, self.questions.batches(self._size, unread))


def _shown(unread: Collection[str], item: Item) -> list[str | None]:
    return [getattr(item, name) for name in TEXTS if name not in unread]


def in_chunks(wanted: Iterable[T], length_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Split elements into chunks whose texts fit into memory; ``length_of`` returns the text length of an element."""
    chunk: list[T] = []
    characters = 0
    for element in wanted:
        characters += length_of(element)
        if chunk and characters > _CHARACTERS_AT_ONCE:
            yield chunk
            chunk, characters = [], length_of(element)
        chunk.append(element)
    if chunk:
        yield chunk


def _beginnings(item: Item) -> tuple[str, int, str]:
    prompt, *others = (text or "" for text in item.texts)
    checksum = crc32(prompt.encode("utf-8", "surrogatepass"))
    return prompt[:_CHARACTERS_COMPARED], checksum, "\0".join(others)[:_CHARACTERS_COMPARED]
