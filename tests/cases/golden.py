"""The golden record: what all estimators, losses, solvers and structures give on small data, to hold moves against.

    python tests/cases/golden.py record before.npz
    python tests/cases/golden.py compare before.npz [--atol 1e-12]

`record` writes the arrays of all cases of the present sources, `compare` computes them again and lists what differs:
in any bit, or by more than `--atol`. A record belongs to one machine and one set of libraries, so none is kept here.
"""

import argparse
import sys
import warnings

import numpy as np
from registry import RANDOM

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    StructuredSparseMAPClassifier,
    lp_sparsemap,
    map_inference,
    marginal_inference,
    perceptron_path,
    sparsemap,
)
from sklearn_sparsemap.factors import (
    AndOut,
    AtMost,
    AtMostOne,
    Budget,
    Exclusive,
    FactorGraph,
    Implies,
    Imply,
    Knapsack,
    Or,
    OrOut,
    Pair,
    StructureFactor,
    Xor,
    XorOut,
)
from sklearn_sparsemap.features import ArcVectorizer, TemplateVectorizer, dependency_templates
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.penalties import GroupTree
from sklearn_sparsemap.score_models import Network
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Simplex, Subset

LOSSES = ("sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf")
SCALES = (0.1, 1.0, 10.0)


def flatten(value, name, into):
    """Put all numbers of a nested value into a dict of arrays, by path."""
    if isinstance(value, dict):
        for key, part in value.items():
            flatten(part, f"{name}/{key}", into)
    elif isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype == object):
        for i, part in enumerate(value):
            flatten(part, f"{name}/{i}", into)
    elif hasattr(value, "toarray"):
        into[name] = value.toarray()
    elif value is not None:
        into[name] = np.asarray(value)


def of_sparsemap(result, v):
    found = {name: getattr(result, name) for name in ("marginals", "weights", "objective", "gap", "n_iter")}
    found["structures"] = result.structures
    found["additional"] = result.additional_marginals
    found["vjp"], found["jvp"] = result.vjp(v), result.jvp(scores=v)
    try:
        found["weights_vjp"] = result.weights_vjp(np.arange(len(result.weights), dtype=float))
    except ValueError:
        # The weights are not unique.
        found["weights_vjp"] = "none"
    return found


def inference_cases():
    """Yield what inference gives for every structure, solver and scale."""
    for kind, draw in RANDOM.items():
        rng = np.random.default_rng(0)
        for scale in SCALES:
            for forbid in (False, True):
                instance = draw(rng, scale=scale, forbid=forbid)
                structure, scores, additional = instance.structure, instance.scores, instance.additional
                v = rng.normal(size=scores.shape)
                name = f"inference/{kind}/{scale}/{forbid}"
                yield f"{name}/map", lambda: tuple(map_inference(structure, scores, **additional))
                for solver in ("active_set", "away_step", "pairwise"):
                    yield (
                        f"{name}/{solver}",
                        lambda: of_sparsemap(
                            sparsemap(structure, scores, solver=solver, max_iter=2000, **additional), v
                        ),
                    )
                if structure.marginal_oracle is not None:
                    yield f"{name}/gibbs", lambda: list(vars_of(marginal_inference(structure, scores, **additional)))
    rng = np.random.default_rng(1)
    batches = {
        "chain": (LinearChain(), [rng.normal(size=(n, 5)) for n in (1, 8, 20)], {"transitions": np.eye(5)}),
        "tree": (DependencyTree(), [rng.normal(size=(n + 1, n)) for n in (3, 12, 25)], {}),
        "matching": (Matching(), [rng.normal(size=shape) for shape in ((4, 4), (6, 9), (15, 15))], {}),
        "subset": (Subset(1, 6), [rng.normal(size=n) for n in (6, 20)], {}),
        "simplex": (Simplex(), [rng.normal(size=n) for n in (3, 50)], {}),
    }
    for kind, (structure, scores, additional) in batches.items():
        yield (
            f"batch/{kind}",
            lambda: [
                of_sparsemap(result, np.cos(np.arange(s.size)).reshape(s.shape))
                for result, s in zip(sparsemap(structure, scores, n_jobs=2, **additional), scores)
            ],
        )
        for loss in LOSSES:
            if structure.marginal_oracle is None and "crf" in loss:
                continue
            gold = [r.structure for r in map_inference(structure, [s + 1.0 for s in scores], **additional)]
            yield (
                f"loss/{kind}/{loss}",
                lambda: FenchelYoungLoss(structure, loss, temperature=0.7).loss_gradient(scores, gold, **additional),
            )


def vars_of(result):
    return result.marginals, result.additional_marginals, result.log_partition


def make_graphs():
    """Return graphs with their additional scores, by name."""
    graphs = {}

    def new(name, shape=(3, 4)):
        graph = FactorGraph()
        graphs[name] = graph, {}
        return graph, graph.variables(shape)

    graph, u = new("logic")
    graph.add(Xor(u[0]), AtMostOne(u[1]), Or(u[2]), OrOut([u[0, 0], u[1, 1], u[2, 2]]))
    graph.add(XorOut([u[0, 1], u[1, 2], ~u[2, 3]]))
    graph, u = new("more logic")
    graph.add(AndOut([u[0, 0], u[1, 0], u[2, 0]]), Imply([u[0, 1], u[1, 1]]), Budget(u[2], 2))
    graph.add(Knapsack(u[1], [1, 2, 3, 4], 5))
    graph, u = new("matching")
    graph.add(*[Xor(row) for row in u], *[AtMostOne(u[:, j]) for j in range(4)])
    graph, u = new("pairs", 6)
    first, second = np.triu_indices(6, 1)
    graph.add(Pair(u[first], u[second], name="pairs"))
    graphs["pairs"][1]["pairs"] = np.random.default_rng(2).normal(size=15)
    graph, u = new("tree and budgets", (6, 5))
    graph.add(StructureFactor(DependencyTree(), u), *[Budget(row, 2) for row in u[1:]])
    graph, u = new("sequence")
    graph.add(StructureFactor(LinearChain(), u, name="chain"), *[AtMostOne(u[:, j]) for j in range(4)])
    graphs["sequence"][1]["chain"] = {"transitions": np.random.default_rng(3).normal(size=(4, 4))}
    graph, u = new("two chains", (3, 3))
    graph.add(StructureFactor(LinearChain(), u, name="down"), StructureFactor(LinearChain(), u.T, name="across"))
    return graphs


def graph_cases():
    """Yield what inference in factor graphs gives."""
    for name, (graph, additional) in make_graphs().items():
        shape = next(iter(graph.shapes.values()))
        rng = np.random.default_rng(4)
        for scale in SCALES:
            scores, v = scale * rng.normal(size=(3, *shape)), rng.normal(size=shape)
            solvers = ["auto", "block", "admm"] + (["pairwise"] if name == "pairs" else [])
            for solver in solvers:

                def solve():
                    results = lp_sparsemap(graph, list(scores), additional=additional, solver=solver)
                    return [
                        (r.marginals, r.additional_marginals, r.objective, r.gap, r.n_iter, r.vjp(v), r.jvp(scores=v))
                        for r in results
                    ]

                yield f"graph/{name}/{scale}/{solver}", solve
            yield (
                f"graph/{name}/{scale}/map",
                lambda: [tuple(r) for r in map_inference(graph, list(scores), additional=additional)],
            )


def of_estimator(model, X, *methods):
    names = "coef_ intercept_ transitions_ start_ end_ loss_curve_ n_iter_ edge_scores_ coefs_ intercepts_ threshold_"
    names += " selected_groups_ group_norms_ sigma_ n_nonzero_coefs_ memory_curve_ validation_scores_"
    found = {name: getattr(model, name) for name in names.split() if getattr(model, name, None) is not None}
    for method in methods:
        if hasattr(model, method):
            found[method] = getattr(model, method)(X)
    return found


def make_samples(kind, seed=5):
    """Return structured samples with random weights behind them."""
    rng = np.random.default_rng(seed)
    if kind == "multiclass":
        X = rng.normal(size=(60, 4))
        return X, (X @ rng.normal(size=(4, 3))).argmax(axis=1)
    structure = {"chain": LinearChain(), "tree": DependencyTree(), "matching": Matching(), "subset": Subset()}[kind]
    X, y = [], []
    w = rng.normal(size=(3, 3 if kind == "chain" else 1))
    for _ in range(16):
        n = int(rng.integers(2, 6))
        shape = {"chain": (n, 3), "tree": (n + 1, n), "matching": (n, n), "subset": (n,)}[kind]
        x = rng.normal(size=(n if kind == "chain" else int(np.prod(shape)), 3))
        X.append(x)
        y.append(map_inference(structure, (x @ w).reshape(shape)).structure)
    return X, y


def neighbours(x):
    graph = FactorGraph()
    u = graph.variables(x.shape[0], name="on")
    graph.add(Budget(u, x.shape[0]))
    if x.shape[0] > 1:
        graph.add(Pair(u[:-1], u[1:], name="neighbours", tied=True))
    return graph


def estimator_cases():
    """Yield what every estimator learns."""
    methods = ("predict", "predict_marginals", "predict_structures", "predict_proba", "decision_function")
    for kind in ("multiclass", "chain", "tree", "matching", "subset"):
        X, y = make_samples(kind)
        structure = {"multiclass": "auto", "subset": Subset()}.get(kind, kind)
        for loss in LOSSES:
            if kind == "matching" and "crf" in loss:
                continue
            for solver in ("lbfgs", "adagrad") + (("mira",) if loss == "hinge" else ()):
                if solver == "lbfgs" and loss in ("perceptron", "hinge"):
                    continue

                def fit():
                    model = StructuredSparseMAPClassifier(
                        structure, loss=loss, solver=solver, alpha=0.01, max_iter=8, random_state=0, temperature=0.8
                    ).fit(X, y)
                    return of_estimator(model, X, *methods) | {"score": model.score(X, y)}

                yield f"classifier/{kind}/{loss}/{solver}", fit
    X, y = make_samples("subset")
    for loss in ("sparsemap", "margin_sparsemap", "perceptron", "hinge"):
        for solver in ("lbfgs", "adagrad"):
            if solver == "lbfgs" and loss in ("perceptron", "hinge"):
                continue

            def fit_graphs():
                model = StructuredSparseMAPClassifier(
                    neighbours, loss=loss, solver=solver, alpha=0.01, max_iter=6, random_state=0
                ).fit(X, y)
                return of_estimator(model, X, "predict", "predict_marginals", "decision_function")

            yield f"classifier/graphs/{loss}/{solver}", fit_graphs
    X, y = make_samples("chain")

    def stream():
        model = StructuredSparseMAPClassifier("chain", random_state=0)
        for start in range(0, 16, 4):
            model.partial_fit(X[start : start + 4], y[start : start + 4], classes=[0, 1, 2])
        return of_estimator(model, X, "predict")

    yield "classifier/stream", stream
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 5))
    Y = (X[:, :4] + 0.5 * rng.normal(size=(80, 4)) > 0.3).astype(int)
    rules = [Implies(0, 1), AtMost(3), Exclusive([2, 3])]
    for loss in ("sparsemap", "hinge", "logistic"):
        for graph in ("full", "tree", None):
            for hidden in ((), (7,)):
                for constraints in (None, rules) if loss != "logistic" else (None,):
                    for decision in ("threshold", "map"):
                        if loss == "logistic" and graph != "full":
                            continue

                        def fit_labels():
                            network = Network(hidden, dropout=0.1, batch_size=20)
                            scores = network if hidden else "linear"
                            model = MultilabelLPSparseMAP(
                                graph, constraints, scores, loss=loss, max_iter=3, batch_size=20, decision=decision,
                                threshold=0.4, random_state=0, solver="adam", alpha=1e-4,
                            ).fit(X, Y)  # fmt: skip
                            return of_estimator(model, X, "predict", "predict_marginals", "decision_function")

                        name = "rules" if constraints else "free"
                        yield f"multilabel/{loss}/{graph}/{len(hidden)}/{name}/{decision}", fit_labels
    groups = {
        "none": None,
        "partition": [[0, 1], [2]],
        "overlap": [[0, 1], [1, 2]],
        "tree": GroupTree({"all": None, "a": "all", "b": "all"}, {"a": [0, 1], "b": [2]}),
    }
    for kind in ("multiclass", "chain", "tree"):
        X, y = make_samples(kind)
        structure = "auto" if kind == "multiclass" else kind
        for name, group in groups.items():
            if kind == "multiclass" and name != "none":
                continue
            for loss in ("perceptron", "sparsemap", "hinge"):
                for strength in ({"budget": 2}, {"alpha": 0.01}):

                    def fit_groups():
                        model = GroupLassoPerceptron(
                            structure, loss=loss, groups=group, shrink_every=7, max_iter=3, debias_max_iter=2,
                            random_state=0, **strength,
                        ).fit(X, y)  # fmt: skip
                        return of_estimator(model, X, "predict", "decision_function")

                    yield f"groups/{kind}/{name}/{loss}/{next(iter(strength))}", fit_groups
    X, y = make_samples("multiclass")
    path = GroupLassoPerceptron(shrink_every=20, random_state=0)
    yield (
        "groups/path",
        lambda: [
            getattr(perceptron_path(path, X, y, budgets=[1, 2, 3], X_val=X, y_val=y), name)
            for name in ("best_budget", "scores")
        ],
    )


def feature_cases():
    sentences = [["the", "dog", "barks"], ["a", "cat", "sleeps", "well"]]
    for options in ({}, {"n_features": 64}):
        yield (
            f"features/tokens/{len(options)}",
            lambda: list(TemplateVectorizer(["word[0]", "word[-1]|word[0]"], **options).fit_transform(sentences)),
        )
        tagged = [[{"word": w, "pos": w[0], "lemma": w} for w in s] for s in sentences]
        yield (
            f"features/arcs/{len(options)}",
            lambda: list(ArcVectorizer(dependency_templates(), **options).fit_transform(tagged)),
        )


def compute():
    """Run all cases; return arrays by name, and what failed by name."""
    found, failed = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cases in (inference_cases, graph_cases, estimator_cases, feature_cases):
            for name, case in cases():
                try:
                    flatten(case(), name, found)
                except Exception as error:
                    failed[name] = f"{type(error).__name__}: {error}"[:200]
    return found, failed


def differences(before, after, atol):
    """List the names of what differs, and by how much."""
    lines = [f"{name}: only before" for name in before if name not in after]
    lines += [f"{name}: only now" for name in after if name not in before]
    for name in before.keys() & after.keys():
        a, b = before[name], after[name]
        if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
            lines.append(f"{name}: {a.dtype} {a.shape}, now {b.dtype} {b.shape}")
        elif a.dtype.kind == "f":
            if not np.array_equal(a, b, equal_nan=True):
                with np.errstate(invalid="ignore"):
                    off = np.nanmax(np.abs(a - b)) if np.isfinite(a - b).any() else np.inf
                if not off <= atol:
                    lines.append(f"{name}: differs by {off:.1e}")
        elif not np.array_equal(a, b):
            lines.append(f"{name}: differs")
    return sorted(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("path")
    parser.add_argument("--atol", type=float, default=0.0)
    options = parser.parse_args()
    found, failed = compute()
    for name, error in failed.items():
        print(f"{name} failed: {error}")
    if options.action == "record":
        np.savez(options.path, **found)
        print(f"{len(found)} arrays recorded, {len(failed)} cases failed")
        return bool(failed)
    with np.load(options.path) as record:
        lines = differences({name: record[name] for name in record.files}, found, options.atol)
    print(*lines, sep="\n")
    print(f"{len(found)} arrays compared, {len(lines)} differ, {len(failed)} cases failed")
    return bool(lines or failed)


if __name__ == "__main__":
    sys.exit(main())
