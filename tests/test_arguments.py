"""No argument is dropped: each one changes the result, or a table says why it cannot.

A setting is one way of training an estimator. Its table `changes` has other values of each argument; `same` has the
arguments that have no effect there, with the reason. An argument that is in neither fails the test.
"""

import inspect
from dataclasses import dataclass, field

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

from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.factors import AtMost, FactorGraph
from sklearn_sparsemap.features import (
    ArcVectorizer,
    GrandparentVectorizer,
    InformationGainSelector,
    SiblingVectorizer,
    TemplateVectorizer,
    TokenDictVectorizer,
)
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


def label_sets(n=120):
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


MARGIN_COST = ("margin_sparsemap", COST)
CLASSIFIER = {
    "structure": [SequenceBudget(1, 2)],
    "loss": ["crf", "perceptron", MARGIN_COST],
    "temperature": [0.5],
    "alpha": [0.5, "auto"],
    "solver": ["mira", ("adagrad", 0.02)],
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
}
FIXED = {"n_jobs": N_JOBS, "verbose": VERBOSE}
NO_STOP = {"validation_fraction": NOT_STOPPED, "n_iter_no_change": NOT_STOPPED}
SEQUENTIAL = {"batch_size": "samples are learned one by one"}
COLD = {"warm_start": "there is no earlier fit"}
ONLINE = {"structure": "chain", "solver": "adagrad", "alpha": 1e-3, "max_iter": 6, "tol": 1e-6, "random_state": 0}
STREAMED = {
    **FIXED, **NO_STOP, **SEQUENTIAL, "max_iter": ONE_PASS, "tol": ONE_PASS, "early_stopping": ONE_PASS,
    "shuffle": ONE_PASS, "warm_start": ONE_PASS, "random_state": ONE_PASS,
}  # fmt: skip
ALL_AT_ONCE = {**FIXED, **NO_STOP, **COLD, "average": NO_ORDER, "shuffle": NO_ORDER, "batch_size": NO_ORDER}
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
        loss=["crf", "margin_sparsemap", MARGIN_COST],
        solver=["adagrad"],
    ),
    "chain, AdaGrad": classifier(ONLINE, {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD}),
    "chain, AdaGrad, cost": classifier(
        {**ONLINE, "loss": MARGIN_COST},
        {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD},
        loss=[("margin_sparsemap", COST.T + 1.0 - np.eye(3)), ("hinge", COST)],
        solver=[("adagrad", 0.02)],
    ),
    "chain, MIRA": classifier(
        {**ONLINE, "loss": "hinge", "solver": ("mira", 1.0), "alpha": None},
        {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD, "alpha": "MIRA has no penalty"},
        loss=[("hinge", COST)],
        solver=[("mira", 0.01), "adagrad"],
    ),
    "chain, early stopping": classifier(
        {**ONLINE, "early_stopping": True, "max_iter": 40, "validation_fraction": 0.2},
        {**FIXED, **SEQUENTIAL, **COLD, "tol": "the score on held-out samples stops training"},
        early_stopping=[0.4],
        solver=[("adagrad", 0.02)],
    ),
    "chain, warm start": classifier(
        {**ONLINE, "warm_start": True, "max_iter": 3}, {**FIXED, **NO_STOP, **SEQUENTIAL}, train=by_two_fits,
        warm_start=[False], max_iter=[1], solver=[("adagrad", 0.02), "lbfgs"],
    ),
    "chain, stream": classifier(ONLINE, STREAMED, train=by_stream, alpha=[0.5]),
    "chain, stream, MIRA": classifier(
        {**ONLINE, "loss": "hinge", "solver": ("mira", 1.0)}, {**STREAMED, "alpha": "MIRA has no penalty"},
        train=by_stream, loss=[("hinge", COST)], solver=[("mira", 0.01), "adagrad"],
    ),
    "chain, partitions": classifier(
        ONLINE, {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD}, train=by_partitions, alpha=[0.5]
    ),
    "chain, rounds": classifier(
        ONLINE,
        {
            **FIXED, **NO_STOP, **SEQUENTIAL, **COLD, "max_iter": "ParameterMixing has n_rounds",
            "tol": "ParameterMixing has n_rounds", "early_stopping": "ParameterMixing has its own",
        },
        train=by_mixing, alpha=[0.5], random_state=[],
    ),
    "single labels": classifier(
        {**ONLINE, "structure": "auto"}, {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD, "constraints": "for sequences"},
        data=flat, structure=[],
    ),
    "chain, some labels unknown": classifier(
        ONLINE, {**FIXED, **NO_STOP, **COLD}, data=lambda: some_unknown(),
        loss=["crf", "perceptron"], solver=["lbfgs", ("adagrad", 0.02)],
    ),
    "subset": classifier(
        {**ONLINE, "structure": Subset(0, 2)}, {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD, **NO_LABELS}, data=choices,
        structure=[Subset(0, 3), Subset(2, 2)], loss=["crf", "perceptron", "hinge"], solver=[("adagrad", 0.02)],
    ),
    "linear program": classifier(
        {**ONLINE, "structure": LinearProgram(np.ones((1, 5)), [2.0])},
        {**FIXED, **NO_STOP, **SEQUENTIAL, **COLD, **NO_LABELS}, data=choices,
        structure=[LinearProgram(np.ones((1, 5)), [3.0])], loss=["perceptron", "hinge"], solver=[("adagrad", 0.02)],
    ),
    "graph, AdaGrad": classifier(
        {**ONLINE, "structure": at_most(2)}, {**FIXED, **NO_STOP, **COLD, **NO_LABELS}, data=choices,
        structure=[at_most(4)], loss=["perceptron", "hinge"], solver=[("adagrad", 0.02), "lbfgs"],
    ),
    "graph, L-BFGS": classifier(
        {**ONLINE, "structure": at_most(2), "solver": "lbfgs", "max_iter": 100},
        {**ALL_AT_ONCE, **NO_LABELS, "random_state": NO_ORDER}, data=choices,
        structure=[at_most(4)], loss=["margin_sparsemap"], solver=["adagrad"],
    ),
    "graph, early stopping": classifier(
        {**ONLINE, "structure": at_most(2), "early_stopping": True, "validation_fraction": 0.3, "max_iter": 30},
        {**FIXED, **COLD, **NO_LABELS, "tol": "the score on held-out samples stops training"}, data=choices,
        structure=[at_most(4)], loss=["perceptron", "hinge"], early_stopping=[0.5], solver=[("adagrad", 0.02)],
    ),
    "graph, stream": classifier(
        {**ONLINE, "structure": at_most(2)},
        {**{name: why for name, why in STREAMED.items() if name != "batch_size"}, **NO_LABELS}, data=choices,
        train=by_stream, structure=[at_most(4)], loss=["perceptron", "hinge"], solver=[("adagrad", 0.02)], alpha=[0.5],
    ),
}  # fmt: skip


def some_unknown():
    X, y = sequences()
    return X, [[None if (i + t) % 5 == 0 else label for t, label in enumerate(own)] for i, own in enumerate(y)]


GROUPS = [0, 0, 1, 1, 2, 2]
PERCEPTRON = {
    "structure": [SequenceBudget(1, 2)],
    "loss": ["hinge", "crf", ("hinge", COST)],
    "groups": [[0, 1, 2, 3, 4, 5]],
    "group_weights": [[5.0, 1.0, 1.0]],
    "budget": [1],
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
    "groups by budget, MIRA": perceptron(SELECTED, BY_BUDGET, loss=["crf", ("hinge", COST)]),
    "groups by budget, cost, MIRA": perceptron(
        {**SELECTED, "loss": ("hinge", COST)}, BY_BUDGET, loss=["hinge", ("hinge", COST + 1.0 - np.eye(3))]
    ),
    "groups by budget, a loss with a cost": perceptron(
        {**SELECTED, "loss": MARGIN_COST, "debias": "margin_sparsemap"}, {**BY_BUDGET, "C": "for MIRA"},
        loss=["margin_sparsemap", ("hinge", COST)], debias=[None, "sparsemap"],
    ),
    "groups by strength": perceptron(
        {**SELECTED, "budget": None, "alpha": 0.05, "shrink_every": 8}, {**FIXED, "budget": "refused with alpha"},
        alpha=[0.5], group_weights=[[5.0, 1.0, 1.0], "sqrt"],
    ),
    "groups, no debiasing": perceptron(
        {**SELECTED, "debias": None},
        {**BY_BUDGET, "debias_max_iter": "no debiasing", "C": "no debiasing"},
        loss=["crf", ("hinge", COST)], debias=["mira"],
    ),
    "groups, stream": perceptron(
        SELECTED,
        {
            **BY_BUDGET, "max_iter": ONE_PASS, "shuffle": ONE_PASS, "random_state": ONE_PASS,
            "debias": "for fit and finalize", "debias_max_iter": "for fit and finalize", "C": "for MIRA",
        },
        train=by_stream, loss=["crf", ("hinge", COST)],
    ),
    "groups, stream that ends": perceptron(
        {**SELECTED, "loss": ("hinge", COST)}, {**BY_BUDGET, "max_iter": ONE_PASS}, train=by_stream_and_end,
        loss=["hinge", "crf"],
    ),
    "groups, partitions": perceptron(
        {**SELECTED, "loss": ("hinge", COST)}, BY_BUDGET, train=by_partitions, loss=["hinge", "crf"]
    ),
    "groups, rounds": perceptron(
        {**SELECTED, "loss": ("hinge", COST)}, {**BY_BUDGET, "max_iter": "ParameterMixing has n_rounds"},
        train=by_mixing, loss=["hinge", "crf"], random_state=[],
    ),
}  # fmt: skip

LASSO = {
    "structure": [SequenceBudget(1, 2)],
    "loss": ["crf", "margin_sparsemap", MARGIN_COST],
    "groups": [[0, 1, 2, 3, 4, 5]],
    "alpha": [0.05],
    "l1_ratio": [0.5],
    "group_weights": ["uniform", [9.0, 1.0, 1.0]],
    "temperature": [0.5],
    "tol": [0.1],
    "max_iter": [2],
    "fit_intercept": [False],
    "class_weight": ["balanced", {"a": 5.0}],
    "debias": [True, 0.5],
    "warm_start": [True],
}
LASSO_BASE = {"structure": "chain", "groups": GROUPS, "alpha": 0.02, "tol": 1e-5}
CV_BASE = {name: value for name, value in LASSO_BASE.items() if name != "alpha"} | {"n_alphas": 4, "cv": 3}
LASSO_CV = {name: values for name, values in LASSO.items() if name not in ("alpha", "warm_start")} | {
    "n_alphas": [3], "eps": [0.5], "alphas": [[0.1, 0.01]], "cv": [2], "rule": ["one_se"],
    "scoring": [lambda model, X, y: -model.n_nonzero_coefs_],
}  # fmt: skip
SETTINGS |= {
    "group lasso": Setting(StructuredGroupLasso, LASSO_BASE, sequences, {}, {**FIXED, **COLD}, by_fit, LASSO),
    "group lasso, debiased": Setting(
        StructuredGroupLasso, {**LASSO_BASE, "debias": True}, sequences, {"debias": [False, 0.5]}, {**FIXED, **COLD},
        by_fit, LASSO,
    ),
    "group lasso, cost, debiased": Setting(
        StructuredGroupLasso, {**LASSO_BASE, "loss": MARGIN_COST, "debias": True}, sequences,
        {"loss": ["margin_sparsemap"], "debias": [False, 0.5]}, {**FIXED, **COLD}, by_fit, LASSO,
    ),
    "group lasso, warm start": Setting(
        StructuredGroupLasso, {**LASSO_BASE, "warm_start": True}, sequences, {"warm_start": [False]}, FIXED,
        by_two_fits, LASSO,
    ),
    "group lasso, cross-validation": Setting(
        StructuredGroupLassoCV, CV_BASE, sequences, {}, FIXED, by_fit, LASSO_CV
    ),
}  # fmt: skip

LABELS = {
    "label_graph": [[(0, 1), (1, 2)]],
    "constraints": [[AtMost([0, 1, 2, 3], 1)]],
    "hidden_layer_sizes": [(4,)],
    "loss": ["logistic", "hinge"],
    "alpha": [1e-3, 1.0],
    "eta0": [0.3],
    "dropout": [0.2],
    "batch_size": [7],
    "max_iter": [2],
    "tol": [1.0],
    "n_iter_no_change": [1],
    "early_stopping": [True],
    "validation_fraction": [0.4],
    "decision": ["threshold", "observed_sets", "map"],
    "threshold": [0.3, "auto"],
    "shuffle": [False],
    "random_state": [5],
    "solver": ["adam"],
}
NO_NETWORK = {"dropout": "there is no hidden layer"}
SETTINGS |= {
    "label sets, L-BFGS": Setting(
        MultilabelLPSparseMAP, {"hidden_layer_sizes": (), "random_state": 0}, label_sets, {},
        {
            **FIXED, **NO_NETWORK, **NO_STOP, "eta0": NO_ORDER, "batch_size": NO_ORDER, "shuffle": NO_ORDER,
            "random_state": "folds are fixed",
        },
        by_fit, LABELS,
    ),
    "label sets, network": Setting(
        MultilabelLPSparseMAP, {"hidden_layer_sizes": (6,), "random_state": 0, "max_iter": 15}, label_sets,
        {"hidden_layer_sizes": [(), (3,)], "solver": [], "alpha": [1.0]},
        {**FIXED, **NO_STOP, "solver": "networks have one"}, by_fit, LABELS,
    ),
    "decisions": Setting(
        DecisionFocusedRegressor, {"structure": Subset(2, 2), "random_state": 0}, values_of_items,
        {
            "structure": [Subset(1, 1)], "loss": ["perturbed", "spo_plus"], "temperature": [2.0], "alpha": [0.9],
            "fit_intercept": [False], "max_iter": [1], "tol": [1.0], "early_stopping": [True], "solver": ["adam"],
        },
        {
            **FIXED, **NO_STOP, "sigma": "for the perturbed loss", "n_samples": "for the perturbed loss",
            "batch_size": NO_ORDER, "random_state": NO_ORDER,
        },
    ),
    "decisions, perturbed": Setting(
        DecisionFocusedRegressor, {"structure": Subset(2, 2), "loss": "perturbed", "random_state": 0, "max_iter": 8},
        values_of_items,
        {
            "structure": [Subset(1, 1)], "loss": ["sparsemap", "spo_plus"], "sigma": [2.0], "n_samples": [3],
            "alpha": [0.9], "fit_intercept": [False], "max_iter": [1], "tol": [10.0], "early_stopping": [True],
            "batch_size": [4], "random_state": [5],
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
            if setting.train(clone(template).set_params(**{argument: value}), data) == base:
                dropped.append((argument, value))
    assert dropped == []
