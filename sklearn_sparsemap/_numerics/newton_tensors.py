"""Newton's method on multipliers in batched operations of PyTorch, for matchings and graphs of logic factors.

SparseMAP with the constraints ``A u <= b`` is the solution u of a dual problem: maximise a concave, piecewise quadratic
function of the multipliers of the constraints, each between a lower and an upper bound. The slope of the dual is
``A u - b``; minus its second derivative is ``A P A'``, with the projector P onto the directions in which u is free. All
samples of a batch take a step at once; those that have converged stay where they are.

Used by `_graphs` and `structures`.
"""

import torch

# Gradient steps of each round, and the largest number of Newton steps after them. Few samples need a second round.
_GRADIENT_STEPS, _NEWTON_STEPS = (25, 50, 100, 200, 400), 8
# Largest numbers of trials along a direction, and of times that entries are fixed in it.
_MAX_TRIALS, _MAX_FIXED = 10, 8
# Damping of a step, relative to the diagonal of the curvature, if the violation is 1.
_LEAST_DAMPING, _MAX_DAMPING = 0.01, 10.0


def _violation(multipliers, slope, lower, upper):
    """Return the largest slope of each sample along which a multiplier can move."""
    can_move = ((slope > 0.0) & (multipliers < upper)) | ((slope < 0.0) & (multipliers > lower))
    return torch.where(can_move, slope.abs(), 0.0).amax(-1)


def maximise(evaluate, curvature_of, largest, lower, upper, goal):
    """Maximise the duals of a batch, from multipliers of zero: by gradient steps, then by Newton steps.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(multipliers)`` returns the dual values (n_samples,), their slopes (n_samples, n_rows) and u.
    curvature_of : callable
        ``curvature_of(u)`` returns minus the second derivative, (n_samples, n_rows, n_rows).
    largest : Tensor of shape (n_samples, n_rows)
        The diagonal matrices of these numbers are above the curvature at any u.
    lower, upper : Tensors of shape (n_samples, n_rows)
        Bounds of the multipliers, infinite if there are none; zero is within. Both are zero for rows of padding.
    goal : Tensor of shape (n_samples,)
        Violation that is small enough.

    Returns
    -------
    multipliers, slope, u : Tensor
    violation : Tensor of shape (n_samples,)
        NaN if the values are not finite.
    """
    multipliers = torch.zeros_like(lower)
    left = torch.ones_like(goal, dtype=torch.bool)
    for n_steps in _GRADIENT_STEPS:
        step = torch.where(left.unsqueeze(-1), 1.0 / largest.clamp(min=1e-12), 0.0)
        multipliers = _gradient_steps(evaluate, lower, upper, multipliers, step, n_steps)
        state, violation = _newton_steps(evaluate, curvature_of, lower, upper, multipliers, goal)
        multipliers = state[0]
        left = violation > goal
        if not left.any():
            break
    multipliers, value, slope, u = state
    return multipliers, slope, u, torch.where(torch.isfinite(value), violation, torch.nan)


def _newton_steps(evaluate, curvature_of, lower, upper, multipliers, goal):
    """Take Newton steps; return the state and the violation.

    Parameters
    ----------
    evaluate, curvature_of, lower, upper, goal
        See `maximise`.
    multipliers : Tensor of shape (n_samples, n_rows)

    Returns
    -------
    state : (multipliers, value, slope, u)
    violation : Tensor of shape (n_samples,)
    """
    value, slope, u = evaluate(multipliers)
    damping = torch.full_like(value, _LEAST_DAMPING)
    violation = _violation(multipliers, slope, lower, upper)
    for _ in range(_NEWTON_STEPS):
        left = violation > goal
        if not left.any():
            break
        is_stuck = ((multipliers <= lower) & (slope <= 0.0)) | ((multipliers >= upper) & (slope >= 0.0))
        chosen = ~is_stuck
        curvature = curvature_of(u)
        largest = torch.where(chosen, curvature.diagonal(dim1=1, dim2=2), 0.0).amax(-1)
        ridge = (damping * violation.clamp(max=1.0)).clamp(min=1e-12) * (0.1 + largest)
        room = lower - multipliers, upper - multipliers
        d, fixed = _direction(curvature, ridge, slope, room, chosen & left.unsqueeze(-1))
        state = multipliers, value, slope, u
        (multipliers, value, slope, u), t = _search(evaluate, lower, upper, state, d, fixed, violation, left)
        # A short step was too long for the quadratic model.
        damping = torch.where(t < 0.1, 10.0 * damping, 0.1 * damping).clamp(_LEAST_DAMPING, _MAX_DAMPING)
        violation = _violation(multipliers, slope, lower, upper)
    return (multipliers, value, slope, u), violation


def _gradient_steps(evaluate, lower, upper, multipliers, step, n_steps):
    """Take accelerated gradient steps, which restart where they turn; return the multipliers.

    They find most of the constraints that bind, so that few Newton steps are left.

    Parameters
    ----------
    evaluate, lower, upper
        See `maximise`.
    multipliers : Tensor of shape (n_samples, n_rows)
    step : Tensor of the same shape
        Step sizes, 0 for samples that are solved.
    n_steps : int
    """
    ahead = multipliers
    momentum = torch.ones_like(lower[:, :1])
    for _ in range(n_steps):
        slope = evaluate(ahead)[1]
        new = (ahead + step * slope).clamp(lower, upper)
        change = new - multipliers
        turns = (slope * change).sum(-1, keepdim=True) < 0.0
        faster = torch.where(turns, 1.0, 0.5 * (1.0 + torch.sqrt(1.0 + 4.0 * momentum**2)))
        ahead = new + torch.where(turns, 0.0, (momentum - 1.0) / faster) * change
        multipliers, momentum = new, faster
    return multipliers


def _direction(curvature, ridge, slope, room, chosen):
    """Maximise ``slope'd - d'(curvature + ridge) d / 2`` over d within `room`, fixing all entries beyond it at once.

    Returns d, which is zero where not `chosen`, and a mask of the entries at the end of their room.
    """
    fixed = torch.zeros_like(chosen)
    d = torch.zeros_like(slope)
    ends = torch.zeros_like(slope)
    matrix = curvature + torch.diag_embed(ridge.unsqueeze(-1).expand_as(slope))
    for _ in range(_MAX_FIXED):
        open_ = chosen & ~fixed
        right = torch.where(open_, slope - (matrix @ ends.unsqueeze(-1)).squeeze(-1), 0.0)
        both = open_.unsqueeze(1) & open_.unsqueeze(2)
        system = torch.where(both, matrix, 0.0) + torch.diag_embed((~open_).to(slope.dtype))
        factor, failed = torch.linalg.cholesky_ex(system)
        x = torch.cholesky_solve(right.unsqueeze(-1), factor).squeeze(-1)
        d = torch.where(open_ & (failed == 0).unsqueeze(-1), x, ends)
        beyond = open_ & ((d < room[0]) | (d > room[1]))
        if not beyond.any():
            break
        ends = torch.where(beyond, d.clamp(*room), ends)
        fixed = fixed | beyond
    return d.clamp(*room), fixed


def _search(evaluate, lower, upper, state, d, fixed, violation, left):
    """Search along `d` in the unsolved samples; return the new state, and the step lengths of the samples.

    Parameters
    ----------
    evaluate, lower, upper
        See `maximise`.
    state : (multipliers, value, slope, u)
    d, fixed : Tensors of the shape of the multipliers
        The direction, and a mask of the entries that reach a bound.
    violation : Tensor of shape (n_samples,)
    left : bool Tensor of shape (n_samples,)
        Mask of the unsolved samples.
    """
    multipliers, value, slope, _ = state
    rise = (slope * d).sum(-1)
    slack = 1e-12 * (1.0 + value.abs())
    t = torch.ones_like(value)
    searching = left.clone()
    best = list(state)
    ahead = torch.where(d < 0.0, lower, upper)
    for attempt in range(_MAX_TRIALS):
        moved = multipliers + t.unsqueeze(-1) * d
        arrives = fixed & (t >= 1.0).unsqueeze(-1)
        trial = torch.where(arrives, ahead, moved.clamp(lower, upper))
        new, new_slope, new_u = evaluate(trial)
        after = _violation(trial, new_slope, lower, upper)
        for k, part in enumerate((trial, new, new_slope, new_u)):
            here = searching.reshape(-1, *[1] * (part.dim() - 1))
            best[k] = torch.where(here, part, best[k])
        rests = ((trial <= lower) & (d <= 0.0)) | ((trial >= upper) & (d >= 0.0))
        there = (torch.where(rests, 0.0, new_slope) * d).sum(-1)
        halved = (after <= 0.5 * violation) & (new >= value - slack)
        flat = (there >= 0.9 * rise) & (t >= 1.0) & (rise > 1e-10) & ~halved & (attempt < 8)
        enough = (new >= value + 1e-4 * t * rise) | ((after < violation) & (new >= value - slack))
        searching = searching & (flat | ~(halved | enough))
        if not searching.any():
            break
        secant = torch.where(there < 0.0, t * rise / (rise - there).clamp(min=1e-300), 0.5 * t)
        t = torch.where(flat, 4.0 * t, torch.minimum(torch.maximum(secant, 0.1 * t), 0.7 * t))
    return best, t


def project(directions, centre, sums, spread, curvature, tight):
    """Project directions onto those that keep the tight constraints.

    Parameters
    ----------
    directions : Tensor of shape (n_directions, *shape of u)
    centre : callable
        The projector P, without the constraints.
    sums, spread : callable
        Products with A and with its transpose.
    curvature : Tensor of shape (n_samples, n_rows, n_rows)
        ``A P A'``.
    tight : bool Tensor of shape (n_samples, n_rows)
    """
    both = tight.unsqueeze(1) & tight.unsqueeze(2)
    # Constraints may be dependent.
    inverse = torch.linalg.pinv(torch.where(both, curvature, 0.0), rtol=1e-10, hermitian=True)
    directions = centre(directions)
    # The second round removes rounding errors of the first.
    for _ in range(2):
        x = (inverse @ torch.where(tight, sums(directions), 0.0).unsqueeze(-1)).squeeze(-1)
        directions = directions - centre(spread(x))
    return directions
