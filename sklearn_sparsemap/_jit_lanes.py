"""Four numbers at once, for the inner loops of kernels over short rows.

LLVM makes vector instructions of a loop only if it knows that the rows do not overlap, and that they are long enough
for a body of several vectors: rows of 10 to 30 numbers run one number at a time. So a kernel asks for vectors itself.
Rows are padded to a multiple of `WIDTH` numbers. `load` takes four of them, `+ - * /` and `larger` combine them with
four others or with one number, and `store` puts them back. Wider vectors need more padding, and were not faster.

With untested versions of Numba, and without it, `WIDTH` is 1: the same loops take one number at a time.
"""

from ._core.compile.mode import IS_LINKED
from ._jit import kernel

if IS_LINKED:
    from ._core.compile.lanes import WIDTH, larger, largest, load, pick, spread, store, total
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
    """Return the least multiple of `WIDTH` that is not less than n."""
    return (n + WIDTH - 1) // WIDTH * WIDTH
