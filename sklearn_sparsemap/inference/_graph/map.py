"""MAP inference in factor graphs: the linear relaxation, and branch and bound where that is fractional."""

from typing import NamedTuple

import numpy as np

from ...graphs._arrays import FORBIDDEN
from ...solvers._graph.batch import RESIDUAL, STATUS
from ...solvers._graph.rows import INFEASIBLE
from .problems import as_graph_samples
from .sizes import ClippedSample, clipped_samples
from .solve import check_feasible, choose_solver, size_of, solve_graph

# Marginals as close as this to 0 or 1 count as such.
_INTEGRAL = 1e-6
# LP-SparseMAP at this many times the scores' size is the linear programme already, in nearly all graphs; the centre of
# its quadratic term is then moved until nothing changes. "block" moves by 1 in a sweep, and needs smaller steps.
_SHARPNESS = {"newton": 100.0, "block": 10.0}
_MOST_STEPS = 50
# Scores far below the largest move little in a step: the steps grow.
_GROWTH, _SHARPEST = 3.0, 1e8
# A solution with a larger residual is none.
_MOST_RESIDUAL = 1e-6
# Most relaxations in the search for the best assignment where the first one is fractional.
_MOST_NODES = 500


class GraphMAPResult(NamedTuple):
    """The best assignment that was found in a factor graph.

    Attributes
    ----------
    structure : bool ndarray, shape of the variables; or dict of str -> ndarray
        Which variables are on.
    value : float
        Its total score.
    integral : bool
        Whether the linear relaxation has this solution itself. Otherwise `structure` was found by branch and bound.
    bound : float
        No assignment has a total score above this, up to rounding: `structure` is the best one if it is `value`.
    marginals : ndarray or dict of str -> ndarray
        The solution of the linear relaxation.
    """

    structure: object
    value: float
    integral: bool
    bound: float
    marginals: object


def map_graph(graph, scores, *, additional=None, n_jobs=None, tol=1e-9):
    """Find the best assignment; see `map_inference`."""
    layout, samples, many = as_graph_samples(graph, scores, additional)
    results = map_samples(graph, layout, samples, n_jobs, tol, many)
    return results if many else results[0]


def map_samples(graph, layout, samples, n_jobs=None, tol=1e-9, many=True):
    """Find the best assignments of samples that are laid out for the kernels: list of `GraphMAPResult`."""
    results, trials = [None] * len(samples), []
    for sample in samples:
        plain = ClippedSample(layout, sample, sample.scores, [])
        trials.append(clipped_samples(layout, sample, size_of(sample), 0.0) or [plain])
    left = list(range(len(samples)))
    while left:
        current = [trials[i].pop(0) for i in left]
        relaxed = relax(
            layout,
            [trial.sample for trial in current],
            tol,
            n_jobs,
            lambda *found, left=left: check_feasible(graph, layout, *found, many, left),
        )
        for i, trial, u, joint, *found in zip(left, current, *relaxed):
            best, best_joint, value, bound = _round(trial.sample, layout, u, joint, *found, tol)
            if bound == -np.inf:
                _refuse(graph, layout, u, f"scores[{i}]" if many else "scores")
            if trials[i] and not (trial.accepts(u, joint) and trial.accepts(best, best_joint)):
                continue
            trials[i] = []
            gain = trial.value(best, best_joint)
            results[i] = GraphMAPResult(
                samples[i].shape_variables(best > 0.5),
                float(value + gain),
                not _fractional(u).any(),
                float(bound + gain),
                samples[i].shape_variables(u),
            )
        left = [i for i in left if trials[i]]
    return results


def _refuse(graph, layout, u, which):
    """Raise ValueError for a sample whose relaxation has the solution `u`, but which no assignment satisfies."""
    arrays = layout.arrays
    numbers = np.unique(np.repeat(np.arange(len(arrays.kinds)), np.diff(arrays.link_ptr))[_fractional(u)[arrays.links]])
    message = ", ".join(repr(graph.factor_of(int(f))) for f in numbers[:4])
    message += f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
    raise ValueError(
        f"infeasible: under {which} (with the additional scores) no assignment satisfies all factors, though marginals "
        f"between 0 and 1 do; look at the factors of these: {message}. Remove a factor, or allow more variables by "
        "scores above -inf"
    )


def relax(layout, samples, tol=1e-9, n_jobs=None, check=None):
    """Solve the linear relaxation of samples that are laid out for the kernels, by the proximal point method.

    Parameters
    ----------
    check : callable, default=None
        Called with the arrays and statistics of the first step.

    Returns
    -------
    u, joint : arrays with one row a sample
        Marginals of the variables and of the additional scores.
    values, gaps : arrays of shape (n_samples,)
        The relaxation's value, and by how much it may be too small: infinite where it was not solved, NaN where nothing
        is feasible.
    """
    method = choose_solver(layout, "auto")
    n = len(samples)
    sizes = np.array([_size(sample) for sample in samples])
    u, joint = np.zeros((n, layout.n_variables)), np.zeros((n, layout.n_additional))
    gaps = np.full(n, np.inf)
    left, warm = np.arange(n), None
    for step in range(_MOST_STEPS):
        sharpness = min(_SHARPNESS[method] * _GROWTH**step, _SHARPEST) / sizes[left]
        moved = []
        for i, sharp in zip(left, sharpness):
            allowed = samples[i].scores > 0.5 * FORBIDDEN
            own = np.where(allowed, sharp * samples[i].scores + u[i], FORBIDDEN)
            moved.append(samples[i].like(own, sharp * samples[i].additional))
        arrays, statistics = solve_graph(layout, method, moved, 1e-9, 2000, n_jobs, warm, clip=False)
        if step == 0 and check is not None:
            check(arrays, statistics)
        change = np.abs(arrays[0] - u[left])
        u[left], joint[left] = arrays[0], arrays[1]
        # What the quadratic term can hide: its gradient, times how far any other point is away.
        gaps[left] = change.sum(axis=1) / sharpness
        gaps[left[statistics[:, RESIDUAL] > _MOST_RESIDUAL]] = np.inf
        infeasible = statistics[:, STATUS] == INFEASIBLE
        gaps[left[infeasible]] = np.nan
        open_ = (gaps[left] > tol * sizes[left]) & ~infeasible
        if not open_.any():
            break
        # Multipliers grow with the scores.
        left, warm = left[open_], (_GROWTH * arrays[2][open_], _GROWTH * arrays[3][open_])
    values = np.array([_value(sample, *found) for sample, *found in zip(samples, u, joint)])
    return u, joint, values, gaps


def _round(sample, layout, u, joint, value, gap, tol):
    """Return the relaxation where it is integral, else what branching from it finds; see `_branch`."""
    if not _fractional(u).any():
        return u, joint, value, value + gap
    return _branch(sample, layout, u, joint, value + gap, tol)


def _branch(sample, layout, u, joint, bound, tol):
    """Branch and bound, depth first, for at most _MOST_NODES relaxations.

    Each branch fixes the variable that is farthest from 0 and 1, by a reward or fine that outweighs all scores.
    Without any assignment found the value is -inf, and the structure may violate factors; the bound is -inf, too, if
    there is none.

    Returns
    -------
    u, joint : arrays
        The assignment, and the marginals of the additional scores.
    value : float
    bound : float
        Of what was not examined; the value itself if the search is complete.
    """
    size = _size(sample)
    reward = 10.0 * size * max(layout.n_variables + layout.n_additional, 10)
    best, best_joint, best_value = u, joint, -np.inf
    # Fixed variables are +1 (on) and -1 (off).
    nodes = [(bound, np.zeros(len(u)), u)]
    n_nodes, unsolved = 0, -np.inf
    while nodes and n_nodes < _MOST_NODES:
        bound, fixed, u = nodes.pop()
        if bound <= best_value + tol * size:
            continue
        i = int(np.where(fixed == 0, np.minimum(u, 1.0 - u), -1.0).argmax())
        children = []
        for sign in (1.0, -1.0):
            own = fixed.copy()
            own[i] = sign
            n_nodes += 1
            found, found_joint, _, gaps = relax(
                layout, [sample.like(sample.scores + reward * own, sample.additional)], tol
            )
            wrong = np.where(own > 0, 1.0 - found[0], np.where(own < 0, found[0], 0.0)).max()
            if np.isnan(gaps[0]) or (gaps[0] <= size and wrong > _INTEGRAL):
                # Nothing satisfies the factors and what is fixed.
                continue
            if not gaps[0] <= size:
                unsolved = max(unsolved, bound)
                continue
            score = _value(sample, found[0], found_joint[0])
            if _fractional(found[0]).any() and (own == 0).any():
                children.append((score + gaps[0], own, found[0]))
            elif score > best_value:
                best, best_joint, best_value = found[0], found_joint[0], score
        # The more promising one is examined first.
        nodes.extend(sorted(children, key=lambda node: node[0]))
    return best, best_joint, best_value, max([best_value, unsolved, *(node[0] for node in nodes)])


def _fractional(u):
    return np.minimum(u, 1.0 - u) > _INTEGRAL


def _size(sample):
    """Return the largest score of a sample, at least a little."""
    return max(size_of(sample), 1e-100)


def _value(sample, u, joint):
    allowed, used = sample.scores > 0.5 * FORBIDDEN, joint != 0.0
    return sample.scores[allowed] @ u[allowed] + sample.additional[used] @ joint[used]
