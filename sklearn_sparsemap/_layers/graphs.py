"""The operator of factor graphs: one for all samples, or one for each shape.

Used by `register.py`.
"""

from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from .._core.errors import SampleError
from .._core.threads import over_groups
from .._core.validation import bound_masks
from .._graphs.arrays import FORBIDDEN, STRUCTURE
from ..factors._assignments import gold_parts
from ..inference._graph.exact import warn_of_time_limit
from ..inference._graph.map import MAP_TIME_LIMIT, relax
from ..inference._graph.problems import GraphBatch
from ..inference._graph.solve import GraphSolver, check_feasible, choose_solver, solve_again, solve_graph
from ..inference._results import LPSparseMAPBatch
from .operators import Operator, check_values, nested, warn_if_inexact, without_padding
from .padding import block_mask, check_lengths, distinct_rows, shapes_within
from .samples import position

# Default maximum number of sweeps and Newton steps.
_EXACT = 1000


class PaddedGraph(NamedTuple):
    """Samples of one shape in batches of one padded shape: their layout, and their entries in the padded arrays."""

    layout: object
    entries: np.ndarray
    extra_entries: np.ndarray
    fixed_size: bool
    version: tuple


class GraphOperator(Operator):
    """SparseMAP in factor graphs, or MAP in their linear relaxation.

    If a graph has several arrays of variables, the padded variables of a sample are joined in one axis of the scores.

    Parameters
    ----------
    graph : FactorGraph or GraphFunction
    extra : tuple of ((factor, name), shape)
        Padded additional scores; the name is None for pairs.
    options : (argmax, tol, max_iter, n_jobs)
        `argmax` is "sparsemap" or "map". A `max_iter` of None is exact. Otherwise it is the maximum number of sweeps
        and Newton steps; the derivative is then that of the faces reached so far.

    `torch/_native.py` calls `tensor_solver`, `shapes_of` and `sample_layout`, and reads `entries` and `extra_entries`
    of the layouts.
    """

    of_factors = True

    def __init__(self, graph, extra, options):
        super().__init__(graph, extra, options)
        self._layouts = lru_cache(4096)(self._make_sample_layout)

    def sample_layout(self, padded, shape):
        """Return the `PaddedGraph` of samples of a shape in batches of a padded shape."""
        found = self._layouts(padded, shape)
        version = self.structure.of_shape(shape).version()
        if found.version != version:
            self._layouts.cache_clear()
            found = self._layouts(padded, shape)
        return found

    def _make_sample_layout(self, padded, shape):
        graph = self.structure.of_shape(shape)
        accepted, shapes, columns, first = {f.name: f.accepted_shapes for f in graph.scored}, {}, {}, 0
        for (owner, name), full in self.extra:
            label = owner if name is None else f"{owner}[{name!r}]"
            if owner not in accepted:
                raise ValueError(f"additional names {owner!r}, but the named factors are {sorted(accepted)}")
            fits = [own for own in accepted[owner][name] if len(own) == len(full)]
            fits = [own for own in fits if all(n <= room for n, room in zip(own, full))]
            if not fits:
                wanted = " or ".join(map(str, accepted[owner][name]))
                raise ValueError(
                    f"additional {label} has shape {full}, but samples of shape {shape} need room for {wanted}"
                )
            columns[owner, name] = first + np.flatnonzero(block_mask(full, fits[0]))
            first += int(np.prod(full))
            shapes[owner, name] = fits[0]
        shapes = nested(shapes)
        for name, names in accepted.items():
            if None in names and name not in shapes:
                raise ValueError(f"the pairs named {name!r} need scores: pass additional={{{name!r}: ...}}")
        layout = graph.layout(shapes)
        joined = [columns[key] for key in layout.shapes]
        extra_columns = np.concatenate(joined) if joined else np.zeros(0, np.int64)
        own = np.flatnonzero(block_mask(padded, shape)) if len(graph.shapes) == 1 else np.arange(layout.n_variables)
        return PaddedGraph(layout, own, extra_columns, layout.fixed_size, graph.version())

    def tensor_solver(self, layout, device):
        """Return a function ``solve(scores, additional)`` in operations of PyTorch, and how many samples it may take.

        None for graphs with structures or tables as factors, and for those whose pair scores are products of features.
        See `_graphs.tensors.solve`.
        """
        if len(layout.arrays.structures) or layout.tables is not None or layout.mixes:
            return None
        from .._graphs import tensors

        return partial(tensors.solve, tensors.rows_of(layout, device)), tensors.samples_at_once(layout)

    def bounds(self, padded, n_lengths):
        """Return how lengths bound the axes of the variables; see `shapes_within`."""
        if n_lengths and self.structure.shapes is not None:
            raise ValueError("lengths need a function from shapes to graphs; one graph has variables of one shape")
        if n_lengths == 1 and len(padded) == 2 and padded[0] == padded[1] + 1:
            factors = [factor for factor in self.structure.of_shape(padded).factors if factor.type == STRUCTURE]
            if any(factor.structure.lengths.extra_rows == 1 and factor.shape == padded for factor in factors):
                return (0, 1), (0, 0)
        return tuple((column, 0) for column in range(min(n_lengths, len(padded))))

    def shapes_of(self, padded, lengths):
        """Return the shape of the variables of each sample, as an int array of shape (n_samples, n_axes)."""
        bounds = self.bounds(padded, lengths.shape[1])
        if bounds:
            trees = bounds[0] == (0, 1)
            what = "the words of each sentence" if trees else "the entries of each axis, or of the first one"
            check_lengths(lengths, padded[1:] if trees else padded, (1, len(padded)), what)
        return shapes_within(padded, lengths, bounds)

    def pack(self, scores, additional, lengths):
        """Return the batch laid out for the kernels: list of (rows, sample, `GraphBatch`), by shape."""
        n_samples = len(scores)
        padded = scores.shape[1:]
        shapes, kinds = distinct_rows(self.shapes_of(padded, lengths))
        scores = bound_masks(scores.reshape(n_samples, -1))
        additional = bound_masks(additional)
        groups = []
        _check_inside(scores, kinds, [self.sample_layout(padded, shape).entries for shape in shapes], "scores")
        columns = [self.sample_layout(padded, shape).extra_entries for shape in shapes]
        if len(additional) == 1:
            # All samples share these additional scores, so every column that some sample uses must be finite or -inf.
            _check_inside(additional, [0], [np.concatenate(columns)], "additional")
        else:
            _check_inside(additional, kinds, columns, "additional")
        for k, shape in enumerate(shapes):
            rows = np.flatnonzero(kinds == k)
            sample = self.sample_layout(padded, shape)
            everything = len(shapes) == 1 and len(sample.entries) == scores.shape[1]
            own = scores.copy() if everything else scores[rows[:, None], sample.entries]
            joined = additional[:1] if len(additional) == 1 else additional[rows]
            joined = sample.layout.expanded(joined[:, sample.extra_entries].T).T
            finite = np.isfinite(joined) | ~_of_pairs(sample.layout)
            if not finite.all():
                raise ValueError(f"pair scores contain {joined[~finite][0]}; they must be finite")
            own[own == -np.inf] = FORBIDDEN
            groups.append((rows, sample, GraphBatch(sample.layout, own, np.ascontiguousarray(joined), numbers=rows)))
        return groups

    def encode(self, sample, gold, shape, parts, additional):
        gold = gold if isinstance(gold, dict) else without_padding(gold, shape)
        parts[sample.entries], joint = gold_parts(sample.layout.graph, sample.layout, gold)
        put_joint(sample, np.array([0]), joint[None], additional[None])

    def check_decisions(self, flat, samples, padded, rows, lead):
        whole = samples[(flat[samples] == np.round(flat[samples])).all(axis=1) & (flat[samples] >= 0.0).all(axis=1)]
        shapes, kinds = distinct_rows(self.shapes_of(padded, rows[whole, 1:]))
        for i, k in zip(whole, kinds):
            sample = self.sample_layout(padded, shapes[k])
            try:
                gold_parts(sample.layout.graph, sample.layout, flat[i, sample.entries].reshape(shapes[k]))
            except ValueError as error:
                raise SampleError("decisions", position(i, lead), f": {error}") from error

    def best(self, scores, additional, lengths, cost):
        found = [None] * len(scores)
        late = {}
        for rows, sample, problems in self.pack(scores, additional, lengths):
            own = problems if sample.fixed_size else problems._replace(scores=problems.scores - cost)
            best = own.map(self.n_jobs, map_time_limit=MAP_TIME_LIMIT)
            late |= own.late_of(best)
            for i, assignment in zip(rows.tolist(), best.structure):
                found[i] = sample.layout.shape_assignment(assignment)
        warn_of_time_limit(late, MAP_TIME_LIMIT)
        return found

    def solve(self, scores, additional, lengths):
        return SolvedGraphs(self, scores, additional, lengths)


def _check_inside(values, graph_ids, columns, what):
    """Raise ValueError for NaN or +inf outside of the padding; sample i has the columns of kind ``graph_ids[i]``."""
    inside = np.zeros((len(columns), values.shape[1]), bool)
    for row, own in zip(inside, columns):
        row[own] = True
    check_values(np.where(inside[graph_ids], values, 0.0).ravel(), np.full(len(values), values.shape[1]), what)


def _of_pairs(layout):
    """Tell which additional scores belong to pairs."""
    mask = np.zeros(layout.n_additional, bool)
    mask[layout.arrays.additional_ptr[layout.arrays.pairs]] = True
    return mask


class SolvedGraphs:
    """Solutions of a padded batch; see `SolvedStructures`."""

    def __init__(self, operator, scores, additional, lengths):
        self._operator, self._shape = operator, scores.shape
        self._groups = operator.pack(scores, additional, lengths)
        solved = over_groups(self._solve, self._groups, operator.n_jobs)
        groups = [(rows, problems, solutions) for (rows, _, problems), solutions in zip(self._groups, solved)]
        again = solve_again if operator.max_iter is None else None
        self._batch = LPSparseMAPBatch(groups, len(scores), True, again, operator.tol, operator.n_jobs)
        self.values = self._batch.objective
        if operator.argmax == "sparsemap" and operator.max_iter is None:
            warn_if_inexact(self._batch.converged)
        self.marginals, self.additional = self._put([(own.marginals, own.joint) for own in solved])

    def _solve(self, group, n_jobs):
        (_, _, problems), operator = group, self._operator
        if operator.argmax == "map":
            solutions = relax(problems, operator.tol, n_jobs)
        elif operator.max_iter is None:
            solutions = solve_graph(problems, operator.tol, _EXACT, n_jobs=n_jobs)
        else:
            method = choose_solver(problems.layout)
            solutions = GraphSolver(method, operator.tol, operator.max_iter, n_jobs).run(problems)
        check_feasible(problems, solutions)
        return solutions

    def _put(self, values_of_groups):
        """Write values of the variables and the additional scores of each group to padded arrays."""
        n_samples = self._shape[0]
        unary = np.zeros((n_samples, int(np.prod(self._shape[1:]))))
        extra = np.zeros((n_samples, self._operator.n_additional))
        for (rows, sample, _), (own, joint) in zip(self._groups, values_of_groups):
            unary[rows[:, None], sample.entries] = own
            put_joint(sample, rows, joint, extra)
        return unary.reshape(self._shape), extra

    def products(self, unary, extra):
        """Multiply a direction of scores and additional scores, as padded arrays, with the Jacobian."""
        if self._operator.argmax != "sparsemap":
            # MAP is piecewise constant.
            return np.zeros_like(unary), np.zeros_like(extra)
        unary = unary.reshape(len(unary), -1)
        directions = []
        changes = []
        for rows, sample, _ in self._groups:
            directions.append(unary[rows[:, None], sample.entries])
            changes.append(sample.layout.expanded(extra[rows[:, None], sample.extra_entries].T).T)
        return self._put(self._batch.products(directions, changes))


def put_joint(graph, rows, joint, extra):
    """Write additional marginals, one entry for each pair, to padded arrays; those of a shared score are summed."""
    if graph.layout.expand is not None:
        joint = np.array([graph.layout.summed(own) for own in joint])
    extra[rows[:, None], graph.extra_entries] = joint
