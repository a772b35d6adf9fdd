"""Stored items of a test set, with ids and keys in memory and texts that are read on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from care_ops.errors import WarehouseError
from judges.items import Item
from judges.questions import ItemSource
from warehouse.item_texts import ItemTexts
from warehouse.parts import PartStore


class StoredItems(ItemSource):
    """Items of one test set; ids and keys are in memory, and texts are read on demand."""

    def __init__(self, parts: PartStore, testset: str) -> None:
        self._testset = testset
        self._texts = ItemTexts(parts.items_file(testset))
        super().__init__()

    def __iter__(self) -> Iterator[Item]:
        return (Item(*row) for row in self._texts)

    def read(self, positions: Sequence[int]) -> list[Item]:
        """Read the items at ``positions``; raise ``WarehouseError`` if the stored items were replaced."""
        items = [Item(*row) for row in self._texts.at(positions)]
        if any(item.key != self.keys[position] for item, position in zip(items, positions, strict=True)):
            raise WarehouseError(
                f"the items of test set {self._testset!r} were replaced while a judge was scoring them; finished "
                "scores are kept; run `care run` to score the new items"
            )
        return items
