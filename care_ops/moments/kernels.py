"""Compiled kernels of the moments: register-tiled, fused, no Khatri-Rao matrix in memory.

Rows are taken in blocks that stay in the first-level cache, centred and transposed, with a row of ones at
the end; a tile of four by four sums is then held in registers while the rows of a block run by. Only one of
the equal entries of the symmetric tensor is summed.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numba as nb
import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from care_ops.scores import Array

_ROWS = 256
_WORDS = _ROWS // 64
_PAD = 8  # keeps the rows of a block off strides that are powers of two

# Everything but `nnan` and `ninf`, which would delete the test for missing scores.
_FASTMATH = {"reassoc", "contract", "arcp", "nsz"}


@intrinsic
def _popcount(_typing: Any, _word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@nb.njit(fastmath=_FASTMATH, cache=True)
def _load(columns: Any, shift: Any, start: int, rows: int, y: Any) -> bool:
    """Centre a block; returns whether scores are missing (they stay NaN)."""
    missing = 0
    for j in range(len(columns)):
        for r in range(rows):
            value = columns[j, start + r]
            missing += value != value
            y[j, r] = value - shift[j]
        for r in range(rows, _ROWS):
            y[j, r] = 0.0
    return missing > 0


@nb.njit(fastmath=_FASTMATH, cache=True)
def _mask(y: Any, rows: int, present: Any, words: Any) -> None:
    """Note which scores are present, as numbers and as bits, and set the others to zero."""
    for j in range(len(present)):
        for w in range(_WORDS):
            bits = np.uint64(0)
            for r in range(w * 64, min(w * 64 + 64, rows)):
                value = y[j, r]
                is_present = value == value
                bits |= np.uint64(is_present) << np.uint64(r % 64)
                present[j, r] = np.float64(is_present)
                y[j, r] = value if is_present else 0.0
            words[j, w] = bits


@nb.njit(fastmath=_FASTMATH, cache=True)
def _diagonal_tile(y: Any, rows: int, a: int, b: int, out: Any) -> None:
    """out[a, i, j] += sum_r y_a y_i y_j for b <= i <= j < b + 4."""
    s00 = s01 = s02 = s03 = s11 = s12 = s13 = s22 = s23 = s33 = 0.0
    for r in range(rows):
        ya = y[a, r]
        x0, x1, x2, x3 = y[b, r], y[b + 1, r], y[b + 2, r], y[b + 3, r]
        w0, w1, w2, w3 = ya * x0, ya * x1, ya * x2, ya * x3
        s00 += w0 * x0
        s01 += w0 * x1
        s02 += w0 * x2
        s03 += w0 * x3
        s11 += w1 * x1
        s12 += w1 * x2
        s13 += w1 * x3
        s22 += w2 * x2
        s23 += w2 * x3
        s33 += w3 * x3
    out[a, b, b] += s00
    out[a, b, b + 1] += s01
    out[a, b, b + 2] += s02
    out[a, b, b + 3] += s03
    out[a, b + 1, b + 1] += s11
    out[a, b + 1, b + 2] += s12
    out[a, b + 1, b + 3] += s13
    out[a, b + 2, b + 2] += s22
    out[a, b + 2, b + 3] += s23
    out[a, b + 3, b + 3] += s33


@nb.njit(fastmath=_FASTMATH, cache=True)
def _tiles(y: Any, rows: int, a: int, first: int, last: int, out: Any) -> None:
    """out[a, b, c] += sum_r y_a y_b y_c for tiles of b >= first and c >= b, up to last."""
    for b in range(first, last, 4):
        _diagonal_tile(y, rows, a, b, out)
        for c in range(b + 4, last, 4):
            s00 = s01 = s02 = s03 = 0.0
            s10 = s11 = s12 = s13 = 0.0
            s20 = s21 = s22 = s23 = 0.0
            s30 = s31 = s32 = s33 = 0.0
            for r in range(rows):
                ya = y[a, r]
                w0, w1, w2, w3 = ya * y[b, r], ya * y[b + 1, r], ya * y[b + 2, r], ya * y[b + 3, r]
                x0, x1, x2, x3 = y[c, r], y[c + 1, r], y[c + 2, r], y[c + 3, r]
                s00 += w0 * x0
                s01 += w0 * x1
                s02 += w0 * x2
                s03 += w0 * x3
                s10 += w1 * x0
                s11 += w1 * x1
                s12 += w1 * x2
                s13 += w1 * x3
                s20 += w2 * x0
                s21 += w2 * x1
                s22 += w2 * x2
                s23 += w2 * x3
                s30 += w3 * x0
                s31 += w3 * x1
                s32 += w3 * x2
                s33 += w3 * x3
            out[a, b, c] += s00
            out[a, b, c + 1] += s01
            out[a, b, c + 2] += s02
            out[a, b, c + 3] += s03
            out[a, b + 1, c] += s10
            out[a, b + 1, c + 1] += s11
            out[a, b + 1, c + 2] += s12
            out[a, b + 1, c + 3] += s13
            out[a, b + 2, c] += s20
            out[a, b + 2, c + 1] += s21
            out[a, b + 2, c + 2] += s22
            out[a, b + 2, c + 3] += s23
            out[a, b + 3, c] += s30
            out[a, b + 3, c + 1] += s31
            out[a, b + 3, c + 2] += s32
            out[a, b + 3, c + 3] += s33


@nb.njit(cache=True)
def _count(words: Any, scratch: Any, counts: Any) -> None:
    """counts[a, b, c] += rows where a, b and c are present, for a <= b <= c."""
    p = len(words)
    for a in range(p):
        for b in range(a, p):
            for k in range(_WORDS):
                scratch[k] = words[a, k] & words[b, k]
            for c in range(b, p):
                total = np.uint64(0)
                for k in range(_WORDS):
                    total += _popcount(scratch[k] & words[c, k])  # type: ignore[call-arg]  # numba passes the context
                counts[a, b, c] += total


@nb.njit(fastmath=_FASTMATH, cache=True)
def _partials(y: Any, present: Any, rows: int, partial: Any, square: Any) -> None:
    """partial[a, b] += sum of y_a, square[a, b] += sum of y_a^2, over the rows where b is present."""
    p = len(present)
    for a in range(p):
        for b in range(0, p, 2):
            other = min(b + 1, p - 1)
            f0 = f1 = s0 = s1 = 0.0
            for r in range(rows):
                value = y[a, r]
                v0, v1 = value * present[b, r], value * present[other, r]
                f0 += v0
                f1 += v1
                s0 += v0 * value
                s1 += v1 * value
            partial[a, b] += f0
            square[a, b] += s0
            if other > b:
                partial[a, other] += f1
                square[a, other] += s1


@nb.njit(cache=True, nogil=True)
def _accumulate(
    columns: Any, shift: Any, y: Any, out: Any, counts: Any, partial: Any, square: Any, totals: Any, squares: Any
) -> int:
    p, n = columns.shape
    q = out.shape[1]
    words = np.zeros((p, _WORDS), dtype=np.uint64)
    present = np.zeros((p, _ROWS + _PAD))
    scratch = np.zeros(_WORDS, dtype=np.uint64)
    complete = 0
    for start in range(0, n, _ROWS):
        rows = min(_ROWS, n - start)
        missing = _load(columns, shift, start, rows, y)
        if missing:
            _mask(y, rows, present, words)
            _count(words, scratch, counts)
            _partials(y, present, rows, partial, square)
        else:
            complete += rows
            _add_rows(y, rows, totals, squares)
        for a in range(p):
            _tiles(y, _ROWS, a, a // 4 * 4, q, out)
        _tiles(y, _ROWS, q, 0, q, out)  # the row of ones: second moments
    return complete


@nb.njit(fastmath=_FASTMATH, cache=True)
def _add_rows(y: Any, rows: int, totals: Any, squares: Any) -> None:
    """Sums of y and of y^2 by judge, for blocks without a missing score."""
    for a in range(len(totals)):
        first = second = 0.0
        for r in range(rows):
            first += y[a, r]
            second += y[a, r] * y[a, r]
        totals[a] += first
        squares[a] += second


def _aligned(judges: int) -> Array:
    """A block whose rows begin where cache lines do: a vector load that crosses two lines costs double."""
    row, line = _ROWS + _PAD, 64 // 8
    memory = np.zeros(judges * row + line)
    start = -(memory.ctypes.data // 8) % line
    return memory[start : start + judges * row].reshape(judges, row)


def summed(batches: Iterable[Array], shift: Array) -> tuple[int, Array, Array, Array, Array, Array]:
    """Sums over scores that come in batches; y is x - shift, with missing scores as zero.

    Parameters
    ----------
    batches : iterable of (p, m) arrays
        NaN is missing; contiguous by judge is read fastest.
    shift : (p,) array
        Subtracted from the scores of each judge.

    Returns
    -------
    n : int
        Items.
    second : (p, p) array
        sum_i y_i (x) y_i.
    third : (p, p, p) array
        sum_i y_i (x) y_i (x) y_i.
    counts : (p, p, p) array
        Items where all three are present.
    partial, square : (p, p) arrays
        Sum of y_a, and of its square, over the items where a and b are present.
    """
    p, q = len(shift), -(-len(shift) // 4) * 4
    block, out = _aligned(q + 1), np.zeros((q + 1, q, q))
    block[q] = 1.0
    counts, partial, square = np.zeros((p, p, p), dtype=np.uint64), np.zeros((p, p)), np.zeros((p, p))
    totals, squares = np.zeros(p), np.zeros(p)
    n = complete = 0
    for columns in batches:
        complete += int(_accumulate(columns, shift, block, out, counts, partial, square, totals, squares))
        n += columns.shape[1]
    return (
        n,
        symmetrised(out[q, :p, :p]),
        symmetrised(out[:p, :p, :p]),
        symmetrised(counts.astype(np.float64)) + complete,
        partial + totals[:, None],
        square + squares[:, None],
    )


def symmetrised(upper: Array) -> Array:
    """The symmetric matrix or tensor whose entries with a <= b (<= c) are given."""
    return upper[_sorted_indices(upper.shape)]


@lru_cache(maxsize=8)
def _sorted_indices(shape: tuple[int, ...]) -> tuple[NDArray[np.intp], ...]:
    return tuple(np.sort(np.indices(shape), axis=0))
