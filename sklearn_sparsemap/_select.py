"""Selection and order: the k highest of some values, or all of them from the highest on.

numpy's sort takes a second to compile.
"""

import numpy as np

from ._jit import kernel


@kernel
def select_highest(values, k):
    """Reorder values so that the first k are the highest, and the one at k - 1 is the lowest of these (Hoare)."""
    low, high, place = 0, values.shape[0] - 1, k - 1
    while low < high:
        # The median of three: sorted input, which is common, must not take quadratic time.
        a, b, c = values[low], values[(low + high) // 2], values[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            return


@kernel
def order_down(values, order, scratch):
    """Fill `order` with the places of the values from the highest one on; equal ones stay in their order (merge sort).

    All three have one length; the latter two are of int64.
    """
    n = values.shape[0]
    for i in range(n):
        order[i] = i
    width = np.int64(1)
    while width < n:
        for first in range(0, n, 2 * width):
            middle, end = min(first + width, n), min(first + 2 * width, n)
            a, b = first, middle
            for place in range(first, end):
                if b >= end or (a < middle and not values[order[b]] > values[order[a]]):
                    scratch[place] = order[a]
                    a += 1
                else:
                    scratch[place] = order[b]
                    b += 1
        for i in range(n):
            order[i] = scratch[i]
        width *= 2
