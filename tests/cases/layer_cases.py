"""Small problems on which the layers of PyTorch and JAX are tried: every structure, and five kinds of graph."""

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from naive_hyperpath import bracketings

import sklearn_sparsemap
from sklearn_sparsemap.factors import AtMostOne, Budget, FactorGraph, Imply, Knapsack, Or, Pair, StructureFactor, Xor
from sklearn_sparsemap.structures import (
    CustomStructure,
    DependencyTree,
    HeadAutomaton,
    Hyperpath,
    LinearChain,
    Matching,
    Ranking,
    Segmentation,
    SequenceBudget,
    Simplex,
    Subset,
)


@dataclass
class Case:
    """A structure or a graph with scores of three samples; additional scores by name, flat names for graphs.

    `lengths` are those of the samples of a padded batch, `shapes` the shapes that they stand for.
    """

    what: Any
    scores: np.ndarray
    additional: dict
    lengths: Any = None
    shapes: Any = None
    own: tuple = ()

    @property
    def is_graph(self):
        return isinstance(self.what, FactorGraph)

    def sample(self, i):
        """Return the scores and the additional scores of sample `i` without padding."""
        shape = self.shapes[i]
        scores, additional = _corner(self.scores[i], shape), {}
        for name, value in self.additional.items():
            value = value[i] if name in self.own else value
            if name == "transitions" and value.ndim == 3:
                # One for each pair of neighbours.
                value = value[: shape[0] - 1]
            elif name == "pairs":
                value = value[:, : shape[0] - 1]
            elif name == "siblings":
                value = _corner(value, (shape[0] + 1,) * 2)
            elif name.startswith("chain/"):
                value = _corner(value, (shape[1],) * value.ndim)
            additional[name] = value
        return scores, additional


def _corner(array, shape):
    return array[tuple(slice(n) for n in shape)]


def nested(flat):
    """Return additional scores of a graph, by ``"owner"`` or ``"owner/name"``, as dicts in dicts."""
    out = {}
    for key, value in flat.items():
        owner, _, name = key.partition("/")
        if name:
            out.setdefault(owner, {})[name] = value
        else:
            out[owner] = value
    return out


def of_one_vector(function, inputs):
    """Return a function of tensors as one of a vector, and this vector: `gradcheck` then has one input to move."""
    vector = inputs[0].new_tensor(np.concatenate([part.detach().ravel() for part in inputs])).requires_grad_()
    sizes = [part.numel() for part in inputs]

    def of_vector(vector):
        return function(*[part.reshape(own.shape) for part, own in zip(vector.split(sizes), inputs)])

    return of_vector, vector


def heaviest_run(scores, additional):
    """Return the best two or three neighbours, and the place of the score of their number."""
    runs = [(scores[i : i + n].sum() + additional[n - 2], i, n) for n in (2, 3) for i in range(len(scores) - n + 1)]
    value, first, n = max(runs)
    return None if value == -np.inf else (range(first, first + n), [n - 2])


RUNS = CustomStructure(heaviest_run, additional={"sizes": (2,)}, encode=lambda parts: (parts, [len(parts) - 2]))


def logic(shape):
    """Rows with at least one, columns with at most two, and an implication."""
    graph = FactorGraph()
    u = graph.variables(shape)
    graph.add(*[Or(row) for row in u], *[Budget(column, 1) for column in u.T], Imply([u[0, 0], ~u[-1, -1]]))
    few = [u[0, 0], u[0, 1], u[-1, 0]][: 1 + shape[0]]
    graph.add(Knapsack(few, [1.0, 2.0, 3.0][: len(few)], 4.0))
    return graph


def pairs(shape):
    """A row of variables, of which neighbours and those next to them have scores.

    With two axes, the scores of neighbours cannot be taken for one of each sample.
    """
    graph = FactorGraph()
    u = graph.variables(shape)
    graph.add(Pair(u[None, :-1], u[None, 1:], name="pairs"), Pair(u[:-2], u[2:], name="far", tied=True))
    return graph


def budgeted_tree(shape):
    """A tree in which no head has more than two modifiers."""
    graph = FactorGraph()
    u = graph.variables(shape)
    graph.add(StructureFactor(DependencyTree(), u), *[Budget(row, 2) for row in u])
    return graph


def lp_matching(shape):
    """Rows with one column each, columns with at most one row."""
    graph = FactorGraph()
    u = graph.variables(shape)
    graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
    return graph


def lp_sequence(shape):
    """A chain whose states are used at most once."""
    graph = FactorGraph()
    u = graph.variables(shape)
    graph.add(StructureFactor(LinearChain(), u, name="chain"), *[AtMostOne(column) for column in u.T])
    return graph


def _draw(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def trees_by_shape(shape):
    """Return the hypergraph of the trees over 2, 3 or 4 words, by its number of hyperarcs."""
    return bracketings({1: 2, 4: 3, 10: 4}[shape[0]])[:2]


def structure_cases():
    """Return a `Case` for each structure, by name."""
    chain, transitions, start, end = _draw(0, (3, 4, 3), (3, 3), (3,), (3,))
    steps, per_step = _draw(1, (3, 3, 2), (3, 2, 2, 2))
    (tree,), (matching,), (simplex,), (subset,) = (
        _draw(seed, shape) for seed, shape in ((2, (3, 5, 4)), (3, (3, 3, 4)), (4, (3, 5)), (5, (3, 6)))
    )
    runs, sizes = _draw(6, (3, 5), (2,))
    (siblings,) = _draw(7, (6, 6))
    (brackets,) = _draw(8, (3, 10))
    two = [(4, 3), (3, 3), (1, 3)]
    words, cells = [(5, 4), (3, 2), (2, 1)], [(3, 4), (2, 3), (1, 1)]
    return {
        "chain": Case(
            LinearChain(), chain, {"transitions": transitions, "start": start, "end": end}, np.array([4, 3, 1]), two
        ),
        "chain of steps": Case(
            LinearChain(),
            steps,
            {"transitions": per_step},
            np.array([3, 2, 1]),
            [(3, 2), (2, 2), (1, 2)],
            ("transitions",),
        ),
        "segmentation": Case(
            Segmentation(2), chain, {"durations": transitions[:2], "transitions": transitions}, np.array([4, 3, 1]), two
        ),
        "budget": Case(
            SequenceBudget(0.5), chain, {"transitions": transitions, "start": start}, np.array([4, 3, 1]), two
        ),
        "tree": Case(DependencyTree(), 0.5 * tree, {}, np.array([4, 2, 1]), words),
        "single-root tree": Case(DependencyTree(single_root=True), tree, {}, np.array([4, 2, 1]), words),
        "projective tree": Case(DependencyTree(projective=True), tree, {}, np.array([4, 2, 1]), words),
        "labelled tree": Case(
            DependencyTree(n_labels=2),
            np.stack([tree, tree[::-1]], axis=-1)[:, :4, :3],
            {},
            np.array([3, 2, 1]),
            [(4, 3, 2), (3, 2, 2), (2, 1, 2)],
        ),
        "matching": Case(Matching(), 0.5 * matching, {}, np.array([[3, 4], [2, 3], [1, 1]]), cells),
        "simplex": Case(Simplex(), simplex, {}, np.array([5, 3, 1]), [(5,), (3,), (1,)]),
        "subset": Case(Subset(max_size=2), subset, {}, np.array([6, 4, 1]), [(6,), (4,), (1,)]),
        "ranking": Case(Ranking(), simplex, {}, np.array([5, 3, 1]), [(5,), (3,), (1,)]),
        "modifiers": Case(HeadAutomaton(), simplex, {"siblings": siblings}, np.array([5, 3, 1]), [(5,), (3,), (1,)]),
        "hyperpath": Case(Hyperpath(trees_by_shape), brackets, {}, np.array([10, 4, 1]), [(10,), (4,), (1,)]),
        "custom": Case(RUNS, runs, {"sizes": sizes}, np.array([5, 4, 3]), [(5,), (4,), (3,)]),
    }


@lru_cache
def _graph(function, shape):
    return function(shape)


def graph_cases():
    """Return a `Case` for each kind of graph, by name; the graphs are of the padded shape."""
    cases = {}
    for seed, (name, function, shape, extra, lengths, shapes) in enumerate(
        (
            ("logic", logic, (2, 3), {}, [[2, 3], [2, 2], [1, 3]], [(2, 3), (2, 2), (1, 3)]),
            ("pairs", pairs, (5,), {"pairs": (1, 4), "far": ()}, [5, 4, 3], [(5,), (4,), (3,)]),
            ("tree + budget", budgeted_tree, (5, 4), {}, [4, 3, 1], [(5, 4), (4, 3), (2, 1)]),
            ("LP-matching", lp_matching, (2, 3), {}, [[2, 3], [1, 2], [1, 1]], [(2, 3), (1, 2), (1, 1)]),
            (
                "LP-sequence",
                lp_sequence,
                (3, 4),
                {"chain/transitions": (4, 4), "chain/start": (4,)},
                [[3, 4], [2, 3], [1, 2]],
                [(3, 4), (2, 3), (1, 2)],
            ),
        )
    ):
        scores, *values = _draw(20 + seed, (3, *shape), *extra.values())
        case = Case(_graph(function, shape), 0.5 * scores, dict(zip(extra, values)), np.array(lengths), shapes)
        cases[name] = case
    return cases


FUNCTIONS = {
    "logic": logic,
    "pairs": pairs,
    "tree + budget": budgeted_tree,
    "LP-matching": lp_matching,
    "LP-sequence": lp_sequence,
}


def all_cases():
    """Return all cases by name."""
    return {**structure_cases(), **graph_cases()}


@dataclass
class Masked:
    """A batch with leading axes, a mask, and samples of which nothing is left.

    `shape_of[i]` is the shape of sample i without padding, None if it is empty. `flat` has the same samples along one
    axis, with additional scores of their own.
    """

    what: Any
    scores: np.ndarray
    mask: np.ndarray
    lengths: Any
    additional: dict
    flat: Case
    shape_of: list

    @property
    def lead(self):
        return self.scores.shape[: self.scores.ndim - self.flat.scores.ndim + 1]


def masked(name, from_function=False):
    """Return the case of this name as a `Masked` batch; that of a graph from a function has one leading axis."""
    case = all_cases()[name]
    rng = np.random.default_rng(7)
    padded, n = case.scores.shape[1:], 9
    scores, mask = rng.normal(size=(n, *padded)), rng.random((n, *padded)) < 0.8
    has_lengths = from_function or not case.is_graph
    what = FUNCTIONS[name] if from_function else case.what
    shape_of, lengths = [padded] * n, None
    if has_lengths:
        lengths = np.array(case.lengths)[np.arange(n) % 3].reshape(n, -1)
        shape_of = [case.shapes[i % 3] for i in range(n)]
        # A length of zero, and a mask that leaves parts in the padding only.
        lengths[3, -1], shape_of[3] = 0, None
        inside = np.zeros(padded, bool)
        inside[tuple(slice(size) for size in shape_of[5])] = True
        mask[5], shape_of[5] = ~inside, None
    mask[4], shape_of[4] = False, None
    additional, own = {}, {}
    for k, (key, value) in enumerate(case.additional.items()):
        shape = value.shape[1:] if key in case.own else value.shape
        axes = (3, 3) if key in case.own else ((3, 3), (3, 1), ())[k % 3]
        if from_function:
            axes = (n,) if key in case.own or k % 2 else ()
        additional[key] = rng.normal(size=(*axes, *shape))
        lead = (n,) if from_function else (3, 3)
        spread = additional[key] if axes else additional[key][(None,) * len(lead)]
        own[key] = np.broadcast_to(spread, (*lead, *shape)).reshape(n, *shape)
    shapes = [padded if shape is None else shape for shape in shape_of]
    flat = Case(case.what, scores, own, lengths, shapes, tuple(own))
    for i, shape in enumerate(shape_of):
        if shape is None:
            continue
        try:
            _solve_masked(name, flat, mask, i)
        except ValueError as error:
            assert "infeasible" in str(error)
            mask[i] = True
    lead = (n,) if from_function else (3, 3)
    if has_lengths and lengths.shape[1] == 1:
        lengths = lengths[:, 0]
    if lengths is not None:
        lengths = lengths.reshape(*lead, *lengths.shape[1:])
    return Masked(
        what, scores.reshape(*lead, *padded), mask.reshape(*lead, *padded), lengths, additional, flat, shape_of
    )


def _solve_masked(name, flat, mask, i):
    own, additional = flat.sample(i)
    own = np.where(_corner(mask[i], flat.shapes[i]), own, -np.inf)
    if flat.is_graph:
        graph = _graph(FUNCTIONS[name], tuple(flat.shapes[i]))
        return sklearn_sparsemap.lp_sparsemap(graph, own, additional=nested(additional), tol=1e-10)
    return sklearn_sparsemap.sparsemap(flat.what, own, **additional)


def masked_twin(name, batch, weights):
    """Solve the samples of a `Masked` batch one by one in NumPy.

    Returns
    -------
    marginals, gradient : arrays, like the scores
        The gradient is that of the sum of marginals, multiplied by `weights`.
    additional_gradients : dict of arrays, in the shapes of the additional scores
    n_solved : int
    """
    flat, shape = batch.flat, batch.scores.shape
    mask, weights = batch.mask.reshape(flat.scores.shape), weights.reshape(flat.scores.shape)
    marginals, gradient = np.zeros(flat.scores.shape), np.zeros(flat.scores.shape)
    changes, n_solved = {key: np.zeros(value.shape) for key, value in flat.additional.items()}, 0
    for i, own in enumerate(batch.shape_of):
        if own is None:
            continue
        result = _solve_masked(name, flat, mask, i)
        place = (i, *[slice(size) for size in own])
        marginals[place] = result.marginals
        found = result.vjp(weights[place])
        gradient[place] = found["scores"]
        for key in changes:
            part = found
            for step in ["additional", *key.split("/")] if flat.is_graph else [key]:
                part = part[step]
            changes[key][(i, *[slice(size) for size in np.shape(part)])] = part
        n_solved += 1
    sums = {}
    for key, value in batch.additional.items():
        own = changes[key].reshape(*batch.lead, *flat.additional[key].shape[1:])
        if value.ndim < own.ndim:
            own = own.sum(tuple(range(len(batch.lead))))
        else:
            axes = tuple(axis for axis in range(own.ndim) if value.shape[axis] == 1)
            own = own.sum(axes, keepdims=True)
        sums[key] = own
    assert prod(shape) == flat.scores.size
    return marginals.reshape(shape), gradient.reshape(shape), sums, n_solved
