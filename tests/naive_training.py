"""Slow, obvious twins of what training is made of."""


def two_loops(pairs, gradient):
    """Return L-BFGS's product of the inverse Hessian with a gradient (Nocedal 1980), from (step, change) pairs."""
    q, shares = gradient.copy(), []
    for step, change in reversed(pairs):
        shares.append(step @ q / (step @ change))
        q -= shares[-1] * change
    if pairs:
        step, change = pairs[-1]
        q *= step @ change / (change @ change)
    for (step, change), share in zip(pairs, reversed(shares)):
        q += (share - change @ q / (step @ change)) * step
    return q


def merge_columns(X):
    """Return the groups of columns of a dense array that are the same in all rows, without those of zeros."""
    groups = {}
    for j, column in enumerate(X.T):
        if column.any():
            groups.setdefault(tuple(column.tolist()), []).append(j)
    return [tuple(group) for group in groups.values()]
