"""The items of a test set as judges are asked about them: ids and keys of all, texts as they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from assets.judge_keys import judge_item
from care_ops.errors import WarehouseError
from judges.items import Item
from judges.questions import in_order_of_texts, length
from warehouse.item_texts import ItemTexts
from warehouse.parts import PartStore


class StoredItems:
    """The items of one test set; the attributes are those of ``judges.questions.ItemSource``."""

    def __init__(self, parts: PartStore, testset: str) -> None:
        self._testset = testset
        self._texts = ItemTexts(parts.items_file(testset))
        ids: list[str] = []
        keys: list[str] = []
        text_keys: list[str] = []
        lengths: list[int] = []
        for record in self._texts:
            item = judge_item(record)
            ids.append(item.item_id)
            keys.append(item.key)
            text_keys.append(item.text_key)
            lengths.append(length(item))
        self.ids: Sequence[str] = ids
        self.keys: Sequence[str] = keys
        self.text_keys: Sequence[str] = text_keys
        self.lengths: Sequence[int] = lengths

    def by_text(self) -> Sequence[int]:
        return self._order

    @cached_property
    def _order(self) -> Sequence[int]:
        return in_order_of_texts(judge_item(record) for record in self._texts)

    def read(self, positions: Sequence[int]) -> list[Item]:
        """The items at these positions.

        Raises ``WarehouseError`` where they are others than when the keys were read.
        """
        items = [judge_item(record) for record in self._texts.at(positions)]
        if any(item.key != self.keys[position] for item, position in zip(items, positions, strict=True)):
            raise WarehouseError(
                f"the items of test set {self._testset!r} were replaced while a judge was being asked about them; what "
                "was answered is kept, and `care run` asks about the new ones"
            )
        return items
