"""Where structures meet solvers: MAP, SparseMAP and marginal inference, for one sample or for many."""

from itertools import pairwise

import numpy as np

from ._jit import readonly
from ._threads import over_ranges
from ._validation import check_choice, check_positive, check_scores, is_batch
from .solvers._batch import N_STRUCTURES, PROJECTIONS, SOLVERS, Problems, map_range, marginals_range, sparsemap_range
from .solvers._result import MAPResult, MarginalResult, SparseMAPResult
from .structures import Structure

# The active set is finite, and stopping it early saves little: it aims below the gap asked for, so that marginals,
# whose error can be as large as the gap's square root, are right to about `tol` themselves.
_AIM = 1e-3


def map_inference(structure, scores, *, n_jobs=None, **additional):
    """Find the structure of highest score.

    Parameters
    ----------
    structure : Structure
        What to predict, for example ``LinearChain()``; its class documents the shapes below.
    scores : array-like, or a list of them
        Scores of the unary parts of one sample; or of many samples. -inf forbids a part.
    n_jobs : int, default=None
        Number of threads over the samples of a list; -1 uses all cores.
    **additional : array-like
        Additional scores by name, for example `transitions`. With a list of samples: one array for all of them, or
        a list (or tuple) with one array for each.

    Returns
    -------
    result : MAPResult or list of MAPResult
        A named tuple ``(structure, value)``; one for each sample where a list came in.

    Raises
    ------
    ValueError
        If scores are empty, of the wrong shape, NaN or +inf, or forbid every structure.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.structures import Simplex
    >>> map_inference(Simplex(), [0.5, 2.0, 1.0])
    MAPResult(structure=1, value=2.0)
    """
    samples, many = as_samples(structure, scores, additional)
    structures, values = map_problems(structure, join_problems(samples), n_jobs=n_jobs, many=many)
    results = [MAPResult(s, v) for s, v in zip(structures, values.tolist())]
    return results if many else results[0]


def sparsemap(structure, scores, *, solver="active_set", tol=1e-9, max_iter=None, n_jobs=None, **additional):
    """Solve SparseMAP: marginals that are a mixture of a few structures (S 3).

    Maximises ``scores.u + additional.v - 1/2 |u|^2`` over the marginals u and additional marginals v of mixtures of
    structures. The marginals are unique; the solution says which structures they are made of.

    Parameters
    ----------
    structure : Structure
        What to predict, for example ``LinearChain()``; its class documents the shapes below.
    scores : array-like, or a list of them
        Scores of the unary parts of one sample; or of many samples. -inf forbids a part.
    solver : {"active_set", "cg", "away_step", "pairwise"}, default="active_set"
        ``"active_set"`` is exact and finite; structures with a closed form (`Simplex`) use that instead. The others are
        conditional gradient, for comparison: vanilla, which converges slowly, and with away steps or pairwise steps.
    tol : float, default=1e-9
        Largest duality gap at which a solution counts as converged. The solver aims lower. Where scores are so
        large that rounding exceeds `tol`, rounding decides.
    max_iter : int, default=None
        Most calls of the MAP oracle for a sample, but at least 2 are made. None is ``10_000 + 100 * n_parts``, far
        more than usual; where scores are close to zero and additional scores still smaller, it can fall short. A
        result says whether it has converged; no warning is given.
    n_jobs : int, default=None
        Number of threads over the samples of a list; -1 uses all cores. The results do not depend on it.
    **additional : array-like
        Additional scores by name, for example `transitions`. With a list of samples: one array for all of them, or
        a list (or tuple) with one array for each.

    Returns
    -------
    result : SparseMAPResult or list of SparseMAPResult
        One for each sample where a list came in.

    Raises
    ------
    ValueError
        If scores are empty, of the wrong shape, NaN or +inf, or forbid every structure.

    References
    ----------
    Niculae, Martins, Blondel, Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> from sklearn_sparsemap import sparsemap
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> result = sparsemap(LinearChain(), [[1.0, 0.9], [0.0, 0.5]], transitions=[[0.5, 0.0], [0.0, 0.5]])
    >>> [path.tolist() for path in result.structures], result.weights.round(3).tolist()
    ([[1, 1], [0, 0]], [0.6, 0.4])
    >>> result.marginals.round(3).tolist()
    [[0.4, 0.6], [0.4, 0.6]]
    """
    check_choice("solver", solver, SOLVERS)
    check_positive("tol", tol)
    if max_iter is not None:
        check_positive("max_iter", max_iter, integer=True)
    samples, many = as_samples(structure, scores, additional)
    problems = join_problems(samples)
    marginals, statistics, (slots, additional_slots, weights) = sparsemap_problems(
        structure, problems, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs, many=many
    )
    n_structures = statistics[:, N_STRUCTURES].astype(np.int64)
    sizes = problems.sizes
    ends = [np.cumsum(n_structures * n).tolist() for n in (sizes[:, 0], sizes[:, 1], 1)]
    first, first_additional, first_weight = 0, 0, 0
    results = []
    for i, sample in enumerate(samples):
        k = n_structures[i]
        support = (
            slots[first : ends[0][i]].reshape(k, -1 if sizes[i, 0] else 0),
            additional_slots[first_additional : ends[1][i]].reshape(k, sizes[i, 1]),
            weights[first_weight : ends[2][i]],
        )
        first, first_additional, first_weight = (e[i] for e in ends)
        u = marginals[problems.score_ptr[i] : problems.score_ptr[i + 1]]
        results.append(SparseMAPResult(structure, sample, u, support, statistics[i], tol))
    return results if many else results[0]


def map_problems(structure, problems, *, n_jobs=None, many=True):
    """Find the MAP structures of problems laid out for the kernels.

    Returns
    -------
    structures : list
        Decoded.
    values : array of shape (n_problems,)
    """
    slot_ptr = readonly(np.concatenate([[0], np.cumsum(problems.sizes[:, 0])]), np.int64)
    slots, values = np.empty(slot_ptr[-1], np.int32), np.empty(len(problems.sizes))
    over_ranges(
        lambda start, stop: map_range(structure.oracle, problems, start, stop, slot_ptr, slots, values),
        np.diff(problems.score_ptr),
        n_jobs,
    )
    check_feasible(values > -np.inf, many)
    cuts = pairwise(slot_ptr.tolist())
    structures = [structure.decode(slots[start:stop], dims) for (start, stop), dims in zip(cuts, problems.dims)]
    return structures, values


def sparsemap_problems(structure, problems, *, solver="active_set", tol=1e-9, max_iter=None, n_jobs=None, many=True):
    """Solve SparseMAP problems laid out for the kernels.

    Returns
    -------
    marginals : array, like ``problems.scores``
    statistics : array of shape (n_problems, 4)
        See solvers/_batch.py.
    supports : tuple of arrays
        Slots, additional slots and weights of all structures, one problem after the other.
    """
    if max_iter is None:
        max_iter = 10_000 + 100 * int(np.diff(problems.score_ptr).max())
    max_iter = min(max_iter, np.iinfo(np.int64).max)
    run = solver_of(structure, solver)
    marginals, statistics = np.empty(len(problems.scores)), np.empty((len(problems.sizes), 4))
    pools = over_ranges(
        lambda start, stop: sparsemap_range(
            structure.oracle, run, problems, start, stop, tol * _AIM, max_iter, marginals, statistics
        ),
        np.diff(problems.score_ptr),
        n_jobs,
    )
    check_feasible(statistics[:, N_STRUCTURES] > 0, many)
    return marginals, statistics, tuple(np.concatenate(parts) for parts in zip(*pools))


def solver_of(structure, solver="active_set"):
    """Return the compiled solver for a structure: its closed form, where it has one."""
    closed_form = structure.projection is not None and solver == "active_set"
    return PROJECTIONS[structure.projection] if closed_form else SOLVERS[solver]


def marginal_inference(structure, scores, *, n_jobs=None, **additional):
    """Compute the marginals of the Gibbs distribution ``p(s) = exp(score(s)) / Z`` over all structures.

    By forward-backward (chains), the Matrix-Tree theorem and inside-outside (trees), elementary symmetric polynomials
    (subsets) or softmax.

    Parameters
    ----------
    structure : Structure
        What to predict, for example ``LinearChain()``; its class documents the shapes below.
    scores : array-like, or a list of them
        Scores of the unary parts of one sample; or of many samples. -inf forbids a part.
    n_jobs : int, default=None
        Number of threads over the samples of a list; -1 uses all cores. The results do not depend on it.
    **additional : array-like
        Additional scores by name, as in `sparsemap`.

    Returns
    -------
    result : MarginalResult or list of MarginalResult
        With `marginals`, `additional_marginals` and `log_partition`; one for each sample where a list came in.

    Raises
    ------
    ValueError
        If scores are empty, of the wrong shape, NaN or +inf, or forbid every structure; or if the structure has no
        marginals that can be computed: those of matchings are #P-complete.

    Examples
    --------
    >>> from sklearn_sparsemap import marginal_inference
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> result = marginal_inference(LinearChain(), [[1.0, 0.9], [0.0, 0.5]], transitions=[[0.5, 0.0], [0.0, 0.5]])
    >>> result.marginals.round(3).tolist(), round(result.log_partition, 3)
    ([[0.495, 0.505], [0.383, 0.617]], 2.896)
    """
    check_structure(structure)
    oracle = marginal_oracle_of(structure, "marginal_inference")
    samples, many = as_samples(structure, scores, additional)
    problems = join_problems(samples)
    marginals, log_partition, expected = marginal_problems(oracle, problems, n_jobs=n_jobs, many=many)
    first, results = 0, []
    for i, sample in enumerate(samples):
        u = marginals[problems.score_ptr[i] : problems.score_ptr[i + 1]].reshape(sample.shape)
        last = first + len(sample.additional)
        results.append(MarginalResult(u, sample.split_additional(expected[first:last]), float(log_partition[i])))
        first = last
    return results if many else results[0]


def marginal_problems(oracle, problems, *, n_jobs=None, many=True):
    """Compute the Gibbs marginals of problems laid out for the kernels.

    Returns
    -------
    marginals : array, like ``problems.scores``
    log_partition : array of shape (n_problems,)
    expected : array
        The additional marginals of all problems, one after the other.
    """
    lengths = problems.additional_stop - problems.additional_start
    expected_ptr = readonly(np.concatenate([[0], np.cumsum(lengths)]), np.int64)
    marginals, expected = np.empty(len(problems.scores)), np.empty(expected_ptr[-1])
    log_partition = np.empty(len(problems.sizes))
    over_ranges(
        lambda start, stop: marginals_range(
            oracle, problems, start, stop, expected_ptr, marginals, expected, log_partition
        ),
        np.diff(problems.score_ptr),
        n_jobs,
    )
    check_feasible(log_partition > -np.inf, many)
    return marginals, log_partition, expected


def marginal_oracle_of(structure, what):
    """Return the marginal oracle of a structure, or raise ValueError saying why `what` is not to be had."""
    if structure.marginal_oracle is None:
        raise ValueError(f"{what} needs marginals, which {structure!r} does not have: {structure.no_marginals}")
    return structure.marginal_oracle


class Problem:
    """One sample, checked and laid out for the kernels.

    Parameters
    ----------
    structure : Structure
    scores : float64 array
        Checked.
    given : dict of str -> float64 array
        The additional scores that are given, checked, in the structure's order.
    joined : read-only float64 array
        The same, flattened and joined.

    Attributes
    ----------
    scores, additional : read-only float64 arrays
        Flat.
    shape : tuple of int
        Shape of the scores as the user gave them.
    shapes : dict of str -> tuple of int
        Shapes of the additional scores that are given.
    dims, sizes : read-only int64 arrays
        See structures/_base.py.
    """

    __slots__ = ("additional", "dims", "scores", "shape", "shapes", "sizes")

    def __init__(self, structure, scores, given, joined):
        self.shape = scores.shape
        self.scores = readonly(scores.ravel())
        self.shapes = {name: array.shape for name, array in given.items()}
        self.additional = joined
        dims = structure.dims(self.shape, self.shapes)
        self.dims = readonly(dims, np.int64)
        self.sizes = readonly(structure.layout(dims), np.int64)

    @property
    def n_parts(self):
        return len(self.scores)

    def as_scores(self, name, values):
        """Check an array that goes with the scores; return it flat."""
        values = np.asarray(values, dtype=np.float64)
        if values.shape != self.shape:
            raise ValueError(f"{name} has shape {values.shape}, but the scores have {self.shape}")
        return values.ravel()

    def split_additional(self, flat):
        """Cut what goes with the joined additional scores into a dict of arrays, each in its own shape."""
        split, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + int(np.prod(shape))
            split[name] = flat[start:stop].reshape(shape)
            start = stop
        return split

    def join_additional(self, given):
        """Join arrays that go with the additional scores; those not given are zero."""
        unknown = set(given) - set(self.shapes)
        if unknown:
            raise TypeError(f"no {sorted(unknown)[0]!r} were given in this problem; there are {list(self.shapes)}")
        joined = []
        for name, shape in self.shapes.items():
            array = np.asarray(given.get(name, np.zeros(shape)), dtype=np.float64)
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}; in this problem it has {shape}")
            joined.append(array.ravel())
        return np.concatenate(joined) if joined else np.zeros(0)


def join_problems(samples):
    """Join problems into the arrays that kernels loop over; equal additional scores are stored once."""
    additional, start, stop = [], [], []
    seen, n = {}, 0
    for sample in samples:
        key = id(sample.additional)
        if key not in seen:
            seen[key] = n
            additional.append(sample.additional)
            n += len(sample.additional)
        start.append(seen[key])
        stop.append(seen[key] + len(sample.additional))
    return Problems(
        readonly(np.concatenate([s.scores for s in samples])),
        readonly(np.concatenate([[0], np.cumsum([s.n_parts for s in samples])]), np.int64),
        readonly(np.concatenate(additional)),
        readonly(start, np.int64),
        readonly(stop, np.int64),
        readonly([s.dims for s in samples], np.int64),
        readonly([s.sizes for s in samples], np.int64),
    )


def as_samples(structure, scores, additional):
    """Check what the user gave; return a list of `Problem` and whether there were many."""
    check_structure(structure)
    ndim, names = structure.score_ndim, structure.additional_names
    additional = {name: value for name, value in additional.items() if value is not None}
    unknown = sorted(set(additional) - set(names))
    if unknown:
        takes = ", ".join(names) or "none"
        raise TypeError(f"{structure!r} has no additional scores named {unknown[0]!r}; it takes: {takes}")
    many = is_batch(scores, ndim)
    if not many:
        array = check_scores(scores, ndim)
        given = {
            name: check_additional(name, additional[name], structure, array.shape)
            for name in names
            if name in additional
        }
        return [_problem(structure, array, given, _join(given), "scores")], False
    if len(scores) == 0:
        raise ValueError("scores is empty; there must be at least one sample")
    arrays = [check_scores(s, ndim, f"scores[{i}]") for i, s in enumerate(scores)]
    per_sample = {
        name for name in additional if _is_per_sample(additional[name], structure, arrays, name)
    }
    samples, shared = [], {}
    for i, array in enumerate(arrays):
        given = {}
        for name in names:
            if name in per_sample:
                given[name] = check_additional(f"{name}[{i}]", additional[name][i], structure, array.shape, name)
            elif name in additional:
                if (name, array.shape) not in shared:
                    shared[name, array.shape] = check_additional(name, additional[name], structure, array.shape)
                given[name] = shared[name, array.shape]
        if per_sample:
            joined = _join(given)
        else:
            key = tuple(id(a) for a in given.values())
            if key not in shared:
                shared[key] = _join(given)
            joined = shared[key]
        samples.append(_problem(structure, array, given, joined, f"scores[{i}]"))
    return samples, True


def _problem(structure, scores, given, joined, name):
    try:
        return Problem(structure, scores, given, joined)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def check_structure(structure):
    """Raise ValueError unless `structure` is an instance of a structure."""
    if not isinstance(structure, Structure):
        raise ValueError(f"structure must be an instance such as LinearChain(); got {structure!r}")


def check_additional(label, value, structure, shape, name=None):
    """Return additional scores as a float64 array, of a shape that goes with scores of `shape`."""
    accepted = structure.additional_shapes(shape)[name or label]
    found, wanted = _shape(value), " or ".join(map(str, accepted))
    if found not in accepted:
        raise ValueError(f"{label} has shape {found}; with scores of shape {shape} it must have {wanted}")
    return check_scores(value, len(found), label) if np.size(value) else np.zeros(found)


def _shape(value):
    """Return the shape of an array-like, or a word for one that has none."""
    try:
        return np.shape(value)
    except ValueError:
        return "ragged"


def _is_per_sample(value, structure, arrays, name):
    """Tell whether additional scores are one array for all samples, or a sequence with one for each."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.ndim > max(len(s) for s in structure.additional_shapes(arrays[0].shape)[name])
    if not hasattr(value, "__len__") or len(value) == 0:
        return False
    if _shape(value[0]) not in structure.additional_shapes(arrays[0].shape)[name]:
        return False
    if len(value) != len(arrays):
        raise ValueError(f"{name} is a list of {len(value)} arrays for {len(arrays)} samples; pass one for each sample")
    return True


def _join(given):
    return readonly(np.concatenate([a.ravel() for a in given.values()]) if given else np.zeros(0))


def check_feasible(feasible, many):
    """Raise ValueError for the first problem that is marked as infeasible."""
    if not feasible.all():
        which = f"scores[{int(np.argmin(feasible))}]" if many else "scores"
        raise ValueError(
            f"infeasible: {which} (with the additional scores) forbid every structure; allow at least one by "
            "a score above -inf"
        )
