"""No argument is dropped: each one changes the result, or a table says why it cannot.

A setting is one way of training an estimator. Its table `changes` has other values of each argument; `same` has the
arguments that have no effect there, with the reason. An argument that is in neither fails the test.
"""

import inspect
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from sklearn_sparsemap import (
    DecisionFocusedRegressor,
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    StructuredGroupLasso,
    StructuredGroupLassoCV,
    StructuredSparseMAPClassifier,
)
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.factors import AtLeast, AtMost, FactorGraph
from sklearn_sparsemap.features import (
    ArcVectorizer,
    GrandparentVectorizer,
    InformationGainSelector,
    SiblingVectorizer,
    TemplateVectorizer,
    TokenDictVectorizer,
    WordClusters,
    WordVectors,
)
from sklearn_sparsemap.score_models import Network
from sklearn_sparsemap.structures import LinearProgram, SequenceBudget, Subset

pytestmark = pytest.mark.filterwarnings("ignore")

N_JOBS = "the number of threads does not change results"
VERBOSE = "only reports"
COST = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 1.0], [9.0, 1.0, 0.0]])
NO_ORDER = "L-BFGS sees all samples at once"
ONE_PASS = "partial_fit is one pass over its samples, in their order"
NOT_STOPPED = "there is no early stopping"


def sequences(n=24, seed=0):
    """Return sequences of four steps with noisy labels a, b and c; at most one c, and none after an a."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(4, 6)) * [1.0, 1.0, 0.5, 1.0, 2.0, 1.0] + 0.3 for _ in range(n)]
    y = []
    for x in X:
        values, labels = x[:, 0] + 0.7 * x[:, 3] + rng.normal(size=4), []
        for value in values:
            is_allowed = "c" not in labels and labels[-1:] != ["a"]
            labels.append("c" if value > 0.8 and is_allowed else "b" if value > 0.0 else "a")
        y.append(np.array(labels))
    return X, y


def flat():
    X, y = sequences(40)
    return np.concatenate(X), np.concatenate(y)


def choices():
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(5, 4)) for _ in range(20)]
    return X, [np.isin(np.arange(5), np.argsort(-x[:, 0] + rng.normal(size=5))[:2]) for x in X]


def at_most(k):
    def graph(x):
        graph = FactorGraph()
        chosen = graph.variables(len(x))
        graph.add(AtMost(chosen, k))
        return graph

    return graph


def at_least(k):
    def graph(x):
        graph = FactorGraph()
        graph.add(AtLeast(graph.variables(len(x)), k))
        return graph

    return graph


def label_sets(n=200):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 5))
    return X, (X @ rng.normal(size=(5, 4)) + rng.normal(size=(n, 4)) > 0.3).astype(int)


def values_of_items():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    return X, X @ rng.normal(size=(3, 4)) + 0.5 * rng.normal(size=(40, 4))


def plain(value):
    """Return a fitted attribute or a prediction in a form that can be compared."""
    if sparse.issparse(value):
        return plain(value.toarray())
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.shape, value.tolist()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(each) for each in value]
    return value if isinstance(value, bool | int | float | str) or value is None else repr(value)


def learned(model, X):
    """Return all that a user sees of a fitted model: public attributes, predictions and marginals."""
    names = [name for name in dir(model) if name.endswith("_") and not name.startswith("_") and name[-2] != "_"]
    found = {name: plain(getattr(model, name, None)) for name in names}
    if "score_model_" in found:
        found["score_model_"] = plain(getattr(model.score_model_, "arrays", model.score_model_))
    for method in ("predict", "predict_marginals", "predict_values"):
        if hasattr(model, method):
            found[method] = plain(getattr(model, method)(X))
    return found


def by_fit(model, data, **arguments):
    return learned(model.fit(*data, **arguments), data[0])


def by_two_fits(model, data):
    """Fit twice, so that a warm start has something to start from."""
    X, y = data
    return learned(model.fit(X[:10], y[:10]).fit(X[10:], y[10:]), X)


def by_stream(model, data, **arguments):
    X, y = data
    options = {"classes": ["a", "b", "c"]} if np.asarray(y[0]).dtype.kind == "U" else {}
    for part in (slice(0, 10), slice(10, 20)):
        model.partial_fit(X[part], y[part], **(options | arguments))
    return learned(model, X)


def by_stream_and_end(model, data):
    by_stream(model, data)
    return learned(model.finalize(*data), data[0])


def by_partitions(model, data):
    X, y = data
    return learned(model.fit_partitions([(X[start : start + 8], y[start : start + 8]) for start in (0, 8, 16)]), X)


def by_mixing(model, data):
    mixing = ParameterMixing(model, n_shards=2, n_rounds=2, random_state=0)
    return learned(mixing.fit(*data).estimator_, data[0])


@dataclass
class Setting:
    """A way to train.

    `base` holds the arguments, `changes` other values of some of them, `same` the reason for each argument without an
    effect.
    """

    estimator: type
    base: dict
    data: object
    changes: dict
    same: dict
    train: object = by_fit
    shared: dict = field(default_factory=dict)

    def alternatives(self):
        common = {**self.shared, **self.changes}
        return {name: values for name, values in common.items() if name not in self.same}


MARGIN_COST = {"loss": "margin_sparsemap", "cost": COST}
OTHER_COST = COST.T + 1.0 - np.eye(3)
CLASSIFIER = {
    "structure": [SequenceBudget(1, 2)],
    "loss": ["crf", "perceptron"],
    "cost": [],
    "temperature": [0.5],
    "alpha": [0.5, "auto"],
    "solver": ["lbfgs"],
    "eta0": [0.02],
    "max_iter": [2],
    "tol": [10.0],
    "fit_intercept": [False],
    "class_weight": ["balanced", {"a": 5.0}],
    "average": [False],
    "early_stopping": [True],
    "validation_fraction": [0.5],
    "n_iter_no_change": [1],
    "shuffle": [False],
    "warm_start": [True],
    "random_state": [5],
    "batch_size": [4],
    "constraints": [[("a", "c")]],
    "score_model": ["network"],
}
FIXED = {"n_jobs": N_JOBS, "verbose": VERBOSE}
NO_STOP = {"validation_fraction": NOT_STOPPED, "n_iter_no_change": NOT_STOPPED}
SEQUENTIAL = {"batch_size": "samples are learned one by one"}
ALWAYS_ONLINE = {"solver": "L-BFGS is for fit"}
COLD = {"warm_start": "there is no earlier fit"}
ONLINE = {"structure": "chain", "solver": "adagrad", "alpha": 1e-3, "max_iter": 10, "tol": 1e-6, "random_state": 0}
STREAMED = {
    **FIXED, **NO_STOP, **SEQUENTIAL, "max_iter": ONE_PASS, "tol": ONE_PASS, "early_stopping": ONE_PASS,
    "shuffle": ONE_PASS, "warm_start": ONE_PASS, "random_state": ONE_PASS,
}  # fmt: skip
ALL_AT_ONCE = {
    **FIXED, **NO_STOP, **COLD, "average": NO_ORDER, "shuffle": NO_ORDER, "batch_size": NO_ORDER,
    "eta0": "L-BFGS has no step size",
}  # fmt: skip
NO_LABELS = {
    "class_weight": "there are no labels",
    "constraints": "there are no labels, and thus no transitions",
}


def classifier(base, same, data=sequences, train=by_fit, **changes):
    return Setting(StructuredSparseMAPClassifier, base, data, changes, same, train, CLASSIFIER)


SETTINGS = {
    "chain, L-BFGS": classifier(
        {**ONLINE, "solver": "lbfgs", "max_iter": 200},
        ALL_AT_ONCE | {"random_state": NO_ORDER},
        loss=["crf", "margin_sparsemap"],
        solver=["adagrad"],
    ),
    "chain, AdaGrad": classifier(ONLINE, {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD}),
    "chain, AdaGrad, cost": classifier(
        {**ONLINE, **MARGIN_COST},
        {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD},
        loss=["hinge"],
        cost=[None, OTHER_COST],
    ),
    "chain, MIRA": classifier(
        {**ONLINE, "loss": "hinge", "solver": "mira", "eta0": 1.0, "alpha": None},
        {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD, "alpha": "MIRA has no penalty"},
        loss=[],
        cost=[COST],
        solver=["adagrad"],
        eta0=[0.01],
    ),
    "chain, early stopping": classifier(
        {**ONLINE, "early_stopping": True, "max_iter": 40, "validation_fraction": 0.2},
        {**FIXED, **SEQUENTIAL, **COLD, "tol": "the score on held-out samples stops training"},
        early_stopping=[0.4],
    ),
    "chain, warm start": classifier(
        {**ONLINE, "warm_start": True}, {**FIXED, **NO_STOP, **SEQUENTIAL}, train=by_two_fits,
        warm_start=[False], max_iter=[1],
    ),
    "chain, stream": classifier(
        ONLINE, {**STREAMED, **ALWAYS_ONLINE}, train=by_stream, alpha=[0.5], class_weight=[{"a": 5.0}]
    ),
    "chain, stream, MIRA": classifier(
        {**ONLINE, "loss": "hinge", "solver": "mira", "eta0": 1.0}, {**STREAMED, "alpha": "MIRA has no penalty"},
        train=by_stream, loss=[], cost=[COST], solver=["adagrad"], eta0=[0.01], class_weight=[{"a": 5.0}],
    ),
    "chain, partitions": classifier(
        ONLINE, {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD, **ALWAYS_ONLINE}, train=by_partitions, alpha=[0.5],
        class_weight=[{"a": 5.0}],
    ),
    "chain, rounds": classifier(
        ONLINE,
        {
            **FIXED, **NO_STOP, **SEQUENTIAL, **COLD, **ALWAYS_ONLINE, "max_iter": "ParameterMixing has n_rounds",
            "tol": "ParameterMixing has n_rounds", "early_stopping": "ParameterMixing has its own",
        },
        train=by_mixing, alpha=[0.5], random_state=[], class_weight=[{"a": 5.0}],
    ),
    "single labels": classifier(
        {**ONLINE, "structure": "auto"}, {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD, "constraints": "for sequences"},
        data=flat, structure=[],
    ),
    "chain, some labels unknown": classifier(
        ONLINE, {**FIXED, **NO_STOP, **COLD}, data=lambda: some_unknown(),
        loss=["crf", "perceptron"], solver=["lbfgs"],
    ),
    "subset": classifier(
        {**ONLINE, "structure": Subset(0, 2)}, {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD, **NO_LABELS}, data=choices,
        structure=[Subset(0, 3), Subset(2, 2)], loss=["crf", "perceptron", "hinge"],
    ),
    "linear program": classifier(
        {**ONLINE, "structure": LinearProgram(np.ones((1, 5)), [2.0])},
        {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD, **NO_LABELS}, data=choices,
        structure=[LinearProgram(np.ones((1, 5)), [3.0])], loss=["perceptron", "hinge"],
    ),
    "graph, AdaGrad": classifier(
        {**ONLINE, "structure": at_most(2)}, {**FIXED, **NO_STOP, **COLD, **NO_LABELS}, data=choices,
        structure=[at_least(1)], loss=["perceptron", "hinge"],
    ),
    "graph, L-BFGS": classifier(
        {**ONLINE, "structure": at_most(2), "solver": "lbfgs", "max_iter": 100},
        {**ALL_AT_ONCE, **NO_LABELS, "random_state": NO_ORDER}, data=choices,
        structure=[at_least(1)], loss=["margin_sparsemap"], solver=["adagrad"],
    ),
    "graph, early stopping": classifier(
        {**ONLINE, "structure": at_most(2), "early_stopping": True, "validation_fraction": 0.3, "max_iter": 30},
        {**FIXED, **COLD, **NO_LABELS, "tol": "the score on held-out samples stops training"}, data=choices,
        structure=[at_least(1)], loss=["perceptron", "hinge"], early_stopping=[0.5],
    ),
    "graph, stream": classifier(
        {**ONLINE, "structure": at_most(2)},
        {**{name: why for name, why in STREAMED.items() if name != "batch_size"}, **NO_LABELS, **ALWAYS_ONLINE},
        data=choices,
        train=by_stream, structure=[at_least(1)], loss=["perceptron", "hinge"], alpha=[0.5],
    ),
}  # fmt: skip


def some_unknown():
    X, y = sequences()
    return X, [[None if (i + t) % 5 == 0 else label for t, label in enumerate(own)] for i, own in enumerate(y)]


GROUPS = [0, 0, 1, 1, 2, 2]
PERCEPTRON = {
    "structure": [SequenceBudget(1, 2)],
    "loss": ["hinge", "crf"],
    "cost": [],
    "groups": [[0, 1, 2, 3, 4, 5]],
    "group_weights": [[5.0, 1.0, 1.0]],
    "budget": [1],
    "budget_unit": ["weights"],
    "alpha": [],
    "shrink_every": [5],
    "max_iter": [2],
    "eta0": [0.1],
    "debias": [None, "hinge", "crf"],
    "debias_max_iter": [2],
    "C": [0.001],
    "temperature": [0.5],
    "fit_intercept": [False],
    "class_weight": ["balanced", {"a": 5.0}],
    "average": [False],
    "shuffle": [False],
    "random_state": [5],
}
SELECTED = {"structure": "chain", "groups": GROUPS, "budget": 2, "loss": "hinge", "random_state": 0}
BY_BUDGET = {**FIXED, "alpha": "refused together with a budget"}
NO_TEMPERATURE = {"temperature": "losses without a regulariser are homogeneous"}


def perceptron(base, same, train=by_fit, **changes):
    return Setting(GroupLassoPerceptron, base, sequences, changes, same, train, PERCEPTRON)


SETTINGS |= {
    "groups by budget, MIRA": perceptron(SELECTED, BY_BUDGET, loss=["crf"], cost=[COST]),
    "groups by budget, cost, MIRA": perceptron(
        {**SELECTED, "loss": "hinge", "cost": COST}, BY_BUDGET, loss=["margin_crf"], cost=[None, OTHER_COST]
    ),
    "groups by budget, a loss with a cost": perceptron(
        {**SELECTED, **MARGIN_COST, "debias": "margin_sparsemap"}, {**BY_BUDGET, "C": "for MIRA"},
        loss=["hinge"], cost=[None, OTHER_COST], debias=[None, "sparsemap"],
    ),
    "groups by strength": perceptron(
        {**SELECTED, "budget": None, "alpha": 0.05, "shrink_every": 8},
        {**FIXED, "budget": "refused with alpha", "budget_unit": "there is no budget"},
        loss=["crf"], cost=[COST], alpha=[0.5], group_weights=[[5.0, 1.0, 1.0], "sqrt"],
    ),
    "groups, no debiasing": perceptron(
        {**SELECTED, "debias": None},
        {**BY_BUDGET, "debias_max_iter": "no debiasing", "C": "no debiasing"},
        loss=["crf"], cost=[COST], debias=["mira"],
    ),
    "groups, stream": perceptron(
        SELECTED,
        {
            **BY_BUDGET, "max_iter": ONE_PASS, "shuffle": ONE_PASS, "random_state": ONE_PASS,
            "debias": "for fit and finalize", "debias_max_iter": "for fit and finalize", "C": "for MIRA",
        },
        train=by_stream, loss=["crf"], cost=[COST], class_weight=[{"a": 5.0}],
    ),
    "groups, stream that ends": perceptron(
        {**SELECTED, "loss": "hinge", "cost": COST}, {**BY_BUDGET, "max_iter": ONE_PASS}, train=by_stream_and_end,
        loss=["margin_crf"], cost=[None], class_weight=[{"a": 5.0}],
    ),
    "groups, partitions": perceptron(
        {**SELECTED, "loss": "hinge", "cost": COST}, BY_BUDGET, train=by_partitions, loss=["margin_crf"], cost=[None],
        class_weight=[{"a": 5.0}],
    ),
    "groups, rounds": perceptron(
        {**SELECTED, "loss": "hinge", "cost": COST}, {**BY_BUDGET, "max_iter": "ParameterMixing has n_rounds"},
        train=by_mixing, loss=["margin_crf"], cost=[None], random_state=[], class_weight=[{"a": 5.0}],
    ),
}  # fmt: skip

LASSO = {
    "structure": [SequenceBudget(1, 2)],
    "loss": ["crf", "margin_sparsemap"],
    "cost": [],
    "groups": [[0, 1, 2, 3, 4, 5]],
    "alpha": [0.1],
    "l1_ratio": [0.5],
    "group_weights": ["uniform", [9.0, 1.0, 1.0]],
    "temperature": [0.5],
    "max_iter": [2],
    "fit_intercept": [False],
    "class_weight": ["balanced", {"a": 5.0}],
    "debias": [True, 0.5],
    "warm_start": [True],
}
# A few iterations show that an argument has an effect, except the tolerance, which has a test of its own.
FEW_ITERATIONS = {**FIXED, "tol": "training ends before"}
LASSO_BASE = {"structure": "chain", "groups": GROUPS, "alpha": 0.05, "tol": 1e-2, "max_iter": 15}
CV_BASE = {"groups": GROUPS, "n_alphas": 4, "cv": 3, "tol": 1e-2, "max_iter": 15}
LASSO_CV = {name: values for name, values in LASSO.items() if name not in ("alpha", "warm_start")} | {
    "n_alphas": [3], "eps": [0.5], "alphas": [[0.1, 0.01]], "cv": [2], "rule": ["one_se"],
    "scoring": [lambda model, X, y: -model.n_nonzero_coefs_],
}  # fmt: skip
SETTINGS |= {
    "group lasso": Setting(StructuredGroupLasso, LASSO_BASE, sequences, {}, {**FEW_ITERATIONS, **COLD}, by_fit, LASSO),
    "group lasso, debiased": Setting(
        StructuredGroupLasso, {**LASSO_BASE, "debias": True}, sequences, {"debias": [False, 0.5]},
        {**FEW_ITERATIONS, **COLD}, by_fit, LASSO,
    ),
    "group lasso, cost, debiased": Setting(
        StructuredGroupLasso, {**LASSO_BASE, **MARGIN_COST, "debias": True}, sequences,
        {"loss": ["margin_crf"], "cost": [None, OTHER_COST], "debias": [False, 0.5]},
        {**FEW_ITERATIONS, **COLD}, by_fit, LASSO,
    ),
    "group lasso, warm start": Setting(
        StructuredGroupLasso, {**LASSO_BASE, "warm_start": True}, sequences, {"warm_start": [False]}, FEW_ITERATIONS,
        by_two_fits, LASSO,
    ),
    "group lasso, cross-validation": Setting(
        StructuredGroupLassoCV, CV_BASE, flat, {"structure": []},
        {**FIXED, "tol": "a small problem is solved up to rounding"}, by_fit, LASSO_CV,
    ),
}  # fmt: skip

LABELS = {
    "label_graph": [[(0, 1), (1, 2)]],
    "constraints": [[AtMost([0, 1, 2, 3], 1)]],
    "score_model": ["network"],
    "loss": ["logistic", "hinge"],
    "alpha": [1e-3, 1.0],
    "edge_alpha": [],
    "eta0": [0.3],
    "edge_eta0": [],
    "batch_size": [7],
    "max_iter": [2],
    "tol": [1.0],
    "n_iter_no_change": [1],
    "early_stopping": [True],
    "validation_fraction": [0.4],
    "decision": ["threshold", "expected_f1", "map"],
    "threshold": [0.3],
    "shuffle": [False],
    "random_state": [5],
    "solver": ["adam"],
}
OF_NETWORK = {"eta0": "a network has its own", "batch_size": "a network has its own"}
NO_EDGES = {"edge_alpha": "there are no edges", "edge_eta0": "there are no edges"}
SETTINGS |= {
    "label sets, L-BFGS": Setting(
        MultilabelLPSparseMAP, {"score_model": "linear", "random_state": 0, "decision": "observed_sets"}, label_sets,
        {},
        {
            **FIXED, **NO_STOP, **NO_EDGES, "eta0": NO_ORDER, "batch_size": NO_ORDER, "shuffle": NO_ORDER,
            "random_state": "folds are fixed",
        },
        by_fit, LABELS,
    ),
    "label sets, network": Setting(
        MultilabelLPSparseMAP,
        {"score_model": Network((6,)), "random_state": 0, "max_iter": 15, "decision": "observed_sets"}, label_sets,
        {
            "score_model": [
                "linear", Network((3,)), Network((6,), dropout=0.0), Network((6,), eta0=0.1),
                Network((6,), batch_size=7), Network((6,), max_iter=2),
            ],
            "solver": [], "alpha": [1.0], "eta0": [], "batch_size": [],
        },
        {**FIXED, **NO_STOP, **NO_EDGES, "solver": "networks have one", **OF_NETWORK}, by_fit, LABELS,
    ),
    "label sets, edges": Setting(
        MultilabelLPSparseMAP, {"label_graph": "full", "random_state": 0, "max_iter": 15, "decision": "threshold"},
        label_sets,
        {
            "decision": ["expected_f1", "map"], "edge_alpha": [1.0], "edge_eta0": [0.3], "solver": [], "alpha": [1.0],
            "score_model": [Network((4,))],
        },
        {**FIXED, **NO_STOP, "solver": "edges have one"}, by_fit, LABELS,
    ),
    "decisions": Setting(
        DecisionFocusedRegressor, {"structure": Subset(2, 2), "random_state": 0}, values_of_items,
        {
            "structure": [Subset(1, 1)], "loss": ["perturbed", "spo_plus"], "temperature": [2.0], "alpha": [0.9],
            "fit_intercept": [False], "max_iter": [1], "tol": [1.0], "early_stopping": [True], "solver": ["adagrad"],
        },
        {
            **FIXED, **NO_STOP, "sigma": "for the perturbed loss", "n_samples": "for the perturbed loss",
            "batch_size": NO_ORDER, "random_state": NO_ORDER, "eta0": "L-BFGS has no step size",
        },
    ),
    "decisions, perturbed": Setting(
        DecisionFocusedRegressor, {"structure": Subset(2, 2), "loss": "perturbed", "random_state": 0, "max_iter": 8},
        values_of_items,
        {
            "structure": [Subset(1, 1)], "loss": ["sparsemap", "spo_plus"], "sigma": [2.0], "n_samples": [3],
            "alpha": [0.9], "fit_intercept": [False], "max_iter": [1], "tol": [10.0], "early_stopping": [True],
            "batch_size": [4], "random_state": [5], "eta0": [0.5],
        },
        {**FIXED, **NO_STOP, "temperature": "for sparsemap", "solver": "the perturbed loss has one"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_each_argument_of_the_constructor_changes_the_model(name):
    setting = SETTINGS[name]
    found, alternatives = list(inspect.signature(setting.estimator).parameters), setting.alternatives()
    assert sorted([*setting.same, *alternatives]) == sorted(found)
    data = setting.data()
    template = setting.estimator(**setting.base)
    base = setting.train(clone(template), data)
    assert base == setting.train(clone(template), data)
    dropped = []
    for argument, values in alternatives.items():
        for value in values:
            changed = {argument: value}
            if argument == "score_model" and setting.estimator is StructuredSparseMAPClassifier:
                # Other score models have solvers of their own.
                changed |= {"solver": "auto", "eta0": None}
            if setting.train(clone(template).set_params(**changed), data) == base:
                dropped.append((argument, value))
    assert dropped == []


@pytest.mark.parametrize(
    "name", [name for name, setting in SETTINGS.items() if setting.same.get("tol") == FEW_ITERATIONS["tol"]]
)
def test_the_tolerance_of_the_lasso_changes_the_model(name):
    setting = SETTINGS[name]
    data = setting.data()
    template = setting.estimator(**setting.base).set_params(alpha=0.1, max_iter=1000)
    rough, fine = (setting.train(clone(template).set_params(tol=tol), data) for tol in (1e-2, 1e-4))
    assert rough != fine


def differ(first, second):
    return plain(first) != plain(second)


def fitted(kind=StructuredSparseMAPClassifier, data=sequences, **options):
    base = {"structure": "chain"} if data is sequences else {}
    return kind(**{**base, **options}).fit(*data())


def trained_with(kind, method, data=sequences, base=None, **arguments):
    """Return whether arguments of a training method change what is learned; `base` are those of both calls."""
    (X, y), options = data(), {"random_state": 0, **({"structure": "chain"} if data is sequences else {})}
    names = inspect.signature(kind).parameters
    options = {name: value for name, value in options.items() if name in names}
    found = []
    for given in (base or {}, {**(base or {}), **arguments}):
        model = kind(**options)
        found.append(learned(getattr(model, method)(X, y, **given), X))
    return found[0] != found[1]


def predicted_with(model, method, data=sequences, base=None, **arguments):
    X, y = data()
    call = getattr(model, method)
    given = (X, y) if "y" in inspect.signature(call).parameters else (X,)
    return differ(call(*given, **(base or {})), call(*given, **(base or {}), **arguments))


WEIGHTS = np.arange(24.0)
ALL_LABELS = {"classes": ["a", "b", "c"]}
KNOWN = [["b", None, None, None]] * 24
TIME = "a limit of time, which these samples do not reach"


def structured_methods(kind, **options):
    """Return the table of the methods that all estimators of structures have."""
    model = cache(lambda: fitted(kind, **options))
    gibbs = {"loss": "crf", **({"debias": "crf"} if kind is GroupLassoPerceptron else {})}
    crf = cache(lambda: fitted(kind, **options, **gibbs))
    one = {"random_state": 0}
    return {
        ("fit", "sample_weight"): lambda: trained_with(kind, "fit", sample_weight=WEIGHTS),
        ("predict", "known"): lambda: predicted_with(model(), "predict", known=KNOWN),
        ("predict", "map_time_limit"): TIME,
        ("predict_marginals", "known"): lambda: predicted_with(model(), "predict_marginals", known=KNOWN),
        ("predict_structures", "known"): lambda: predicted_with(model(), "predict_structures", known=KNOWN),
        ("predict_n_best", "k"): lambda: differ(*(model().predict_n_best(sequences()[0], k) for k in (1, 2))),
        ("predict_n_best", "known"): lambda: predicted_with(model(), "predict_n_best", base={"k": 2}, known=KNOWN),
        ("sample", "n_samples"): lambda: predicted_with(crf(), "sample", base=one, n_samples=2),
        ("sample", "known"): lambda: predicted_with(crf(), "sample", base=one, known=KNOWN),
        ("sample", "random_state"): lambda: differ(
            *(crf().sample(sequences()[0], 3, random_state=seed) for seed in (0, 1))
        ),
        ("score", "sample_weight"): lambda: predicted_with(model(), "score", sample_weight=WEIGHTS),
    }


def streamed(kind):
    return lambda: trained_with(kind, "partial_fit", base=ALL_LABELS, sample_weight=WEIGHTS)


def adds_labels():
    model = StructuredSparseMAPClassifier("chain").partial_fit(*sequences(), **ALL_LABELS)
    X, _ = sequences()
    return len(model.partial_fit(X[:1], [["d"] * 4], on_new_labels="add").classes_) == 4


def adds_label_of_sets(X, Y):
    sets = [[f"label {k}" for k in np.flatnonzero(row)] for row in Y]
    classes = [f"label {k}" for k in range(Y.shape[1])]
    model = MultilabelLPSparseMAP(random_state=0).partial_fit(X, sets, classes=classes)
    return len(model.partial_fit(X[:1], [["new"]], on_new_labels="add").classes_) == Y.shape[1] + 1


def by_classes(kind, **options):
    X, y = sequences()
    models = [kind("chain", **options).partial_fit(X, y, classes=classes) for classes in (list("abc"), list("abcd"))]
    return differ(*(model.classes_ for model in models))


def ends_with(**arguments):
    X, y = sequences()
    models = [GroupLassoPerceptron("chain", groups=GROUPS, budget=2).partial_fit(X, y, **ALL_LABELS) for _ in range(2)]
    base = {"X": X, "y": y} if "sample_weight" in arguments else {}
    return differ(*(model.finalize(**given).coef_ for model, given in zip(models, (base, {**base, **arguments}))))


def partitions_with(kind, argument, **options):
    X, y = sequences()
    parts = [(X[:12], y[:12]), (X[12:], y[12:])]
    models = [kind("chain", random_state=0, **options) for _ in range(2)]
    values = {"classes": list("abcd"), "validation": parts[1]}
    models = [m.fit_partitions(parts, **given) for m, given in zip(models, ({}, {argument: values[argument]}))]
    return differ(*([m.classes_, getattr(m, "validation_scores_", None)] for m in models))


def label_methods():
    kind, data = MultilabelLPSparseMAP, label_sets
    X, Y = data()
    weights, none = np.arange(200.0), np.full(Y.shape, None)
    none[:, 0] = 1 - Y[:, 0]
    train = lambda method, **given: lambda: trained_with(kind, method, data, **given)  # noqa: E731
    model = cache(lambda: fitted(kind, data))
    call = lambda method, **given: lambda: predicted_with(model(), method, data, **given)  # noqa: E731
    parts = [(X[:100], Y[:100]), (X[100:], Y[100:])]
    stream = lambda **given: kind(random_state=0).fit_partitions(parts, **given)  # noqa: E731
    names = ["w", "x", "y", "z"]
    return {
        ("fit", "sample_weight"): train("fit", sample_weight=weights),
        ("fit", "classes"): lambda: differ(*(kind().fit(X, Y, classes=c).classes_ for c in (None, names))),
        ("fit", "X_val"): train("fit", X_val=X[:50], y_val=Y[:50]),
        ("fit", "y_val"): "together with X_val",
        ("partial_fit", "sample_weight"): train("partial_fit", sample_weight=weights),
        ("partial_fit", "classes"): lambda: differ(
            *(kind().partial_fit(X, Y, classes=c).classes_ for c in (None, names))
        ),
        ("partial_fit", "on_new_labels"): lambda: adds_label_of_sets(X, Y),
        ("fit_partitions", "classes"): lambda: differ(*(stream(classes=c).classes_ for c in (None, names))),
        ("fit_partitions", "validation"): lambda: hasattr(stream(validation=parts[0]), "validation_scores_"),
        ("predict", "known"): call("predict", known=none),
        ("predict", "map_time_limit"): TIME,
        ("predict", "names"): call("predict", names=True),
        ("predict_structures", "n_sets"): call("predict_structures", n_sets=2),
        ("score", "sample_weight"): call("score", sample_weight=weights),
    }


def decision_methods():
    kind, data, weights = DecisionFocusedRegressor, values_of_items, np.arange(40.0)
    model = cache(lambda: kind(Subset(2, 2), random_state=0).fit(*data()))
    X, V = data()

    def weigh(**given):
        return differ(model().coef_, kind(Subset(2, 2), random_state=0).fit(X, V, **given).coef_)

    return {
        ("fit", "sample_weight"): lambda: weigh(sample_weight=weights),
        ("fit", "X_val"): lambda: hasattr(
            kind(Subset(2, 2), random_state=0).fit(X, V, X_val=X, y_val=V), "validation_scores_"
        ),
        ("fit", "y_val"): "together with X_val",
        ("predict", "mask"): lambda: predicted_with(model(), "predict", data, mask=V.max(axis=1)[:, None] > V),
        ("score", "sample_weight"): lambda: predicted_with(model(), "score", data, sample_weight=weights),
    }


BUDGET = {"groups": GROUPS, "budget": 2}
METHODS = {
    StructuredSparseMAPClassifier: lambda: structured_methods(StructuredSparseMAPClassifier) | {
        ("fit", "X_val"): lambda: hasattr(
            StructuredSparseMAPClassifier("chain").fit(*sequences(), X_val=sequences()[0], y_val=sequences()[1]),
            "validation_scores_",
        ),
        ("fit", "y_val"): "together with X_val",
        ("partial_fit", "sample_weight"): streamed(StructuredSparseMAPClassifier),
        ("partial_fit", "classes"): lambda: by_classes(StructuredSparseMAPClassifier),
        ("partial_fit", "on_new_labels"): adds_labels,
        ("fit_partitions", "classes"): lambda: partitions_with(StructuredSparseMAPClassifier, "classes"),
        ("fit_partitions", "validation"): lambda: partitions_with(StructuredSparseMAPClassifier, "validation"),
    },
    GroupLassoPerceptron: lambda: structured_methods(GroupLassoPerceptron, **BUDGET) | {
        ("partial_fit", "sample_weight"): streamed(GroupLassoPerceptron),
        ("partial_fit", "classes"): lambda: by_classes(GroupLassoPerceptron, **BUDGET),
        ("finalize", "X"): lambda: ends_with(X=sequences()[0], y=sequences()[1]),
        ("finalize", "y"): "together with X",
        ("finalize", "sample_weight"): lambda: ends_with(sample_weight=WEIGHTS),
        ("fit_partitions", "classes"): lambda: partitions_with(GroupLassoPerceptron, "classes", **BUDGET),
        ("fit_partitions", "validation"): "refused, because the number of epochs is fixed",
    },
    StructuredGroupLasso: lambda: structured_methods(StructuredGroupLasso, alpha=0.02, max_iter=15),
    MultilabelLPSparseMAP: label_methods,
    DecisionFocusedRegressor: decision_methods,
}  # fmt: skip
CALLS = (
    "fit", "partial_fit", "finalize", "fit_partitions", "predict", "predict_values", "predict_proba",
    "predict_marginals", "predict_structures", "predict_n_best", "sample", "log_likelihood", "score",
    "decision_function",
)  # fmt: skip


@pytest.mark.parametrize("kind", METHODS)
def test_each_argument_of_a_method_has_an_effect(kind):
    table, found = METHODS[kind](), []
    for name in CALLS:
        if hasattr(kind, name):
            names = [*inspect.signature(getattr(kind, name)).parameters][1:]
            samples = () if name == "finalize" else ("X", "y", "partitions")
            found += [(name, argument) for argument in names if argument not in samples]
    assert sorted(table) == sorted(found)
    assert [key for key, check in table.items() if callable(check) and not check()] == []


def test_the_lasso_with_cross_validation_has_the_methods_of_the_lasso():
    for name in CALLS:
        if hasattr(StructuredGroupLasso, name):
            pair = [inspect.signature(getattr(c, name)) for c in (StructuredGroupLasso, StructuredGroupLassoCV)]
            assert pair[0] == pair[1]
    X, y = flat()
    models = [StructuredGroupLassoCV(**CV_BASE).fit(X, y, sample_weight=w) for w in (None, np.arange(len(y)))]
    assert differ(*(model.mean_scores_ for model in models)) and differ(*(model.coef_ for model in models))


MIXED = {
    "n_shards": [3], "n_rounds": [1], "random_state": [5], "n_mixes": [2], "recency": [0.0], "early_stopping": [0.3],
}  # fmt: skip
NOT_MIXED = {
    **FIXED, **NO_STOP, "estimator": "the settings of rounds change its arguments",
    "client": "where the shards are learned does not change results",
}  # fmt: skip


def test_each_argument_of_mixing_changes_the_model():
    assert sorted([*MIXED, *NOT_MIXED]) == sorted(inspect.signature(ParameterMixing).parameters)
    model = StructuredSparseMAPClassifier("chain", solver="adagrad")
    (X, y), base = sequences(), {"n_shards": 2, "n_rounds": 4, "random_state": 0}

    def mixed(**changed):
        return learned(ParameterMixing(model, **{**base, **changed}).fit(X, y), X)

    usual = mixed()
    assert [name for name, values in MIXED.items() for value in values if mixed(**{name: value}) == usual] == []


def test_each_argument_of_conformal_sets_changes_them():
    X, y = sequences(60)
    model = StructuredSparseMAPClassifier("chain", loss="crf").fit(X[:20], y[:20])
    table = {
        "confidence_level": [0.5], "max_size": [2], "score": ["log_loss"], "risk": ["parts"],
        "groups": [lambda x: bool(x[0, 0] > 0)],
    }  # fmt: skip
    assert sorted([*table, "fitted_estimator"]) == sorted(inspect.signature(ConformalStructures).parameters)

    def sets(**changed):
        conformal = ConformalStructures(model, **changed).conformalize(X[20:40], y[20:40])
        return plain([conformal.predict_set(X[40:]), getattr(conformal, "groups_", None)])

    usual = sets()
    assert [name for name, values in table.items() for value in values if sets(**{name: value}) == usual] == []


WORDS = [[{"word": word, "pos": word[0].upper()} for word in ("the", "Dog", "runs", "dog")] for _ in range(2)]
WORDS += [[{"word": word, "pos": word[0].upper()} for word in ("a", "dog")]]
HEADS = [[2, 3, 0, 3], [2, 3, 0, 3], [2, 0]]
DERIVED = {"derived_fields": {"own": ("word", str.lower)}}
OTHER_FIELDS = [{"own": ("word", len)}]
COMMON = {"n_features": [64], "dtype": [np.float32]}
LETTERS = {"dog": [2.0, 0.0], "runs": [0.0, 1.0], "a": [2.0, 2.1], "T": [1.0, 0.9]}
VECTORIZERS = {
    TemplateVectorizer: {
        "templates": [["word[-1]"]], "derived_fields": OTHER_FIELDS, "min_count": [3], **COMMON
    },
    ArcVectorizer: {
        "templates": [["head.pos[0]"]], "derived_fields": OTHER_FIELDS, "arcs": ["gold"], "min_count": [3],
        **COMMON,
    },
    SiblingVectorizer: {"templates": [["sib.pos[0]"]], "derived_fields": OTHER_FIELDS, **COMMON},
    GrandparentVectorizer: {"templates": [["grand.pos[0]"]], "derived_fields": OTHER_FIELDS, **COMMON},
    TokenDictVectorizer: {"separator": ["="], "min_count": [3], **COMMON},
    WordVectors: {
        "vectors": [{"dog": [2.0, 1.0]}], "window": [1], "lower": [False], "unknown": ["mean"], "normalize": [False],
        "field": ["pos"], "dtype": [np.float32],
    },
    WordClusters: {
        "vectors": [{"dog": [2.0, 1.0], "runs": [1.0, 1.0]}], "n_clusters": [(1, 2)], "window": [1], "lower": [False],
        "random_state": [1], "field": ["pos"], "dtype": [np.float32],
    },
}  # fmt: skip
BASES = {
    TemplateVectorizer: {"templates": ["word[0]", "own[0]"], **DERIVED},
    ArcVectorizer: {"templates": ["head.own[0]|mod.word[0]"], **DERIVED},
    SiblingVectorizer: {"templates": ["sib.own[0]|mod.word[0]"], "n_features": 32, **DERIVED},
    GrandparentVectorizer: {"templates": ["grand.own[0]|mod.word[0]"], "n_features": 32, **DERIVED},
    TokenDictVectorizer: {},
    WordVectors: {"vectors": LETTERS},
    WordClusters: {"vectors": LETTERS, "n_clusters": 2, "window": 0, "random_state": 0},
}


@pytest.mark.parametrize("kind", VECTORIZERS)
def test_each_argument_of_a_vectorizer_changes_the_features(kind):
    def features(**changed):
        X = kind(**{**BASES[kind], **changed})
        found = X.fit_transform(WORDS, HEADS)
        names = X.get_feature_names_out().tolist() if "n_features" not in {**BASES[kind], **changed} else None
        return plain(found.values), str(found.values.dtype), names

    table, names = VECTORIZERS[kind], list(inspect.signature(kind).parameters)
    assert sorted([*table, *(["n_jobs"] if "n_jobs" in names else [])]) == sorted(names)
    base = features()
    tried = [(name, value) for name, values in table.items() for value in values]
    assert [(name, value) for name, value in tried if features(**{name: value}) == base] == []


def test_a_selector_of_groups_uses_its_arguments():
    vectorizer = TemplateVectorizer(["word[0]", "pos[0]", "word[-1]"])
    X, y = vectorizer.fit_transform(WORDS), [["D", "N", "V", "N"]] * 2 + [["D", "N"]]
    selectors = [
        InformationGainSelector(n_groups_to_select=1).fit(X, y),
        InformationGainSelector(n_groups_to_select=2).fit(X, y),
        InformationGainSelector(n_groups_to_select=1, groups=np.zeros(X.values.shape[1], int)).fit(X, y),
    ]
    assert len({each.transform(X).values.shape[1] for each in selectors}) == 3
    assert [*inspect.signature(InformationGainSelector).parameters] == ["n_groups_to_select", "groups"]
