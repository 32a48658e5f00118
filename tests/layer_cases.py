"""Small problems on which the layers of PyTorch and JAX are tried: every structure, and five kinds of graph."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sklearn_sparsemap.factors import AtMostOne, Budget, FactorGraph, Imply, Knapsack, Or, Pair, StructureFactor, Xor
from sklearn_sparsemap.structures import (
    CustomStructure,
    DependencyTree,
    LinearChain,
    Matching,
    Ranking,
    Segmentation,
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
            if name in ("pairs", "transitions") and value.ndim in (1, 3):
                # One for each pair of neighbours.
                value = value[: shape[0] - 1]
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
    """A row of variables, of which neighbours and those next to them have scores."""
    graph = FactorGraph()
    u = graph.variables(shape)
    graph.add(Pair(u[:-1], u[1:], name="pairs"), Pair(u[:-2], u[2:], name="far", tied=True))
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


def structure_cases():
    """Return a `Case` for each structure, by name."""
    chain, transitions, start, end = _draw(0, (3, 4, 3), (3, 3), (3,), (3,))
    steps, per_step = _draw(1, (3, 3, 2), (3, 2, 2, 2))
    (tree,), (matching,), (simplex,), (subset,) = (
        _draw(seed, shape) for seed, shape in ((2, (3, 5, 4)), (3, (3, 3, 4)), (4, (3, 5)), (5, (3, 6)))
    )
    runs, sizes = _draw(6, (3, 5), (2,))
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
            ("pairs", pairs, (5,), {"pairs": (4,), "far": ()}, [5, 4, 3], [(5,), (4,), (3,)]),
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
