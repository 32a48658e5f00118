"""Compilation ahead of time, for container images, continuous integration and demonstrations."""

from __future__ import annotations

import argparse
import logging
import os
import warnings
from collections.abc import Iterable
from functools import partial
from time import perf_counter

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy.sparse import csr_array

from ._core.jit import compiling_is_expected
from ._core.validation import check_n_jobs
from .estimators import GroupLassoPerceptron, MultilabelLPSparseMAP, StructuredSparseMAPClassifier
from .factors import AtMostOne, Budget, FactorGraph, Hierarchy, Imply, Pair, StructureFactor, Xor
from .features import ArcVectorizer, TemplateVectorizer, TokenDictVectorizer
from .inference import lp_sparsemap, map_inference, marginal_inference, sparsemap
from .numerics.polytope_solver import prefer_range
from .structures import DependencyTree, LinearChain, Matching, Simplex, Subset

logger = logging.getLogger("sklearn_sparsemap")


def _structure(structure):
    scores = np.ones(structure.example_shapes()[-1])
    own = structure.polytope_solver
    for solver in ("active_set",) if own is None else ("auto", "active_set", own.name):
        sparsemap(structure, scores, solver=solver).vjp(scores)
        sparsemap(structure, [scores, scores], solver=solver).vjp([scores, scores])
    if own is not None:
        # These choose the solver of larger problems.
        for chooses in (own.budget, own.prefers, prefer_range):
            if chooses is not None:
                _ = chooses.dispatcher
    map_inference(structure, scores)
    if structure.marginal_oracle is not None:
        marginal_inference(structure, scores)


def _graphs():
    graph = FactorGraph()
    u = graph.variables((3, 3))
    graph.add(Xor(u[0]), AtMostOne(u[1]), Imply([u[0, 0], u[2, 1]]), Budget(u[2], 2))
    result = lp_sparsemap(graph, np.eye(3))
    result.vjp(np.eye(3))
    result.jvp(scores=np.eye(3))
    map_inference(graph, np.eye(3))
    matching = FactorGraph()
    u = matching.variables((2, 2))
    matching.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
    lp_sparsemap(matching, np.eye(2))


def _structured_graphs():
    graph = FactorGraph()
    arcs, states = graph.variables((4, 3), name="arcs"), graph.variables((3, 2), name="states")
    graph.add(StructureFactor(DependencyTree(), arcs), *[Budget(row, 2) for row in arcs])
    graph.add(StructureFactor(LinearChain(), states, name="chain"), Pair(arcs[0], states[:, 0], name="pairs"))
    scores = {"arcs": np.eye(4, 3), "states": np.eye(3, 2)}
    for solver in ("newton", "block"):
        lp_sparsemap(graph, scores, additional={"pairs": 0.5}, solver=solver).vjp(scores)


def _classifier():
    X, y = [np.eye(3)[[0, 1, 2, 0]]] * 4, [[0, 1, 2, 0]] * 4
    for loss, solver in (("sparsemap", "lbfgs"), ("sparsemap", "adagrad"), ("hinge", "mira"), ("crf", "lbfgs")):
        model = StructuredSparseMAPClassifier("chain", loss=loss, solver=solver, max_iter=2).fit(X, y)
        model.predict(X)
        model.predict_marginals(X)
        model.predict_structures(X)
    StructuredSparseMAPClassifier("chain", "crf", solver="lbfgs", max_iter=2).fit(list(map(csr_array, X)), y)


def _multilabel():
    X = np.random.default_rng(0).normal(size=(60, 4))
    Y = (X[:, :3] > 0).astype(int)
    for loss in ("sparsemap", "hinge", "logistic"):
        MultilabelLPSparseMAP("full", loss=loss, solver="adam", max_iter=2, random_state=0).fit(X, Y).predict(X)
    rules = Hierarchy([None, 0, None])
    MultilabelLPSparseMAP(constraints=rules, decision="map").fit(X, np.maximum(Y, Y[:, [1, 1, 2]])).predict(X)
    MultilabelLPSparseMAP(max_iter=2).fit(csr_array(X * (X > 0)), Y)


def _groups():
    X = np.random.default_rng(0).normal(size=(60, 4))
    model = GroupLassoPerceptron(groups=[0, 0, 1, 1], budget=1, max_iter=2, random_state=0)
    model.fit(X, X[:, 0] > 0).predict(X)


def _features():
    TokenDictVectorizer().fit_transform([[{"word": "a"}]])
    for n_features in (None, 64):
        TemplateVectorizer(["word[0]"], n_features=n_features).fit_transform([["a", "b"]])
        ArcVectorizer(["head.word[0]"], n_features=n_features).fit_transform([[{"word": "a"}, {"word": "b"}]])


# The values of `what` in `compile`, slowest first, so that parallel processes end at about the same time.
_USES = {
    "structured_graphs": _structured_graphs,
    "graphs": _graphs,
    "classifier": _classifier,
    "groups": _groups,
    "multilabel": _multilabel,
    "features": _features,
    "tree": partial(_structure, DependencyTree()),
    "projective": partial(_structure, DependencyTree(projective=True)),
    "chain": partial(_structure, LinearChain()),
    "matching": partial(_structure, Matching()),
    "subset": partial(_structure, Subset()),
    "simplex": partial(_structure, Simplex()),
}


def compile(what: str | Iterable[str] | None = None, n_jobs: int | None = None) -> None:
    """Compile ahead of time, so that first uses are fast.

    Compiled code is stored in the package, or in ``NUMBA_CACHE_DIR``, and later processes load it in a fraction of a
    second. This is useful before tests, or while a container image is built. Progress is logged by the logger
    ``"sklearn_sparsemap"`` at level INFO. The command ``python -m sklearn_sparsemap.compile`` does the same, and shows
    the progress.

    Parameters
    ----------
    what : str or list of str, default=None
        The uses to compile for: one or several of ``"chain"``, ``"tree"``, ``"projective"`` (trees), ``"matching"``,
        ``"simplex"``, ``"subset"``, ``"graphs"`` (logic and pairs), ``"structured_graphs"``, ``"classifier"``,
        ``"multilabel"``, ``"groups"``, ``"features"``. By default, all of them, about a minute of CPU time.
    n_jobs : int, default=None
        Number of processes. Default: one for each core.

    Raises
    ------
    ValueError
        If a value is not in this list.

    Examples
    --------
    >>> import sklearn_sparsemap
    >>> sklearn_sparsemap.compile("simplex", n_jobs=1)
    """
    names = list(_USES) if what is None else [what] if isinstance(what, str) else list(what)
    unknown = [name for name in names if name not in _USES]
    if unknown or not names:
        raise ValueError(f"what={(unknown or names)!r} cannot be compiled; choose among {', '.join(sorted(_USES))}")
    check_n_jobs(n_jobs)
    n_processes = min(len(names), effective_n_jobs(os.cpu_count() if n_jobs is None else n_jobs))
    ordered = [name for name in _USES if name in names]
    began = perf_counter()
    done = Parallel(n_processes, return_as="generator_unordered")(delayed(_use)(name) for name in ordered)
    for count, (name, seconds) in enumerate(done, 1):
        logger.info("%d/%d: %s in %.1f s", count, len(ordered), name, seconds)
    logger.info("all in %.1f s", perf_counter() - began)


def _use(name):
    """Run the functions for one value of `what`; return this value and the time in seconds."""
    began = perf_counter()
    # The models stop before they converge, which would warn.
    with compiling_is_expected(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _USES[name]()
    return name, perf_counter() - began


def main(arguments=None):
    """Parse the command line, compile, and show progress on standard error."""
    about = compile.__doc__.splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m sklearn_sparsemap.compile", description=about)
    parser.add_argument("what", nargs="*", help=f"some of {', '.join(sorted(_USES))}; all if nothing is given")
    parser.add_argument("--n-jobs", type=int, help="number of processes; one for each core if not given")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    logger.setLevel(logging.INFO)
    try:
        compile(options.what or None, options.n_jobs)
    except ValueError as error:
        parser.error(str(error))
