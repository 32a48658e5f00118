"""Selection: the k highest of some values, without sorting them (numpy's sort takes a second to compile)."""

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
