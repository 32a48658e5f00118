"""Layers whose transforms are compared with finite differences, and the tables of transforms in the documentation."""

import re
from pathlib import Path

import numpy as np

import sklearn_sparsemap
from sklearn_sparsemap.factors import AtMostOne, FactorGraph, Xor
from sklearn_sparsemap.structures import LinearChain, Matching, Simplex

PAGE = Path(__file__).parents[2] / "doc" / "layers.rst"
TRANSFORMS = "grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "vmap", "vmap of grad"


def links():
    graph = FactorGraph()
    u = graph.variables((2, 3))
    graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
    return graph


_rng = np.random.default_rng(0)
TRANSITIONS = _rng.normal(size=(3, 3))
# Names of layers: what is solved, its additional scores, and the scores of two samples.
LAYERS = {
    "Simplex": (Simplex(), {}, 0.3 * _rng.normal(size=(2, 4))),
    "LinearChain": (LinearChain(), {"transitions": TRANSITIONS}, 0.5 * _rng.normal(size=(2, 3, 3))),
    "Matching": (Matching(), {}, 0.3 * _rng.normal(size=(2, 2, 3))),
    "FactorGraph": (links(), {}, 0.3 * _rng.normal(size=(2, 2, 3))),
}
WEIGHTS = {name: _rng.normal(size=scores.shape) for name, (_, _, scores) in LAYERS.items()}


def compiled_layers(transform, config):
    """Return the names of the layers for which a transform is compiled: the graph, and one of the structures in turn.

    All structures are one operation, and compiling takes long. With --thorough these are all layers.
    """
    if config.getoption("thorough"):
        return list(LAYERS)
    structures = [name for name in LAYERS if name != "FactorGraph"]
    turn = [*TRANSFORMS, "dual_level"].index(transform)
    return [structures[turn % len(structures)], "FactorGraph"]


def marginals(name, scores):
    """Return the marginals by the functions for NumPy."""
    what, additional, _ = LAYERS[name]
    if isinstance(what, FactorGraph):
        return np.array([sklearn_sparsemap.lp_sparsemap(what, own).marginals for own in scores])
    return np.array([sklearn_sparsemap.sparsemap(what, own, **additional).marginals for own in scores])


def expected(name):
    """Return the results of all transforms, computed from finite differences: dict of transform -> array.

    The marginals are piecewise linear, so that these are exact except for rounding.
    """
    scores, w, eps = LAYERS[name][2], WEIGHTS[name], 1e-5
    u = marginals(name, scores)
    moves = eps * np.eye(scores.size).reshape(-1, *scores.shape)
    jacobian = np.array([marginals(name, scores + m) - marginals(name, scores - m) for m in moves]) / (2.0 * eps)
    # Axes of the marginals first.
    jacobian = jacobian.reshape(scores.size, scores.size).T
    assert np.abs(jacobian).max() > 0.2
    product, square = (jacobian @ w.ravel()).reshape(scores.shape), jacobian.reshape(scores.shape * 2)
    hessian = 2.0 * (jacobian.T * w.ravel()) @ jacobian
    found = {"grad": product, "vjp": product, "jvp": product, "jacrev": square, "jacfwd": square}
    return found | {"hessian": hessian.reshape(scores.shape * 2), "vmap": u, "vmap of grad": product}


def table(first):
    """Return the table of the page whose first column has this heading: dict of row -> dict of column -> cell."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if re.split(r"\s{2,}", line.strip())[0] == first)
    heads, found = re.split(r"\s{2,}", lines[start].strip()), {}
    for line in lines[start + 2 :]:
        if line.startswith("==="):
            return found
        name, *cells = re.split(r"\s{2,}", line.strip())
        found[name] = dict(zip(heads[1:], cells, strict=True))
    raise ValueError(f"the table of {first!r} has no end")
