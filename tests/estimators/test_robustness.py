"""Abuse that once broke something: changed parameters, odd numbers, interruptions, edited models."""

import _thread
import io
import logging
import pickle
import re
import threading
import time
from decimal import Decimal
from functools import cache, partial

import joblib
import numpy as np
import pytest
from internals import (
    BatchObjective,
    GroupOptimizer,
    Inference,
    LinearMinibatchOptimizer,
    LinearModel,
    MinibatchOptimizer,
    MiraOptimizer,
    OnlineOptimizer,
    StructureTask,
    loss_form,
    make_rows,
    new_memory,
    online_optimizer,
    replace,
)
from samples import graph_of, make_chains, make_rings
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.estimator_checks import check_param_validation

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    RaggedArray,
    StructuredGroupLasso,
    StructuredSparseMAPClassifier,
    lp_sparsemap,
    map_inference,
    marginal_inference,
    perceptron_path,
    sparsemap,
    stability_selection,
)
from sklearn_sparsemap.datasets import load_conll
from sklearn_sparsemap.estimators import Monitor
from sklearn_sparsemap.factors import FactorGraph
from sklearn_sparsemap.features import ArcVectorizer, InformationGainSelector, Template, TemplateVectorizer
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.penalties import as_groups
from sklearn_sparsemap.structures import LinearChain, Simplex

pd = pytest.importorskip("pandas")

X, Y = make_chains(30)
FLAT_X, FLAT_Y = np.vstack(X), np.concatenate(Y)
CLASSES = ["x", "y", "z"]


def chain(**parameters):
    return StructuredSparseMAPClassifier("chain", **parameters)


def test_the_structure_cannot_change_under_a_fitted_model():
    model = StructuredSparseMAPClassifier().partial_fit(FLAT_X, FLAT_Y, classes=CLASSES)
    model.set_params(structure="chain")
    with pytest.raises(ValueError, match="differs from that of the fitted model, Simplex"):
        model.partial_fit(X, Y)
    # Prediction goes on with the structure that was fitted.
    assert model.predict(FLAT_X).shape == (len(FLAT_X),)
    model = StructuredSparseMAPClassifier(warm_start=True).fit(FLAT_X, FLAT_Y).set_params(structure="chain")
    with pytest.raises(ValueError, match="differs from that of the fitted model"):
        model.fit(X, Y)


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = chain().fit(X, Y)
    before = model.coef_.copy()
    for bad in [
        lambda: clone(model).set_params(early_stopping=True).fit(X[:1], Y[:1]),
        lambda: model.set_params(early_stopping=True).fit(X[:1], Y[:1]),
        lambda: model.fit([np.zeros((2, 7))], [["a"]]),
        lambda: model.fit(X, Y, sample_weight=np.zeros(30)),
    ]:
        with pytest.raises(ValueError):
            bad()
    assert np.array_equal(model.coef_, before)
    assert len(model.predict(X)) == 30


def test_numbers_that_are_not_finite():
    for parameters in ({"alpha": np.inf}, {"eta0": np.inf}, {"temperature": np.inf}, {"tol": np.nan}):
        with pytest.raises(ValueError, match="must be "):
            chain(**parameters).fit(X, Y)
    with pytest.raises(ValueError, match="leave no sample with a positive weight"):
        chain(class_weight=dict.fromkeys(CLASSES, 0)).fit(X, Y)
    with pytest.raises(ValueError, match="must be finite"):
        chain(class_weight={"x": np.inf}).fit(X, Y)
    with pytest.raises(ValueError, match="hold out a smaller fraction"):
        model = chain(early_stopping=True, validation_fraction=0.5, random_state=0)
        model.fit(X[:2], Y[:2], sample_weight=[0, 1])
    huge = chain(alpha=1e-3).fit(X, Y, sample_weight=np.full(30, 1e308))
    np.testing.assert_allclose(huge.coef_, chain(alpha=1e-3).fit(X, Y).coef_, atol=1e-6)
    # By default, weights are numbers of samples.
    assert 0.0 < chain(tol=1.0).fit(X, Y, sample_weight=np.full(30, 1e308)).alpha_ < 1e-12
    with pytest.raises(ValueError, match="training diverged"):
        chain(solver="auto", eta0=1e308).partial_fit(X, Y, classes=CLASSES).partial_fit(X, Y)
    with pytest.raises(ValueError, match="rescale the features"):
        chain().fit(X, Y).predict([x * 1e200 for x in X])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scale", [1e6, 1e12, 1e20])
def test_badly_scaled_features_never_give_a_worse_model_than_none(scale):
    model = chain(solver="lbfgs").fit([np.eye(2) * scale] * 3, [["a", "b"]] * 3)
    assert model.score([np.eye(2) * scale], [["a", "b"]]) == 1.0


def test_an_interrupted_mini_batch_leaves_a_consistent_model(monkeypatch):
    model = chain(alpha=0.0).fit(X, Y)
    model.partial_fit(X[:5], Y[:5])

    def interrupted(*arguments):
        store = model._learned.optimizer.store
        store.values[store.n_dense :] += 1.0
        raise KeyboardInterrupt

    replace(monkeypatch, "_training", "EPOCHS", dict.fromkeys(online_optimizer.EPOCHS, interrupted))
    before = model.coef_.copy()
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, Y)
    np.testing.assert_allclose(model.coef_, before + 1.0)


def test_edited_models_predict_but_do_not_train_on_infinities():
    for parameters in ({}, {"warm_start": True}):
        model = chain(**parameters).fit(X, Y)
        model.transitions_[0, 1] = -np.inf
        model.predict(X)
        with pytest.raises(ValueError, match="weights are not all finite"):
            model.fit(X, Y) if parameters else model.partial_fit(X, Y)
        model.transitions_[0, 1] = -5.0
        model.fit(X, Y) if parameters else model.partial_fit(X, Y)
        assert np.isfinite(model.transitions_).all()
    # Every path forbidden: said, with the sample.
    model = chain().fit(X, Y)
    model.transitions_[:] = -np.inf
    with pytest.raises(ValueError, match=r"infeasible: the scores of X\[0\]"):
        model.predict(X)


def test_partial_fit_follows_changed_parameters():
    model = chain().partial_fit(X, Y, classes=CLASSES)
    before = model.coef_.copy()
    model.set_params(solver="adagrad", eta0=1e-300, alpha=0.0, average=True).partial_fit(X[:1], Y[:1])
    store = model._learned.optimizer.store
    last = store.values[store.n_dense :].copy()
    model.partial_fit(X, Y)
    assert np.array_equal(model._learned.optimizer.store.values[store.n_dense :], last)
    assert not np.array_equal(model.coef_, before), "the average moves towards the last weights"
    with pytest.raises(ValueError, match="average cannot change"):
        model.set_params(average=False).partial_fit(X, Y)


def test_kinds_of_classes():
    y = np.arange(len(FLAT_X)) % 3
    for classes in (np.unique(y), list(np.unique(y)), [0, 1, 2], (2, 0, 1), np.array([0, 1, 2], np.int32)):
        model = StructuredSparseMAPClassifier().partial_fit(FLAT_X, y, classes=classes)
        assert model.classes_.dtype.kind == "i" and model.classes_.tolist() == [0, 1, 2]
        assert model.score(FLAT_X, y) == accuracy_score(y, model.predict(FLAT_X)) > 0.3
    for classes in (3, "abc", [[0], [1]]):
        with pytest.raises(ValueError, match="classes must be"):
            StructuredSparseMAPClassifier().partial_fit(FLAT_X, y, classes=classes)
    named = [["c", "b"], ["a", 3], ["d", "c"]]
    model = chain().fit([np.eye(2)] * 3, named)
    assert model.classes_.tolist() == ["c", "b", "a", 3, "d"], "in order of appearance"
    big = chain().fit([np.eye(2)] * 2, [[2**70, 0]] * 2)
    assert big.predict([np.eye(2)])[0].tolist() == [2**70, 0]
    with pytest.raises(ValueError, match=r"y\[0\] is .*; it must be a sequence"):
        chain().fit([np.eye(2)], [{"a", "b"}])


MISSING = [np.nan, np.float32("nan"), np.datetime64("NaT", "D"), Decimal("nan"), pd.NA, pd.NaT]


@pytest.mark.parametrize("missing", MISSING, ids=lambda label: type(label).__name__)
def test_missing_labels_are_refused(missing):
    n = len(FLAT_X)
    mixed = np.array(["a", "b", missing] * n, dtype=object)[:n]
    flat = [mixed, mixed.tolist(), pd.Series(mixed), pd.Series(mixed, dtype="category")]
    paths = [["x", missing], pd.Series(["x", missing]), np.array(["x", missing], dtype=object)]
    for y in flat:
        for estimator in (StructuredSparseMAPClassifier(), GroupLassoPerceptron(), MultilabelLPSparseMAP()):
            with pytest.raises(ValueError, match="y contains NaN"):
                estimator.fit(FLAT_X, y)
    for path in paths:
        for estimator in (chain(), GroupLassoPerceptron("chain"), InformationGainSelector()):
            with pytest.raises(ValueError, match="Input y contains NaN as a label"):
                estimator.fit([np.eye(2)] * 2, [["x", "y"], path])
    for estimator in (StructuredSparseMAPClassifier(), GroupLassoPerceptron(), MultilabelLPSparseMAP()):
        with pytest.raises(ValueError, match="Input classes contains NaN"):
            estimator.partial_fit(FLAT_X, ["a"] * n, classes=["a", "b", missing])
    # None is a step whose label is not known.
    assert chain().fit([np.eye(2)], [["a", None]]).classes_.tolist() == ["a"]


ESTIMATORS = [
    StructuredSparseMAPClassifier(),
    GroupLassoPerceptron(),
    StructuredGroupLasso(),
    MultilabelLPSparseMAP(),
    TemplateVectorizer(),
    ArcVectorizer(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_parameters_are_checked_as_scikit_learn_checks_its_own(estimator):
    # Tries for each parameter a value of no type, and one that breaks each constraint, in all methods that fit.
    check_param_validation(type(estimator).__name__, estimator)
    unchecked = {name for name, what in estimator._parameter_constraints.items() if what == "no_validation"}
    assert unchecked <= {
        *("structure", "groups", "group_weights", "label_graph", "constraints", "score_model"),
        *("templates", "derived_fields", "n_features", "dtype"),
    }, "these have checks with more to say"


@pytest.mark.parametrize(
    "parameters",
    [
        *({name: value} for name in ("fit_intercept", "average", "shuffle") for value in ("no", 2, None)),
        *({"verbose": "x"}, {"verbose": -1}, {"n_jobs": 2.5}, {"n_jobs": "all"}, {"loss": ["hinge"]}),
        *({"random_state": "x"}, {"alpha": True}, {"class_weight": 3}, {"temperature": np.inf}),
    ],
    ids=str,
)
def test_wrong_types_are_refused_in_the_words_of_scikit_learn(parameters):
    ((name, value),) = parameters.items()
    for kind in (StructuredSparseMAPClassifier, GroupLassoPerceptron):
        message = re.escape(f"The '{name}' parameter of {kind.__name__} must be ") + ".*" + re.escape(f"Got {value!r}")
        for method in ("fit", "partial_fit"):
            with pytest.raises(InvalidParameterError, match=message):
                getattr(kind("chain", **parameters), method)(X, Y)


@pytest.mark.parametrize("value", [np.arange(500.0), list(range(500)), "x" * 500, ["x Got y instead."] * 99], ids=type)
def test_long_values_of_parameters_are_shortened(value):
    for kind, name in ((StructuredSparseMAPClassifier, "temperature"), (MultilabelLPSparseMAP, "threshold")):
        with pytest.raises(InvalidParameterError, match=r"\.\.\. instead\.$") as error:
            kind(**{name: value}).fit(np.eye(4), [0, 1, 1, 0])
        assert f"'{name}' parameter of {kind.__name__} must be " in str(error.value)
        assert f"Got {repr(value)[:20]}" in str(error.value) and len(str(error.value)) < 250


def test_the_other_flags_and_costs_and_threads():
    for parameters in ({"early_stopping": "yes"}, {"warm_start": 1}, {"cost": "hamming"}, {"eta0": -1.0}):
        (name, value), *_ = parameters.items()
        with pytest.raises(
            InvalidParameterError, match=f"The '{name}' parameter of .* Got {re.escape(repr(value))} instead"
        ):
            chain(**parameters).fit(X, Y)
    with pytest.raises(ValueError, match="cost must be an array of numbers"):
        chain(loss="hinge", cost=[["a", "b", "c"]] * 3).fit(X, Y)
    for cost in ("hamming", np.eye(3) * 1j):
        with pytest.raises(ValueError, match=r"cost must be an array of numbers|not supported: cost is complex"):
            FenchelYoungLoss(LinearChain(), "hinge", cost=cost)
    with pytest.raises(ValueError, match=r"loss=\['hinge'\] is not one of"):
        FenchelYoungLoss(LinearChain(), ["hinge"])
    graph = FactorGraph()
    graph.variables(2)
    for function in (
        lambda n: map_inference(Simplex(), [[1.0, 2.0]], n_jobs=n),
        lambda n: sparsemap(Simplex(), [[1.0, 2.0]], n_jobs=n),
        lambda n: marginal_inference(Simplex(), [[1.0, 2.0]], n_jobs=n),
        lambda n: lp_sparsemap(graph, [1.0, 2.0], n_jobs=n),
        lambda n: FenchelYoungLoss(Simplex()).loss_gradient([1.0, 2.0], 0, n_jobs=n),
        lambda n: perceptron_path(GroupLassoPerceptron(), FLAT_X, FLAT_Y, [1], n_jobs=n),
        lambda n: stability_selection(GroupLassoPerceptron(budget=1), FLAT_X, FLAT_Y, n_jobs=n),
        lambda n: chain().fit(X, Y).set_params(n_jobs=n).predict(X),
        lambda n: MultilabelLPSparseMAP(n_jobs=n).fit(FLAT_X, np.eye(3)[np.arange(len(FLAT_X)) % 3]),
    ):
        for n_jobs in (2.5, "all"):
            with pytest.raises(ValueError, match=r"n_jobs'? .*must be an instance of 'int' or None"):
                function(n_jobs)


def test_a_class_weight_for_an_absent_label():
    absent = {"x": 1.0, "y": 2.0, "z": 1.0, "rare": 9.0}
    assert np.array_equal(chain(class_weight=absent).fit(X, Y).coef_, chain(class_weight={"y": 2.0}).fit(X, Y).coef_)
    with pytest.raises(ValueError, match=r"must be a str among {'balanced'}, an instance of 'dict' or None"):
        chain(class_weight=["x"]).fit(X, Y)


def test_verbose_is_heard_whatever_the_logging(capsys):
    root = logging.getLogger()
    handler = logging.StreamHandler(io.StringIO())
    root.addHandler(handler)
    try:
        chain(verbose=1).fit(X, Y)
    finally:
        root.removeHandler(handler)
    assert "iteration 1: loss" in capsys.readouterr().out


def test_a_memory_mapped_model_trains_on(tmp_path):
    model = chain().partial_fit(X, Y, classes=CLASSES)
    joblib.dump(model, tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    assert np.array_equal(mapped.partial_fit(X, Y).coef_, model.partial_fit(X, Y).coef_)


def test_sparse_features_of_every_form():
    dense = [np.where(np.abs(x) > 0.3, x, 0.0) for x in X]
    for solver in ("lbfgs", "adagrad"):
        # AdaGrad takes a proximal step after a number of stored entries, of which `halves` has twice as many.
        expected = chain(solver=solver, alpha=1e-4, random_state=0, tol=1e-2).fit(dense, Y)
        halves = []
        for x in dense:
            half = sparse.csr_matrix(x / 2)
            indptr = 2 * half.indptr
            indices = np.concatenate([np.tile(half.indices[a:b], 2) for a, b in zip(half.indptr, half.indptr[1:])])
            data = np.concatenate([np.tile(half.data[a:b], 2) for a, b in zip(half.indptr, half.indptr[1:])])
            halves.append(sparse.csr_matrix((data, indices, indptr), shape=x.shape))
        long = [sparse.csr_array(x) for x in dense]
        for x in long:
            x.indices, x.indptr = x.indices.astype(np.int64), x.indptr.astype(np.int64)
        for form in ([sparse.coo_array(x) for x in dense], [sparse.csc_matrix(x) for x in dense], halves, long):
            model = clone(expected).fit(form, Y)
            np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6 if solver == "adagrad" else 1e-3)
        assert halves[0].nnz == 2 * np.count_nonzero(dense[0]), "the user's matrices are left alone"


def test_inference_says_what_is_wrong():
    for function in (sparsemap, map_inference):
        with pytest.raises(ValueError, match=r"structure must be an instance such as LinearChain\(\)"):
            function("chain", np.zeros((2, 2)))
        with pytest.raises(ValueError, match="structure must be an instance"):
            function(LinearChain, np.zeros((2, 2)))
        with pytest.raises(ValueError, match=r"values beyond 1e\+100"):
            function(Simplex(), [1e308, 1e308])
        with pytest.raises(ValueError, match=r"scores\[0\] is inf"):
            function(Simplex(), [np.inf, -np.inf])
        with pytest.raises(ValueError, match=r"transitions has shape ragged; .* must have \(2, 2\)"):
            function(LinearChain(), np.zeros((3, 2)), transitions=[[1.0], [1.0, 2.0]])
    assert sparsemap(LinearChain(), np.eye(3), max_iter=10**30).converged
    with pytest.raises(ValueError, match="infeasible"):
        FenchelYoungLoss(LinearChain()).loss_gradient(np.full((2, 2), -np.inf), [0, 0])
    with pytest.raises(ValueError, match="tol must be"):
        FenchelYoungLoss(LinearChain(), tol=-5)


def test_near_ties_converge_or_say_so():
    rng = np.random.RandomState(0)
    scores, transitions = rng.randn(14, 6) * 1e-3, rng.randn(6, 6) * 1e-5
    result = sparsemap(LinearChain(), scores, transitions=transitions, solver="active_set")
    assert result.converged and result.gap <= 1e-9
    # Without in-out pricing it took more than 3,000 calls.
    assert 500 < result.n_iter < 2000, "this is no near tie, or structures do not come in any more"
    # As a flow, it is easy.
    by_flow = sparsemap(LinearChain(), scores, transitions=transitions)
    assert by_flow.converged and by_flow.n_iter < 100
    np.testing.assert_allclose(by_flow.marginals, result.marginals, atol=1e-7)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_training_where_everything_all_but_ties():
    rng = np.random.RandomState(0)
    samples = [rng.randn(12, 4) for _ in range(5)]
    labels = [rng.randint(6, size=12) for _ in range(5)]
    model = chain(alpha=1000.0, max_iter=5).fit(samples, labels)
    assert np.abs(model.coef_).max() < 0.01


def test_ragged_arrays_are_strict():
    ragged = RaggedArray.from_list([np.zeros((2, 2)), np.ones((1, 2))])
    with pytest.raises(IndexError):
        ragged[True]
    with pytest.raises(IndexError, match="mask"):
        ragged[np.array([], dtype=bool)]
    with pytest.raises(ValueError, match="indptr must be integers"):
        RaggedArray(np.zeros(2), [0, 0.5, 2])
    with pytest.raises(ValueError, match="values must have rows"):
        RaggedArray(5, [0])


def test_offsets_are_bounded():
    with pytest.raises(ValueError, match="at most 1000"):
        Template.parse("word[100000000]")


def test_words_with_no_break_spaces(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("10\u00a0000 CD B-NP\nyen NNS I-NP\n", encoding="utf-8")
    sentences, _ = load_conll(path)
    assert [token["word"] for token in sentences[0]] == ["10\u00a0000", "yen"]


def test_an_unknown_structure_is_an_error_only_when_it_is_used():
    model = StructuredSparseMAPClassifier("lattice")
    assert "lattice" in repr(model) and pickle.loads(pickle.dumps(model)).structure == "lattice"
    model._repr_html_()


def test_ctrl_c_stops_lbfgs_within_an_evaluation(fresh_python):
    code = """
import signal, threading, os, time
import numpy as np
from sklearn_sparsemap import StructuredSparseMAPClassifier
rng = np.random.default_rng(0)
X = [rng.normal(size=(20, 5)) for _ in range(400)]
y = [rng.integers(8, size=20) for _ in X]
model = StructuredSparseMAPClassifier("chain", solver="lbfgs")
model.set_params(max_iter=1, tol=10.0).fit(X[:5], y[:5])
model.set_params(max_iter=10**6, tol=0.0)


def press():
    # Again and again: Python drops an interrupt that arrives while a destructor or a weak reference's callback runs.
    for _ in range(60):
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=press, daemon=True).start()
try:
    model.fit(X, y)
    print("finished")
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("interrupted", len(model.predict(X)))
"""
    out = fresh_python(code)
    assert out.stdout.split() == ["interrupted", "400"], out.stderr


INFERENCE = {
    "near ties in a chain": """
rng = np.random.default_rng(0)
scores, transitions = 1e-3 * rng.normal(size=(100, 30)), 1e-5 * rng.normal(size=(30, 30))
def solve(scores=scores, **parameters):
    return sparsemap(LinearChain(), scores, transitions=transitions, solver="active_set", **parameters)
small, parameters = {"scores": scores, "max_iter": 2}, {"max_iter": 10**9}
""",
    "a batch on two threads": """
rng = np.random.default_rng(0)
scores, transitions = 1e-3 * rng.normal(size=(100, 30)), 1e-5 * rng.normal(size=(30, 30))
def solve(**parameters):
    return sparsemap(
        LinearChain(), [scores] * 4, transitions=transitions, n_jobs=2, solver="active_set", **parameters
    )
small, parameters = {"max_iter": 2}, {"max_iter": 10**9}
""",
    "a graph": """
scores = np.random.default_rng(0).normal(size=(101, 100))
graph = FactorGraph()
arcs = graph.variables(scores.shape)
graph.add(StructureFactor(DependencyTree(), arcs), *[Budget(row, 3) for row in arcs])
def solve(scale=0.3, **parameters):
    return lp_sparsemap(graph, scale * scores, **parameters)
# A solver that is not done before the interrupt.
small = {"scale": 10.0, "max_iter": 2, "solver": "admm"}
parameters = {"solver": "admm", "tol": 1e-15, "max_iter": 10**9}
""",
}


INTERRUPT = """
import _thread, sys, threading, time
import numpy as np
from sklearn_sparsemap import lp_sparsemap, sparsemap
from sklearn_sparsemap.factors import Budget, FactorGraph, StructureFactor
from sklearn_sparsemap.structures import DependencyTree, LinearChain
for code in sys.argv[1:]:
    exec(code)
    solve(**small)
    for delay in (0.05, 0.2):
        threading.Timer(delay, _thread.interrupt_main).start()
        began = time.perf_counter()
        try:
            solve(**parameters)
            print("finished", end=" ")
        except KeyboardInterrupt:
            print("interrupted" if time.perf_counter() - began < 10 else "late", end=" ")
    # The thread of the kernels is free again.
    solve(**small)
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def after_interrupts(fresh_python):
    """What one process, interrupted in each of these, says about them: by name, and all that it complains of."""
    out = fresh_python(INTERRUPT, *INFERENCE.values())
    return dict(zip(INFERENCE, out.stdout.splitlines())), out.stderr


@pytest.mark.parametrize("name", INFERENCE)
def test_ctrl_c_stops_inference(name, after_interrupts):
    said, complaints = after_interrupts
    assert said.get(name) == "interrupted interrupted done", complaints


def test_inexact_probabilities_are_reported(monkeypatch):
    model = chain(alpha=0.1).fit(X, Y)
    plain = {}

    def stops_early(name, *given, **options):
        return plain[name](*given, **options | {"max_iter": 2})

    for room, name in (("_training", "sparsemap"), ("_training", "argmax_problems")):
        plain[name] = replace(monkeypatch, room, name, partial(stops_early, name))
    for method in (model.predict_marginals, model.predict_structures):
        with pytest.warns(ConvergenceWarning, match=r"SparseMAP did not converge for \d+ samples"):
            method(X)


def test_warnings_point_at_the_user():
    with pytest.warns(ConvergenceWarning) as caught:
        chain(max_iter=1).fit(X, Y)
    assert caught[0].filename == __file__


ENDLESS = {"tol": 0.0, "max_iter": 10**6, "n_iter_no_change": 10**6}
# By name: an estimator, and the method in which it takes its first step.
TRAININGS = {
    "lbfgs": (chain(solver="lbfgs", **ENDLESS), (BatchObjective, "loss_gradient")),
    "adagrad": (chain(solver="adagrad", **ENDLESS), (OnlineOptimizer, "epoch")),
    "mira": (chain(solver="mira", loss="hinge", **ENDLESS), (OnlineOptimizer, "epoch")),
    "graphs, lbfgs": (
        StructuredSparseMAPClassifier(graph_of, solver="lbfgs", **ENDLESS), (BatchObjective, "loss_gradient"),
    ),
    "graphs, adagrad": (
        StructuredSparseMAPClassifier(graph_of, solver="adagrad", **ENDLESS), (LinearMinibatchOptimizer, "epoch"),
    ),
    "multilabel": (MultilabelLPSparseMAP(**ENDLESS, solver="adam"), (MinibatchOptimizer, "epoch")),
    "perceptron": (
        GroupLassoPerceptron("chain", budget=2, shrink_every=7, max_iter=10**6), (GroupOptimizer, "epoch"),
    ),
}  # fmt: skip


@cache
def data_of(training):
    """Return samples and targets for one of these."""
    if "graphs" in training:
        return make_rings(30, 0)
    return (FLAT_X, (FLAT_X[:, :3] > 0.5).astype(int)) if training == "multilabel" else (X, Y)


def fitted_attributes(estimator):
    return {name for name in vars(estimator) if name.startswith("_") or name.endswith("_")}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("exception", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("training", TRAININGS)
def test_before_the_first_step_an_estimator_stays_as_it_was(training, exception, monkeypatch):
    (endless, first_step), (X, y) = TRAININGS[training], data_of(training)
    model = clone(endless).set_params(max_iter=2)
    before = [np.asarray(one) for one in model.fit(X, y).predict(X)]
    names = fitted_attributes(model)

    def interrupted(*arguments, **keywords):
        raise exception

    for place in (first_step, (Monitor, "__init__")):
        with monkeypatch.context() as patched:
            patched.setattr(*place, interrupted)
            wider = [np.hstack([x, x]) for x in X]
            for method in ("fit", "partial_fit")[: 2 if place is first_step else 1]:
                new = clone(model)
                keywords = {"classes": CLASSES} if method == "partial_fit" and "graphs" not in training else {}
                keywords = {} if training == "multilabel" else keywords
                if method == "fit" or training not in ("lbfgs", "graphs, lbfgs"):
                    with pytest.raises(exception):
                        getattr(new, method)(X, y, **keywords)
                    assert fitted_attributes(new) == set()
                    with pytest.raises(NotFittedError):
                        new.predict(X)
            with pytest.raises(exception):
                model.fit(wider, y)
        assert fitted_attributes(model) == names
        for one, other in zip(before, model.predict(X), strict=True):
            assert np.array_equal(one, other)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:groups have not been shrunk yet")
@pytest.mark.parametrize("training", TRAININGS)
def test_ctrl_c_keeps_what_the_last_step_left(training, monkeypatch):
    (model, (owner, name)), (X, y) = TRAININGS[training], data_of(training)
    model, n_calls, original = clone(model), 0, getattr(owner, name)
    # Everything is compiled before the timer starts.
    clone(model).set_params(max_iter=2).fit(X, y).predict(X)

    def step(*arguments, **keywords):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 6:
            threading.Timer(0.01, _thread.interrupt_main).start()
        return original(*arguments, **keywords)

    monkeypatch.setattr(owner, name, step)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
        time.sleep(5.0)
    monkeypatch.undo()
    assert model.n_iter_ >= 1 and len(model.predict(X)) == len(X)
    assert not hasattr(model, "_to_commit") and np.isfinite(model.loss_curve_).all()
    if "lbfgs" not in training:
        model.partial_fit(X, y)


@pytest.mark.parametrize("kind", ["adagrad", "mira", "pairs"])
def test_ctrl_c_leaves_the_present_sample_out(kind):
    # Tied scores, so that a sample's inference takes long where there is any.
    rng, loss = np.random.default_rng(0), "hinge" if kind == "mira" else "sparsemap"
    ragged = RaggedArray.from_list([1e-3 * rng.normal(size=(60, 3)) for _ in range(20)])
    structure, n_outputs = LinearChain(), 10
    gold = RaggedArray.from_list(list(rng.integers(10, size=(20, 60))))
    targets = StructureTask(structure, ragged, n_outputs).learn(gold, np.ones(20), loss).targets
    form, n_additional = loss_form(structure, loss, 1.0, None, n_outputs), 120
    # The last step of an order is the one that is interrupted.
    order = np.tile(np.arange(20), 20_000)

    def start():
        if kind == "pairs":
            shape = n_outputs, n_additional
            optimizer = GroupOptimizer(as_groups(None, 3), np.ones(3), *shape, average=True, mira=False)
            optimizer.configure(eta0=1e-3, period=20, C=1.0, shrink_every=5, budget=None, alpha=0.0, fit_intercept=True)
            return optimizer
        model = LinearModel.zeros(3, n_outputs, n_additional)
        if kind == "mira":
            optimizer = MiraOptimizer(model, average=True)
            optimizer.configure(C=1e-3, fit_intercept=True)
        else:
            optimizer = OnlineOptimizer(model, average=True)
            optimizer.configure(alpha=1e-4, eta0=1e-4, tol=1e-8, fit_intercept=True)
        return optimizer

    def run(optimizer, order):
        # Each training has its own, which may get another solver on the way.
        inference = Inference(structure, loss)
        optimizer.epoch(inference, form, make_rows(ragged.values), targets, order, new_memory(targets.sizes, 0))

    run(start(), order[:2])
    interrupted, again = start(), start()
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(interrupted, order)
    n_steps = interrupted.n_steps
    assert 0 < n_steps < len(order)
    run(again, order[:n_steps])
    for name in ("intercept", "additional"):
        assert np.array_equal(getattr(interrupted.model(), name), getattr(again.model(), name))


def test_scores_in_a_sparse_vector_are_refused():
    # A sparse matrix has two axes, one more than the scores of this structure, but is no list of samples.
    with pytest.raises(ValueError, match=r"scores must be dense.*toarray"):
        map_inference(Simplex(), sparse.csr_array(np.eye(3)))


def test_y_without_a_length_is_refused():
    for wrong in (iter(Y), 3):
        with pytest.raises(ValueError, match="y must be a sequence with one structure a sample"):
            StructuredSparseMAPClassifier("chain").fit(X, wrong)


def test_sample_weights_that_overflow_are_refused():
    rows = np.concatenate(X)
    weights = np.r_[1e300, np.ones(len(rows) - 1)]
    for fit in (MultilabelLPSparseMAP().fit, MultilabelLPSparseMAP().partial_fit):
        with pytest.raises(ValueError, match=r"sample_weight\[0\] is 1e\+300; .* divide all weights"):
            fit(rows, rows > 0.0, sample_weight=weights)


@pytest.mark.parametrize("max_iter", [10**30, np.int32(1000), np.uint64(1000)])
def test_max_iter_is_any_int(max_iter):
    graph = FactorGraph()
    graph.variables(2)
    assert lp_sparsemap(graph, [1.0, 2.0], max_iter=max_iter).converged
    assert sparsemap(LinearChain(), np.eye(2), max_iter=max_iter).converged
