"""Products of small matrices with padded rows, four numbers at a time; see `_core/lanes`.

Used by `newton.py` and `tight_face.py`.
"""

from .._core.jit import kernel
from .._core.lanes import WIDTH, load, padded, pick, spread, store


@kernel
def take_off_products(left, right, first, n_summed, width, n, out):
    """Subtract ``left' right`` from the upper triangle of the first n rows and columns of `out`.

    The entries below the diagonal are overwritten with arbitrary numbers.

    Parameters
    ----------
    left, right : C-contiguous arrays
        Two matrices with the same shape.
    first : int
        The beginning of the matrix `right` in its flattened array.
    n_summed, width : int
        The number of rows of both, and the padded length of all rows.
    n : int
        The number of rows and columns of the result.
    out : C-contiguous array
        A matrix with rows of the same length.
    """
    used = padded(n)
    # Four rows at a time use the same loads, and have independent dependency chains.
    for i in range(0, n - 3, 4):
        for p in range(i // WIDTH * WIDTH, used, WIDTH):
            a = spread(0.0)
            b = spread(0.0)
            c = spread(0.0)
            d = spread(0.0)
            for j in range(n_summed):
                q = j * width
                row = load(right, first + q + p)
                a += row * pick(left, q + i)
                b += row * pick(left, q + i + 1)
                c += row * pick(left, q + i + 2)
                d += row * pick(left, q + i + 3)
            q = i * width + p
            store(out, q, load(out, q) - a)
            store(out, q + width, load(out, q + width) - b)
            store(out, q + 2 * width, load(out, q + 2 * width) - c)
            store(out, q + 3 * width, load(out, q + 3 * width) - d)
    for i in range(n // 4 * 4, n):
        for p in range(i // WIDTH * WIDTH, used, WIDTH):
            a = spread(0.0)
            for j in range(n_summed):
                a += load(right, first + j * width + p) * pick(left, j * width + i)
            store(out, i * width + p, load(out, i * width + p) - a)
