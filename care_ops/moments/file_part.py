"""Some row groups of a Parquet file as bytes, which can be read where the file is not."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData, ParquetFile


@dataclass(frozen=True)
class FilePart:
    """Bytes of a Parquet file, from ``offset`` on, with the metadata of the whole file."""

    metadata: FileMetaData
    offset: int
    content: bytes

    @classmethod
    def of(cls, path: Path, metadata: FileMetaData, groups: Sequence[int]) -> FilePart:
        """The bytes of successive row groups of the file at ``path``."""
        chunks = [
            metadata.row_group(group).column(column) for group in groups for column in range(metadata.num_columns)
        ]
        starts = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
        ends = [start + chunk.total_compressed_size for start, chunk in zip(starts, chunks, strict=True)]
        with path.open("rb") as file:
            file.seek(min(starts))
            return cls(metadata, min(starts), file.read(max(ends) - min(starts)))

    def opened(self) -> ParquetFile:
        """The file, of which these row groups alone can be read; it checks its pages as they are read."""
        import pyarrow.parquet as pq

        return pq.ParquetFile(_Window(self), metadata=self.metadata, page_checksum_verification=True)


class _Window(io.RawIOBase):
    """A file that can be read and searched, of which only a part is there."""

    def __init__(self, part: FilePart) -> None:
        super().__init__()
        self._content, self._offset, self._position = memoryview(part.content), part.offset, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origins = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._offset + len(self._content)}
        self._position = origins[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        start = self._position - self._offset
        if start < 0:
            raise OSError(f"the bytes at {self._position} of the file are not in this part of it")
        stop = len(self._content) if size < 0 else min(start + size, len(self._content))
        self._position += max(0, stop - start)
        return bytes(self._content[start:stop])
