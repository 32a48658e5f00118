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
