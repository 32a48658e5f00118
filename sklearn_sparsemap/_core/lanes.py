"""Vectors of four numbers, for the inner loops of kernels over short rows.

LLVM vectorises a loop only if it knows that the rows do not overlap, and are long enough for several vectors. So loops
over 10 to 30 numbers are not vectorised, and kernels use vectors explicitly. Rows are padded to a multiple of `WIDTH`
numbers. `load` reads four numbers, `+ - * /` and `larger` combine them with four others or with one number, and `store`
writes them. Wider vectors need more padding, and were not faster.

With untested versions of Numba, and without compilation, `WIDTH` is 1: the same loops process one number at a time.

Used by `_numerics` and `structures`.
"""

from .compile.mode import IS_LINKED
from .jit import kernel

if IS_LINKED:
    from .compile.lanes import WIDTH, larger, largest, load, pick, spread, store, total
else:
    WIDTH = 1

    @kernel
    def load(array, offset):
        """Return `WIDTH` numbers of a C-contiguous float64 array, by their offset in the flattened array."""
        return array.ravel()[offset]

    @kernel
    def store(array, offset, value):
        """Write `WIDTH` numbers into a C-contiguous float64 array, by their offset in the flattened array."""
        array.ravel()[offset] = value

    @kernel
    def larger(a, b):
        """Return the larger number of each pair; a if b is NaN."""
        return b if b > a else a

    @kernel
    def spread(number):
        """Return `WIDTH` times the same number."""
        return number

    # One number, the sum of one number and the largest of one number.
    pick, total, largest = load, spread, spread

__all__ = ["WIDTH", "larger", "largest", "load", "padded", "pick", "spread", "store", "total"]


@kernel
def padded(n):
    """Return the smallest multiple of `WIDTH` that is at least n."""
    return (n + WIDTH - 1) // WIDTH * WIDTH
