"""Training parsers where scores stay small: losses by facets, as they choose, and by the active set alone.

    python benchmarks/strong_penalties.py --data ../shared/data [--sentences 200]

Of the first English sentences of UD: CPU seconds of eight iterations of L-BFGS from zero, and of six epochs of AdaGrad,
by loss and penalty, on one thread; and how far the weights of the two are from each other.
"""

import argparse
import warnings
from pathlib import Path
from time import thread_time
from unittest import mock

import numpy as np

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conllu
from sklearn_sparsemap.features import ArcVectorizer, dependency_templates
from sklearn_sparsemap.losses._fenchel_young import inference_of
from sklearn_sparsemap.numerics.polytope_solver import solvers_of
from sklearn_sparsemap.structures import DependencyTree


def by_structures(structure, name):
    """Stand in for `inference_of`, without facets."""
    oracle, solvers = inference_of(structure, name)
    return oracle, solvers_of(None, solvers.by_structures)


def fit(X, y, by_facets, **parameters):
    """Return the CPU seconds of a fit, and its weights."""
    model = StructuredSparseMAPClassifier(DependencyTree(single_root=True), n_jobs=1, random_state=0, **parameters)
    chosen = inference_of if by_facets else by_structures
    with mock.patch("sklearn_sparsemap.training._structure_task.inference_of", chosen):
        began = thread_time()
        model.fit(X, y)
    return thread_time() - began, model.coef_


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--alphas", nargs="+", type=float, default=[0.01, 0.1, 1.0, 10.0, 100.0])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    sentences, heads = load_conllu(Path(arguments.data) / "ud/en_ewt-r2.0/train.conllu.gz")
    sentences, heads = sentences[: arguments.sentences], heads[: arguments.sentences]
    X = ArcVectorizer(dependency_templates(fine_pos="xpos"), n_features=2**18, n_jobs=1).fit_transform(sentences)
    for solver, max_iter in (("lbfgs", 8), ("adagrad", 6)):
        for by_facets in (True, False):
            fit(X[:2], heads[:2], by_facets, solver=solver, max_iter=1)
        for loss in ("sparsemap", "margin_sparsemap"):
            for alpha in arguments.alphas:
                (slow, expected), (quick, coef) = (
                    fit(X, heads, by_facets, loss=loss, solver=solver, alpha=alpha, max_iter=max_iter)
                    for by_facets in (False, True)
                )
                away = np.abs(coef - expected).max() / np.abs(expected).max()
                print(
                    f"{solver:8} {loss:17} alpha {alpha:<6g} active set {slow:7.2f} s, as chosen {quick:6.2f} s "
                    f"({slow / quick:.1f} times), weights differ by {away:.0e}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
