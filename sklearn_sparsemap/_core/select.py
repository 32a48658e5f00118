"""Selection of the k highest values, and sorting, without numpy's sort, which takes a second to compile.

Used by `_numerics`, `penalties` and `structures`.
"""

from .jit import kernel


@kernel
def select_highest(values, k):
    """Reorder values so that the first k are the highest, and the one at k - 1 is the lowest of these (quickselect)."""
    low, high, place = 0, values.shape[0] - 1, k - 1
    while low < high:
        # The pivot is the median of three, because sorted input is common and must not take quadratic time.
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
def order_downwards(values, order):
    """Write to `order` the places of the values in decreasing order; ties keep the order of places (heap sort)."""
    n = values.shape[0]
    for i in range(n):
        order[i] = i
    for start in range(n // 2 - 1, -1, -1):
        _sift_down(values, order, start, n)
    for end in range(n - 1, 0, -1):
        order[0], order[end] = order[end], order[0]
        _sift_down(values, order, 0, end)


@kernel
def _comes_later(values, i, j):
    return values[i] < values[j] or (values[i] == values[j] and i > j)


@kernel
def _sift_down(values, order, start, end):
    """Sift the entry at `start` down to its position in a heap whose top is the last entry of the order."""
    parent = start
    while 2 * parent + 1 < end:
        child = 2 * parent + 1
        if child + 1 < end and _comes_later(values, order[child + 1], order[child]):
            child += 1
        if not _comes_later(values, order[child], order[parent]):
            return
        order[parent], order[child] = order[child], order[parent]
        parent = child
