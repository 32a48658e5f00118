"""StructuredSparseMAPClassifier: in scikit-learn's life, on chains and on flat data."""

import _thread
import logging
import pickle
import re
import threading
import time

import numpy as np
import pytest
from internals import OnlineOptimizer, replace
from samples import make_chains
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_sparsemap import GroupLassoPerceptron, RaggedArray, StructuredSparseMAPClassifier, map_inference, sparsemap
from sklearn_sparsemap.estimators import Monitor, cross_val_marginals
from sklearn_sparsemap.features import TemplateVectorizer, TokenDictVectorizer
from sklearn_sparsemap.inspection import explain
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.metrics import flat_accuracy_scorer, span_f1_scorer
from sklearn_sparsemap.pipeline import make_structured_pipeline
from sklearn_sparsemap.structures import LinearChain, Simplex

pd = pytest.importorskip("pandas")


def as_lists(y):
    return [list(s) for s in y]


@parametrize_with_checks([StructuredSparseMAPClassifier(), StructuredSparseMAPClassifier(solver="lbfgs", alpha=0.1)])
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


@pytest.mark.parametrize("solver", ["lbfgs", "adagrad"])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_chain_learns_what_single_labels_cannot(solver, kind):
    X, y = make_chains(200, kind=kind)
    X_test, y_test = make_chains(100, seed=1, kind=kind)
    chain = StructuredSparseMAPClassifier(structure="chain", solver=solver, random_state=0, alpha=1e-2, tol=1e-3)
    chain.fit(X, y)

    def stack(X):
        return np.vstack([x.toarray() if kind == "csr" else x for x in X])

    flat = StructuredSparseMAPClassifier(alpha=1e-2).fit(stack(X), np.concatenate(y))
    assert chain.score(X_test, y_test) > flat.score(stack(X_test), np.concatenate(y_test)) + 0.02
    assert chain.coef_.shape == (3, 4) and chain.intercept_.shape == (3,)
    assert chain.transitions_.shape == (3, 3) and chain.start_.shape == chain.end_.shape == (3,)
    # No label is followed by the one before it.
    assert (np.diag(chain.transitions_) > chain.transitions_[:, [2, 0, 1]].diagonal() + 0.1).all()
    assert chain.classes_.tolist() == ["x", "y", "z"]
    assert chain.n_iter_ == len(chain.loss_curve_)
    assert chain.loss_curve_[-1] < chain.loss_curve_[0]


def test_both_solvers_reach_the_same_objective():
    X, y = make_chains(60)
    batch = StructuredSparseMAPClassifier("chain", alpha=0.05, solver="lbfgs", tol=1e-7).fit(X, y)
    online = StructuredSparseMAPClassifier(
        "chain", alpha=0.05, solver="adagrad", tol=0.0, max_iter=300, n_iter_no_change=300, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="still improving"):
        online.fit(X, y)
    np.testing.assert_allclose(online.coef_, batch.coef_, atol=0.1)
    np.testing.assert_allclose(online.transitions_, batch.transitions_, atol=0.1)


def test_lbfgs_gets_away_from_zero_where_all_paths_tie():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 4)) for n in rng.integers(1, 9, size=30)]
    y = [rng.integers(3, size=len(x)) for x in X]
    batch = StructuredSparseMAPClassifier("chain", alpha=0.1, solver="lbfgs", tol=1e-3).fit(X, y)
    online = StructuredSparseMAPClassifier(
        "chain", alpha=0.1, solver="adagrad", tol=1e-6, n_iter_no_change=20, max_iter=500, random_state=0
    ).fit(X, y)
    zeros = np.mean([loss for loss, _ in FenchelYoungLoss(LinearChain()).loss_gradient([0 * x[:, :3] for x in X], y)])
    assert batch.loss_curve_[-1] < zeros - 0.01
    assert batch.loss_curve_[-1] < online.loss_curve_[-1] + 0.01


def test_outputs_of_a_chain():
    X, y = make_chains()
    model = StructuredSparseMAPClassifier(structure="chain", alpha=0.05).fit(X, y)
    predicted = model.predict(X)
    assert predicted.shape == (len(X),) and predicted.dtype == object
    scores, marginals, found = model.decision_function(X), model.predict_marginals(X), model.predict_structures(X)
    for x, s, u, few, p in zip(X, scores, marginals, found, predicted, strict=True):
        assert s.shape == u.shape == (len(x), 3)
        np.testing.assert_allclose(s, x @ model.coef_.T + model.intercept_)
        alone = sparsemap(LinearChain(), s, transitions=model.transitions_, start=model.start_, end=model.end_)
        np.testing.assert_allclose(u, alone.marginals, atol=1e-9)
        probabilities = [q for _, q in few]
        assert sum(probabilities) == pytest.approx(1.0) and probabilities == sorted(probabilities, reverse=True)
        mixture = sum(q * (np.array(labels)[:, None] == model.classes_) for labels, q in few)
        np.testing.assert_allclose(mixture, u, atol=1e-9)
        additional = {"transitions": model.transitions_, "start": model.start_, "end": model.end_}
        assert p.tolist() == model.classes_[map_inference(LinearChain(), s, **additional).structure].tolist()
    for own, other in zip(model.predict_proba(X), marginals, strict=True):
        np.testing.assert_array_equal(own, other)
    assert not hasattr(StructuredSparseMAPClassifier("tree"), "predict_proba")


def test_equal_lengths_do_not_collapse_the_output():
    X = [np.eye(2), np.eye(2)]
    y = [["a", "b"], ["a", "b"]]
    model = StructuredSparseMAPClassifier(structure="chain").fit(X, y)
    assert model.predict(X).shape == model.predict_marginals(X).shape == model.decision_function(X).shape == (2,)
    assert model.score(X, np.array(y)) == 1.0


def test_multiclass_outputs():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = StructuredSparseMAPClassifier().fit(X, names)
    assert model.score(X, names) > 0.95
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (proba == 0.0).mean() > 0.3, "sparsemax probabilities are sparse"
    assert np.array_equal(proba, model.predict_marginals(X))
    best = [few[0][0] for few in model.predict_structures(X)]
    assert (np.array(best) == model.predict(X)).mean() > 0.99
    assert not hasattr(model, "transitions_")
    binary = StructuredSparseMAPClassifier().fit(X[:100], y[:100])
    assert binary.decision_function(X).shape == (150,)
    assert np.array_equal(binary.predict(X), (binary.decision_function(X) > 0).astype(int))
    by_object = StructuredSparseMAPClassifier(structure=Simplex()).fit(X, names)
    assert np.array_equal(by_object.coef_, model.coef_)


@pytest.mark.parametrize("labels", [[0, 1, 2], [("B", 1), ("I", 1), ("O", 0)], [(), "a", 3.5], [True, False, 2]])
def test_labels_of_any_kind(labels):
    X, y = make_chains()
    code = {"x": 0, "y": 1, "z": 2}
    named = [[labels[code[s]] for s in sequence] for sequence in y]
    model = StructuredSparseMAPClassifier(structure="chain").fit(X, named)
    plain = StructuredSparseMAPClassifier(structure="chain").fit(X, y)
    assert model.score(X, named) == pytest.approx(plain.score(X, y), abs=0.03)
    assert {label for p in model.predict(X) for label in p.tolist()} <= set(labels)


def test_containers_are_equivalent():
    X, y = make_chains()
    expected = StructuredSparseMAPClassifier(structure="chain").fit(X, y)
    objects_X, objects_y = np.empty(len(X), object), np.empty(len(X), object)
    objects_X[:], objects_y[:] = X, y
    for other_X, other_y in [
        (tuple(X), as_lists(y)),
        (objects_X, objects_y),
        (RaggedArray.from_list(X), RaggedArray.from_list(y)),
        ([x.tolist() for x in X], y),
        ([np.asfortranarray(x) for x in X], [tuple(s) for s in y]),
    ]:
        model = clone(expected).fit(other_X, other_y)
        assert np.array_equal(model.coef_, expected.coef_)
        assert model.classes_.tolist() == expected.classes_.tolist()
        assert model.score(other_X, other_y) == expected.score(X, y)
        assert all(np.array_equal(a, b) for a, b in zip(model.predict(other_X), expected.predict(X), strict=True))
    single = clone(expected).fit([x.astype(np.float32) for x in X], y)
    np.testing.assert_allclose(single.coef_, expected.coef_, atol=1e-2)


def test_clone_pickle_and_params():
    X, y = make_chains()
    model = StructuredSparseMAPClassifier("chain", alpha=0.1, temperature=2.0).fit(X, y)
    assert clone(model).get_params() == model.get_params()
    copy = pickle.loads(pickle.dumps(model))
    assert all(np.array_equal(a, b) for a, b in zip(copy.predict(X), model.predict(X), strict=True))
    assert not is_classifier(model) and is_classifier(StructuredSparseMAPClassifier())
    with pytest.raises(NotFittedError):
        clone(model).predict(X)
    for name in ("coef_", "intercept_", "transitions_"):
        assert not hasattr(clone(model), name)


@pytest.mark.parametrize("as_y", [list, as_lists, RaggedArray.from_list], ids=["arrays", "lists", "ragged"])
def test_grid_search_and_cross_validation(as_y):
    X, y = make_chains(30)
    y = as_y(y)
    search = GridSearchCV(StructuredSparseMAPClassifier("chain", tol=1e-2), {"alpha": [1e-2, 1e2]}, cv=3).fit(X, y)
    assert search.best_params_ == {"alpha": 1e-2}
    assert search.predict(X).shape == (30,)
    scored = cross_val_score(search.best_estimator_, X, y, cv=KFold(3), scoring=flat_accuracy_scorer)
    assert (scored > 0.6).all()
    predicted = cross_val_predict(search.best_estimator_, X, y, cv=3)
    assert [len(p) for p in predicted] == [len(x) for x in X]
    parts = train_test_split(RaggedArray.from_list(X), y, random_state=0)
    assert search.best_estimator_.fit(parts[0], parts[2]).score(parts[1], parts[3]) > 0.6


def test_pipeline_on_raw_sentences():
    sentences = ["the big dog saw a cat".split(), "a cat ran".split(), "dogs saw the big cat".split()] * 4
    tags = ["B-NP I-NP I-NP O B-NP I-NP".split(), "B-NP I-NP O".split(), "B-NP O B-NP I-NP I-NP".split()] * 4
    pipeline = make_pipeline(TemplateVectorizer(), StructuredSparseMAPClassifier("chain", solver="lbfgs", tol=1e-2))
    pipeline.fit(sentences, tags)
    assert pipeline.score(sentences, tags) == 1.0
    assert span_f1_scorer(pipeline, sentences, tags) == 1.0
    assert pipeline.predict([["the", "dog", "ran"]])[0].tolist() == ["B-NP", "I-NP", "O"]
    grid = {"structuredsparsemapclassifier__alpha": [1e-3, 1e-1], "templatevectorizer__min_count": [1, 2]}
    search = GridSearchCV(pipeline, grid, cv=3, scoring=span_f1_scorer).fit(sentences, tags)
    assert search.best_score_ == 1.0


def mini_batches(n_batches, kind="dense"):
    for seed in range(n_batches):
        yield make_chains(10, seed=seed, kind=kind)


def test_partial_fit_on_a_stream():
    model = StructuredSparseMAPClassifier(structure="chain", alpha=1e-3)
    for X, y in mini_batches(40):
        model.partial_fit(X, y, classes=["x", "y", "z"])
    X_test, y_test = make_chains(100, seed=1000)
    assert model.score(X_test, y_test) > 0.8
    assert model.n_iter_ == 40
    all_X = [x for X, _ in mini_batches(40) for x in X]
    all_y = [s for _, y in mini_batches(40) for s in y]
    whole = StructuredSparseMAPClassifier("chain", alpha=1e-3).fit(all_X, all_y)
    assert model.score(X_test, y_test) > whole.score(X_test, y_test) - 0.03
    # A pickled model goes on where it was.
    copy = pickle.loads(pickle.dumps(model))
    for other in (model, copy):
        other.partial_fit(X_test, y_test)
    assert np.array_equal(model.coef_, copy.coef_)


def test_partial_fit_continues_a_fit_and_flat_data():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    model = StructuredSparseMAPClassifier(alpha=1e-3)
    for start in range(0, 1500, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100], classes=np.arange(10))
    assert model.score(X[1500:], y[1500:]) > 0.85
    fitted = StructuredSparseMAPClassifier(alpha=1e-3, max_iter=200).fit(X[:1000], y[:1000])
    before = fitted.coef_.copy()
    fitted.partial_fit(X[1000:1010], y[1000:1010])
    assert 0 < np.abs(fitted.coef_ - before).max() < 1.0


def test_threads_change_nothing():
    X, y = make_chains(100)
    for solver in ("lbfgs", "adagrad"):
        models = [
            StructuredSparseMAPClassifier("chain", solver=solver, n_jobs=n_jobs, random_state=0, tol=1e-2).fit(X, y)
            for n_jobs in (1, 2)
        ]
        for name in ("coef_", "intercept_", "transitions_", "start_", "end_"):
            assert np.array_equal(getattr(models[0], name), getattr(models[1], name))
        for a, b in zip(models[0].predict_marginals(X), models[1].predict_marginals(X), strict=True):
            assert np.array_equal(a, b)


def test_same_seed_same_model():
    X, y = make_chains()
    fits = [
        StructuredSparseMAPClassifier("chain", solver="adagrad", random_state=s, tol=1e-2).fit(X, y).coef_
        for s in (0, 0, 1)
    ]
    assert np.array_equal(fits[0], fits[1]) and not np.array_equal(fits[0], fits[2])


def test_sample_weights_count_samples():
    X, y = make_chains(30)
    repeats = np.random.default_rng(0).integers(0, 3, size=30)
    repeated_X = [x for x, r in zip(X, repeats) for _ in range(r)]
    repeated_y = [s for s, r in zip(y, repeats) for _ in range(r)]
    model = StructuredSparseMAPClassifier("chain", alpha=0.1, tol=1e-7)
    weighted = clone(model).fit(X, y, sample_weight=repeats)
    plain = clone(model).fit(repeated_X, repeated_y)
    np.testing.assert_allclose(weighted.coef_, plain.coef_, atol=1e-5)
    np.testing.assert_allclose(weighted.transitions_, plain.transitions_, atol=1e-5)
    assert weighted.score(X, y, sample_weight=repeats) == pytest.approx(plain.score(repeated_X, repeated_y))


def test_class_weights():
    X, y = make_chains(100)
    plain = StructuredSparseMAPClassifier("chain", alpha=1.0).fit(X, y)
    heavy = StructuredSparseMAPClassifier("chain", alpha=1.0, class_weight={"z": 50.0}).fit(X, y)
    count = [sum((p == "z").sum() for p in model.predict(X)) for model in (plain, heavy)]
    assert count[1] > count[0]
    # A structured sample weighs the mean over its steps.
    steps = [np.where(s == "z", 50.0, 1.0).mean() for s in y]
    same = StructuredSparseMAPClassifier("chain", alpha=1.0).fit(X, y, sample_weight=steps)
    np.testing.assert_allclose(heavy.coef_, same.coef_, atol=1e-10)
    labels, counts = np.unique(np.concatenate(y), return_counts=True)
    balanced = dict(zip(labels, counts.sum() / (3 * counts)))
    models = [StructuredSparseMAPClassifier("chain", alpha=1.0, class_weight=w) for w in ("balanced", balanced)]
    np.testing.assert_allclose(*[model.fit(X, y).coef_ for model in models], atol=1e-10)
    with pytest.raises(ValueError, match="names the label 'w'"):
        StructuredSparseMAPClassifier("chain", class_weight={"w": 1.0}).fit(X, y)
    with pytest.raises(ValueError, match="needs all of y"):
        StructuredSparseMAPClassifier("chain", class_weight="balanced").partial_fit(X, y, classes=["x", "y", "z"])


@pytest.mark.parametrize("solver", ["lbfgs", "adagrad"])
def test_early_stopping_keeps_the_best_model(solver):
    X, y = make_chains(120)
    model = StructuredSparseMAPClassifier(
        "chain",
        solver=solver,
        alpha=0.0,
        early_stopping=True,
        validation_fraction=0.3,
        random_state=0,
        n_iter_no_change=3,
    )
    model.fit(X, y)
    assert len(model.validation_scores_) == model.n_iter_ == len(model.loss_curve_)
    best = int(np.argmax(model.validation_scores_))
    assert best < model.n_iter_ - 1
    rng = np.random.RandomState(0)
    _, held = train_test_split(np.arange(120), test_size=0.3, random_state=rng.randint(2**31 - 1))
    held_score = model.score([X[i] for i in held], [y[i] for i in held])
    assert held_score == pytest.approx(max(model.validation_scores_))
    digits, labels = load_iris(return_X_y=True)
    flat = StructuredSparseMAPClassifier(early_stopping=True, random_state=0, solver=solver).fit(digits, labels)
    assert flat.score(digits, labels) > 0.7


@pytest.mark.parametrize("loss, solver", [("sparsemap", "adagrad"), ("crf", "adagrad"), ("hinge", "mira")])
def test_training_stops_when_the_loss_hardly_decreases(loss, solver):
    X, y = make_chains()
    for tol, n in ((None, 5), (0.02, 3), (1e-3, 4)):
        model = StructuredSparseMAPClassifier(
            "chain", loss, solver=solver, tol=tol, n_iter_no_change=n, max_iter=1000, random_state=0
        ).fit(X, y)
        curve, little = model.loss_curve_, 7e-3 if tol is None else tol
        ends = []
        for k in range(n + 1, len(curve) + 1):
            decreases = [curve[i - 1] - curve[i] for i in range(k - n, k)]
            ends.append(sum(decreases) / n <= little * sum(curve[:k]) / k)
        assert ends == [False] * (len(ends) - 1) + [True]


def as_objects(items):
    """Return a list as an array of objects."""
    array = np.empty(len(items), object)
    array[:] = items
    return array


def test_inference_of_online_training_is_rough(monkeypatch):
    X, y = make_chains(60)
    accepted, accept = [], OnlineOptimizer.accept_gap

    def fit(share, temperature=1.0):
        """Return a model, trained with inference that ends at this fraction of the mean loss."""
        replace(monkeypatch, "estimators", "_ROUGH", share)
        accepted.clear()
        model = StructuredSparseMAPClassifier(
            "chain", solver="adagrad", alpha=1e-4, temperature=temperature, random_state=0
        )
        return model.fit(X, y)

    monkeypatch.setattr(OnlineOptimizer, "accept_gap", lambda *given: (accepted.append(given[1]), accept(*given)))
    for temperature in (1.0, 0.5):
        exact, rough = fit(0.0, temperature), fit(1e-3, temperature)
        # The first visit has three parts.
        later = zip(rough.loss_curve_[1:], accepted[3:], strict=True)
        penalty = [loss - temperature * 1e3 * gap for loss, gap in later]
        assert min(penalty) > 0.0 and max(penalty) < 0.5 * max(rough.loss_curve_)
        np.testing.assert_allclose(rough.loss_curve_[:10], exact.loss_curve_[:10], rtol=1e-2)
        assert rough.score(X, y) == pytest.approx(exact.score(X, y), abs=0.02)
        # No sample counts as unconverged because its gap is as large as it may be.
        assert fit(0.5, temperature).loss_curve_ != exact.loss_curve_


def test_warm_start_continues():
    X, y = make_chains()
    model = StructuredSparseMAPClassifier("chain", alpha=0.01, warm_start=True).fit(X, y)
    first = model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ < first / 3
    with pytest.raises(ValueError, match="warm_start=True needs the features and labels"):
        model.fit([x[:, :2] for x in X], y)


def test_non_convergence_is_a_warning():
    X, y = make_chains()
    for solver, message in [("lbfgs", "did not converge"), ("adagrad", "still improving after max_iter=2")]:
        model = StructuredSparseMAPClassifier("chain", solver=solver, max_iter=2, random_state=0)
        with pytest.warns(ConvergenceWarning, match=message):
            model.fit(X, y)
        # The bundle method counts only evaluations that lower the loss.
        assert 1 <= model.n_iter_ <= 2
        assert model.score(X, y) > 0.5


def test_progress_is_reported(capsys, caplog):
    X, y = make_chains()
    model = StructuredSparseMAPClassifier("chain", verbose=2)
    with caplog.at_level(logging.INFO, logger="sklearn_sparsemap"):
        model.fit(X, y)
    said = capsys.readouterr().out + caplog.text
    assert f"iteration {model.n_iter_}: loss {model.loss_curve_[-1]:.6g}" in said
    model.set_params(solver="adagrad", max_iter=2, verbose=1)
    with pytest.warns(ConvergenceWarning, match="still improving"):
        model.fit(X, y)
    assert re.findall(r"(\w+ \d+): loss", capsys.readouterr().out) == ["epoch 1", "epoch 2"]
    GroupLassoPerceptron("chain", budget=1, max_iter=2, debias_max_iter=3, verbose=1).fit(X, y)
    said = re.findall(r"\] (.*): loss", capsys.readouterr().out)
    assert said == ["training, epoch 1", "training, epoch 2", *(f"debiasing, epoch {k}" for k in (1, 2, 3))]
    StructuredSparseMAPClassifier("chain").fit(X, y)
    assert capsys.readouterr().out == ""


def test_an_interrupted_fit_keeps_its_model():
    X, y = make_chains(400)
    model = StructuredSparseMAPClassifier(
        "chain", solver="adagrad", max_iter=10**6, n_iter_no_change=10**6, tol=0.0, alpha=0.0, random_state=0
    )
    # Everything is compiled before the timer starts.
    StructuredSparseMAPClassifier("chain", solver="adagrad", tol=0.1).fit(X[:5], y[:5])
    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert time.perf_counter() - began < 30
    assert model.score(X, y) > 0.7
    assert model.n_iter_ >= 1


def test_callbacks():
    callback = pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")

    class Recorder:
        def __init__(self):
            self.scores, self.begun, self.ended = [], 0, 0

        def setup(self, estimator, context):
            self.begun += 1

        def teardown(self, estimator, context):
            self.ended += 1

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
            if context.parent is None:
                return False
            self.scores.append(fitted_estimator.score(X, y))
            return len(self.scores) == 4

    X, y = make_chains()
    for solver in ("lbfgs", "adagrad"):
        recorder = Recorder()
        assert isinstance(recorder, callback.FitCallback)
        model = StructuredSparseMAPClassifier("chain", solver=solver, random_state=0).set_callbacks(recorder)
        model.fit(X, y)
        assert len(recorder.scores) == model.n_iter_ == 4
        assert recorder.scores[-1] == model.score(X, y)
        assert (recorder.begun, recorder.ended) == (1, 1)


def test_learned_scores_may_be_edited():
    X, y = make_chains()
    model = StructuredSparseMAPClassifier("chain").fit(X, y)
    model.transitions_[0, :] = -np.inf
    model.transitions_[0, 0] = 0.0
    after_x = [path[path.tolist().index("x") :] for path in model.predict(X) if "x" in path]
    assert sum(map(len, after_x)) > 2 * len(after_x) > 20
    for rest in after_x:
        assert (rest == "x").all(), "x was made absorbing"


@pytest.mark.parametrize("average", [False, True])
def test_what_is_learned_may_be_assigned(average):
    X, y = make_chains()
    model = StructuredSparseMAPClassifier("chain", average=average).fit(X, y)
    streamed = StructuredSparseMAPClassifier("chain", average=average)
    streamed.partial_fit(X, y, classes=["x", "y", "z"])
    rng = np.random.default_rng(0)
    for other in (model, streamed):
        learned = clone(other).fit(X, y)
        for name in ("coef_", "intercept_", "transitions_", "start_", "end_"):
            values = rng.normal(size=getattr(learned, name).shape)
            setattr(learned, name, values)
            np.testing.assert_array_equal(getattr(learned, name), values)
            assert not np.shares_memory(getattr(learned, name), values)
        other.coef_, other.intercept_ = learned.coef_, learned.intercept_.tolist()
        other.transitions_, other.start_, other.end_ = learned.transitions_, learned.start_, learned.end_
        for x, path in zip(X, other.predict(X), strict=True):
            scores = x @ learned.coef_.T + learned.intercept_
            additional = {name: getattr(learned, f"{name}_") for name in ("transitions", "start", "end")}
            best = map_inference(LinearChain(), scores, **additional).structure
            assert path.tolist() == other.classes_[best].tolist()
        # Training goes on from there.
        other.set_params(solver="adagrad", eta0=1e-300).partial_fit(X, y)
        np.testing.assert_allclose(other.transitions_, learned.transitions_, atol=1e-12)
        np.testing.assert_allclose(other.coef_, learned.coef_, atol=1e-12)
    learned.start_ = [0.0, -np.inf, -np.inf]
    assert {path[0] for path in learned.predict(X)} == {"x"}
    for name, value, message in [
        ("coef_", np.zeros((4, 3)), r"coef_ must have shape \(3, 4\); got \(4, 3\)"),
        ("coef_", np.full((3, 4), -np.inf), "coef_ contains NaN or infinity"),
        ("intercept_", 1.0, r"intercept_ must have shape \(3,\); got \(\)"),
        ("intercept_", ["a"] * 3, "intercept_ must be an array of numbers"),
        ("transitions_", np.full((3, 3), np.nan), "transitions_ contains NaN or infinity"),
        ("start_", [1j] * 3, "Complex data not supported: start_"),
    ]:
        before = getattr(learned, name).copy()
        with pytest.raises(ValueError, match=message):
            setattr(learned, name, value)
        np.testing.assert_array_equal(getattr(learned, name), before)
    flat = StructuredSparseMAPClassifier().fit(np.vstack(X), np.concatenate(y))
    flat.intercept_ = [0.0, 0.0, 1e3]
    assert set(flat.predict(np.vstack(X))) == {"z"}
    with pytest.raises(AttributeError, match="transitions_ is not learned"):
        flat.transitions_ = np.eye(3)
    with pytest.raises(AttributeError, match="not fitted"):
        StructuredSparseMAPClassifier().coef_ = np.eye(3)


def test_stacks_and_series_of_samples():
    rng = np.random.default_rng(0)
    stack, labels = rng.normal(size=(12, 5, 4)), rng.integers(3, size=(12, 5))
    model = StructuredSparseMAPClassifier("chain", "crf", alpha=0.1)
    wanted = model.fit(list(stack), list(labels)).coef_
    index = rng.permutation(12) + 7
    forms = [
        (stack, labels),
        (stack, labels.tolist()),
        (pd.Series(list(stack), index=index), pd.Series(labels.tolist(), index=index)),
        (pd.Series([sparse.csr_array(x) for x in stack]), list(labels)),
    ]
    for X, y in forms:
        found = clone(model).fit(X, y)
        # Sparse sums round in another way, and L-BFGS stops elsewhere.
        np.testing.assert_allclose(found.coef_, wanted, atol=5e-3)
        assert abs(found.score(X, y) - model.score(list(stack), list(labels))) < 0.05
        assert len(found.predict(X)) == len(found.predict_marginals(X)) == 12
    assert cross_val_score(model, *forms[2], cv=3).shape == (3,)
    # If a sample has two axes of rows, they may be one.
    heads = pd.Series([[0, 1], [2, 0]] * 3, index=index[:6])
    grids = rng.normal(size=(6, 3, 2, 4))
    tree = StructuredSparseMAPClassifier("tree").fit(pd.Series(list(grids), index=index[:6]), heads)
    flat = clone(tree).fit(grids.reshape(6, 6, 4), heads)
    np.testing.assert_allclose(tree.coef_, flat.coef_, atol=1e-6)
    assert tree.score(grids, heads) == flat.score(grids.reshape(6, 6, 4), heads)
    with pytest.raises(ValueError, match="X is one 2-D array, but this structure takes a list"):
        model.fit(stack[0], [["x"], ["x", "y"]])


@pytest.mark.parametrize("kind", ["list", "csr", "ragged", "objects"])
def test_sentences_without_words(kind):
    X, y = make_chains(20, kind="csr" if kind == "csr" else "dense")
    none = X[0][:0]
    X_more, y_more = [*X[:3], none, *X[3:], none], [*y[:3], [], *y[3:], []]
    if kind == "list":
        X_more[3] = []
    elif kind == "ragged":
        X_more = RaggedArray.from_list(X_more)
    elif kind == "objects":
        X_more = as_objects(X_more)
    weights = np.arange(1.0, 21.0)
    more = np.insert(weights, [3, 20], 7.0)
    expected = StructuredSparseMAPClassifier("chain").fit(X, y, sample_weight=weights)
    message = r"samples without steps are left out: 2 of 22, the first of them X\[3\]"
    with pytest.warns(UserWarning, match=message):
        model = StructuredSparseMAPClassifier("chain").fit(X_more, y_more, sample_weight=more)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    with pytest.warns(UserWarning, match=message):
        stream = StructuredSparseMAPClassifier("chain").partial_fit(X_more, y_more, classes=["x", "y", "z"])
    with pytest.warns(UserWarning, match=message):
        GroupLassoPerceptron("chain", budget=1).fit(X_more, y_more)
    assert stream.n_features_in_ == 4
    for name in ("predict", "predict_marginals", "predict_proba", "decision_function"):
        found, own = getattr(model, name)(X_more), getattr(model, name)(X)
        shape = (0,) if name == "predict" else (0, 3)
        assert found[3].shape == found[21].shape == shape and len(found) == 22
        for i, result in enumerate(own):
            np.testing.assert_array_equal(result, found[i + (i > 2)])
    known = [None, *[[None] * len(s) for s in y_more[1:]]]
    assert [s.tolist() for s in model.predict(X_more, known)] == [s.tolist() for s in model.predict(X_more)]
    assert model.score(X_more, y_more, more) == model.score(X, y, weights)
    for name, empty_weight in (("predict_structures", 1.0), ("predict_n_best", 0.0)):
        k = [2] * (name == "predict_n_best")
        found, own = getattr(model, name)(X_more, *k), getattr(model, name)(X, *k)
        ((labels, weight),) = found.pop(21)
        assert labels.shape == (0,) and weight == empty_weight and len(found.pop(3)) == 1
        assert [[(s.tolist(), w) for s, w in best] for best in found] == [
            [(s.tolist(), w) for s, w in best] for best in own
        ]


def test_nothing_but_sentences_without_words():
    X, y = make_chains(20)
    model = StructuredSparseMAPClassifier("chain", loss="crf").fit(X, y)
    none, known = [X[0][:0]] * 2, [None, []]
    for found in (model.predict(none), model.predict(none, known), model.predict([[], []])):
        assert [labels.shape for labels in found] == [(0,), (0,)] and found[0].dtype == model.classes_.dtype
    assert [m.shape for m in model.predict_marginals(none)] == [(0, 3), (0, 3)]
    assert [s.shape for s in model.decision_function(none)] == [(0, 3), (0, 3)]
    assert [[len(s) for s in drawn] for drawn in model.sample(none, 2, 0)] == [[0, 0], [0, 0]]
    assert [[w for _, w in best] for best in model.predict_structures(none)] == [[1.0], [1.0]]
    assert [[w for _, w in best] for best in model.predict_n_best(none, 3)] == [[0.0], [0.0]]
    np.testing.assert_array_equal(model.log_likelihood(none, [[], []]), [0.0, 0.0])
    with pytest.raises(ValueError, match="all labels of y are None"):
        model.score(none, [[], []])
    with pytest.raises(ValueError, match="there is nothing to explain"):
        explain(model, none[0])


def test_vectorized_sentences_without_words():
    X, y = [["a", "b"], [], ["b"]], [["x", "y"], [], ["y"]]
    for vectorizer in (
        TemplateVectorizer(["word[0]"]),
        TemplateVectorizer(["word[0]"], n_features=8),
        TokenDictVectorizer(),
    ):
        sentences = [[{"word": w} for w in s] for s in X] if isinstance(vectorizer, TokenDictVectorizer) else X
        model = make_structured_pipeline(vectorizer, StructuredSparseMAPClassifier("chain"))
        with pytest.warns(UserWarning, match="samples without steps are left out: 1 of 3"):
            model.fit(sentences, y)
        assert [labels.tolist() for labels in model.predict(sentences)] == y


def test_a_stream_warns_of_inexact_inference(monkeypatch):
    X, y = make_chains(20)
    replace(monkeypatch, "losses", "_MAX_ITER", 2)
    stream = StructuredSparseMAPClassifier("chain", temperature=10.0)
    with pytest.warns(ConvergenceWarning, match=r"inference did not converge for \d+ training samples"):
        stream.partial_fit(X, y, classes=["x", "y", "z"])


def test_padding_is_told_from_labels():
    X, model = np.random.default_rng(0).normal(size=(3, 3, 2)), StructuredSparseMAPClassifier("chain")
    for y in ([[0, 1, -1], [0, -1, 1], [1, 1, 0]], [[1, 1, -1], [1, 1, 1], [1, -1, -1]], [[0, 1, 2]] * 3):
        model.fit(X, np.array(y))
    with pytest.raises(ValueError, match=r"here X\[1\]\[:1\] and y\[1\]\[:1\], or rename this label"):
        model.fit(X, np.array([[0, 1, 2], [1, -1, -1], [0, 0, -1]]))


def test_out_of_fold_marginals():
    X, y = make_chains(30)
    model = StructuredSparseMAPClassifier("chain", "crf")
    for targets in (y, as_lists(y), as_objects(y)):
        found = cross_val_marginals(model, X, targets, cv=KFold(3))
        for train, test in KFold(3).split(X):
            own = clone(model).fit([X[i] for i in train], [y[i] for i in train])
            for i, marginals in zip(test, own.predict_marginals([X[i] for i in test]), strict=True):
                np.testing.assert_array_equal(found[i], marginals)
    flat = cross_val_marginals(StructuredSparseMAPClassifier(), np.vstack(X), np.concatenate(y), cv=3)
    assert flat.shape == (sum(map(len, X)), 3)
    with pytest.raises(ValueError, match="Ridge has no predict_marginals; in a pipeline use StructuredPipeline"):
        cross_val_marginals(Ridge(), X, y)


def test_wrong_data_is_refused():
    X, y = make_chains(5)
    model = StructuredSparseMAPClassifier("chain")
    odd = [*X[:3], X[3][:, :2], X[4]]
    nan = [x.copy() for x in X]
    nan[2][0, 1] = np.nan
    cases = [
        ((X, y[:4]), "inconsistent numbers of samples: 5 and 4"),
        (([*X[:4], np.zeros((0, 4))], y), r"X\[4\] has no steps; leave out empty samples"),
        (([np.zeros((0, 4))] * 2, [[], []]), r"X\[0\] has no steps; leave out empty samples"),
        ((nan, y), r"X\[2\] contains NaN or infinity, at row 0"),
        ((odd, y), r"X\[3\] has 2 features, but other samples have 4"),
        ((np.zeros((5, 1, 2, 4)), [["x", "y"]] * 5), "one 4-D array"),
        ((np.zeros((2, 4)), ["x", "y"]), "for a single sample pass"),
        (([["the", "dog"], ["a", "cat"]], [["x", "y"]] * 2), "TemplateVectorizer"),
        (([[None, None]], [["x", "x"]]), r"X\[0\] holds NoneType values, not numbers: pass a list with one 2-D array"),
        (([[[1.0], [1.0, 2.0]]], [["x", "x"]]), r"X\[0\] is not an array of numbers .*inhomogeneous"),
        (([[{"word": "the"}]], [["x"]]), r"X\[0\] holds dict values, not numbers; .*features.TokenDictVectorizer"),
        ((pd.DataFrame(np.eye(3)), ["x"] * 3), r"one 2-D array, \(3, 3\): cut a table .*sentences_from_frame, with"),
        (
            (pd.DataFrame(np.eye(3)).groupby([1, 1, 2]), ["x"] * 2),
            "got DataFrameGroupBy: cut a table .*sentences_from",
        ),
        ((np.zeros((2, 3, 4)), np.array([[0, 1, 2], [1, 0, -1]])), r"y\[1\] ends with 1 labels of -1, which look like"),
        ((["the dog"], [["x"]]), "TemplateVectorizer"),
        ((X, [*y[:4], [*y[4], "x"]]), r"X\[4\] has \d steps, but y\[4\] has \d labels"),
        ((X, [*y[:4], "x"]), r"y\[4\] is 'x'; it must be a sequence"),
        ((X, np.array(["x"] * 5)), r"y\[0\] is .*; it must be a sequence"),
        (([sparse.csr_array(X[0]), *X[1:]], y), r"X\[1\] is dense, but X\[0\] is not"),
        (([], []), "0 samples"),
        ((X, None), "requires y"),
    ]
    for (bad_X, bad_y), message in cases:
        with pytest.raises(ValueError, match=message):
            model.fit(bad_X, bad_y)
    with pytest.raises(ValueError, match="one row of features for each sample"):
        StructuredSparseMAPClassifier().fit(np.zeros((4, 2, 2)), [0, 1, 0, 1])
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"X\[0\] has 2 features, but the model was fitted with 4"):
        model.predict([x[:, :2] for x in X])
    with pytest.raises(ValueError, match=r"X\[3\] has 2 features, but the model was fitted with 4"):
        model.predict(odd)
    with pytest.raises(ValueError, match=r"y\[1\] has the label 'w', which is not in classes"):
        StructuredSparseMAPClassifier("chain").partial_fit(X[:2], [y[0], ["w"] * len(y[1])], classes=["x", "y", "z"])
    with pytest.raises(ValueError, match="classes must be given at the first call"):
        StructuredSparseMAPClassifier("chain").partial_fit(X, y)
    with pytest.raises(ValueError, match="differ from those of the first call"):
        model.partial_fit(X, y, classes=["x", "y"])
    wrong_weights = [([1.0] * 4, "4 entries for 5"), ([1, 1, -1, 1, 1], r"sample_weight\[2\]"), ([0] * 5, "zero")]
    for weights, message in wrong_weights:
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, sample_weight=weights)


def test_wrong_parameters_are_refused():
    X, y = make_chains(5)
    for parameters, message in [
        ({"structure": "lattice"}, "structure='lattice' is not one of 'auto', 'chain'"),
        ({"structure": LinearChain}, "is not one of"),
        ({"loss": "ramp"}, "'loss' parameter .* must be a str among .* Got 'ramp'"),
        ({"solver": "sgd"}, "'solver' parameter .* must be a str among .* Got 'sgd'"),
        (
            {"alpha": -1.0},
            r"'alpha' parameter .* must be a float in the range \[0.0, inf\), a str .* or None. Got -1.0",
        ),
        ({"temperature": 0}, r"'temperature' parameter .* must be a float in the range \(0.0, inf\). Got 0"),
        ({"eta0": np.nan}, r"'eta0' parameter .* must be a float in the range .* Got nan"),
        ({"solver": ("adagrad", 0.1)}, r"'solver' parameter .* Got \('adagrad', 0.1\)"),
        ({"max_iter": 0}, r"'max_iter' parameter .* must be an int in the range \[1, inf\) or None. Got 0"),
        ({"early_stopping": True, "validation_fraction": 1.5}, "validation_fraction"),
        ({"class_weight": "even"}, "'class_weight' parameter .* Got 'even'"),
    ]:
        with pytest.raises(ValueError, match=message):
            StructuredSparseMAPClassifier(**{"structure": "chain", **parameters}).fit(X, y)


def test_features_whose_squares_overflow_are_refused():
    X, y = make_chains(5)
    with pytest.raises(ValueError, match="rescale the features"):
        StructuredSparseMAPClassifier("chain", solver="adagrad").fit([x * 1e200 for x in X], y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_parameter_of_one_optimiser_affects_another():
    X, y = make_chains(12, 3)
    steps = {"eta0": 0.5}, {"average": False}, {"batch_size": 3}
    online = (*steps, {"shuffle": False}, {"random_state": 1})
    cases = {
        ("lbfgs", "sparsemap"): online,
        ("mira", "hinge"): ({"batch_size": 3}, {"alpha": 0.1}),
    }
    for (solver, loss), changes in cases.items():
        model = StructuredSparseMAPClassifier("chain", loss, solver=solver, max_iter=4, random_state=0).fit(X, y)
        for change in changes:
            other = clone(model).set_params(**change).fit(X, y)
            assert other.loss_curve_ == model.loss_curve_, (solver, change)
            np.testing.assert_array_equal(other.coef_, model.coef_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["lbfgs", "adagrad"])
def test_a_monitor_of_ones_own_ends_training(solver):
    class Twice(Monitor):
        def on_iteration(self, loss):
            return super().on_iteration(loss) or len(self.losses) == 2

    class Short(StructuredSparseMAPClassifier):
        monitor_class = Twice

    X, y = make_chains(12, 3)
    model = Short("chain", solver=solver, random_state=0).fit(X, y)
    assert model.n_iter_ == len(model.loss_curve_) == 2
    assert clone(model).fit_partitions([(X, y)]).n_iter_ == 2
