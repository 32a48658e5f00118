"""StructuredSparseMAPClassifier over every kind of structure, with every loss."""

import pickle
import warnings

import naive
import numpy as np
import pytest
from internals import StructureTask, replace
from registry import best_segment, encode_segment
from samples import KINDS, N_FEATURES, make_data
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    RaggedArray,
    StructuredSparseMAPClassifier,
    map_inference,
    sparsemap,
)
from sklearn_sparsemap.factors import Budget, FactorGraph
from sklearn_sparsemap.losses import LOSSES
from sklearn_sparsemap.metrics import labeled_attachment_score, parts_f1_score, parts_f1_scorer
from sklearn_sparsemap.structures import (
    CustomStructure,
    DependencyTree,
    LinearChain,
    Matching,
    Ranking,
    Segmentation,
    Subset,
)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_loss_learns_every_structure(loss, kind):
    structure = KINDS[kind]
    X, y = make_data(structure)
    X_test, y_test = make_data(structure, seed=1)
    if kind in ("matching", "ranking") and LOSSES[loss].argmax == "gibbs":
        with pytest.raises(ValueError, match=r"#P-complete|no way is known to sum"):
            StructuredSparseMAPClassifier(structure, loss).fit(X, y)
        return
    model = StructuredSparseMAPClassifier(structure, loss, alpha=1e-3, tol=1e-2, random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.85
    assert model.coef_.shape == (1, N_FEATURES) and not hasattr(model, "classes_")
    again = pickle.loads(pickle.dumps(model))
    assert all(np.array_equal(a, b) for a, b in zip(again.predict(X), model.predict(X), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_have_the_shapes_of_the_scores(kind):
    structure = KINDS[kind]
    X, y = make_data(structure)
    model = StructuredSparseMAPClassifier(structure, alpha=1e-2, solver="adagrad", tol=1e-2, random_state=0).fit(X, y)
    scores, marginals, found = model.decision_function(X), model.predict_marginals(X), model.predict_structures(X)
    for x, s, u, few, p in zip(X, scores, marginals, found, model.predict(X), strict=True):
        assert s.shape == u.shape == x.shape[:-1]
        linear = x @ model.coef_[0] + model.intercept_[0]
        np.testing.assert_allclose(s, linear - (0.0 if structure.fixed_size else 0.5))
        np.testing.assert_allclose(u, sparsemap(structure, linear).marginals, atol=1e-9)
        assert sum(q for _, q in few) == pytest.approx(1.0)
        assert np.array_equal(p, map_inference(structure, s)[0])


@pytest.mark.parametrize("solver", ["lbfgs", "adagrad", "mira"])
def test_solvers_of_a_tree(solver):
    X, y = make_data(DependencyTree(), 60)
    loss = "hinge" if solver == "mira" else "crf"
    model = StructuredSparseMAPClassifier("tree", loss, solver=solver, alpha=1e-3, random_state=0)
    model.fit(X, y)
    X_test, y_test = make_data(DependencyTree(), 60, seed=1)
    assert model.score(X_test, y_test) > 0.85
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    right = [np.mean(p == t) * len(t) for p, t in zip(model.predict(X_test), y_test)]
    assert model.score(X_test, y_test) == pytest.approx(sum(right) / sum(map(len, y_test)))


def draw_items(n_samples, seed):
    """Samples of 12 independent items, of which about one in six is chosen."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 12, 3))
    y = X @ [1.5, -1.0, 1.0] + 0.75 * rng.logistic(size=X.shape[:2]) > 2.25
    # All of them are never chosen, as the graph below wants it.
    return list(X), list(y & (y.sum(axis=1, keepdims=True) < 12))


def chosen(scores):
    return np.flatnonzero(scores > 0)


def as_items(parts):
    return np.isin(np.arange(12), parts)


def not_all(x):
    return AT_MOST_11


AT_MOST_11 = FactorGraph()
AT_MOST_11.add(Budget(AT_MOST_11.variables(12), 11))
ITEMS = {
    "subset": Subset(),
    "custom": CustomStructure(chosen, encode=np.flatnonzero, decode=as_items),
    "graph": not_all,
}


@pytest.mark.parametrize(
    ("kind", "loss"),
    [(kind, loss) for kind in ITEMS for loss in LOSSES if LOSSES[loss].argmax != "gibbs" or kind == "subset"],
)
def test_independent_items_are_chosen_as_often_as_by_logistic_regression(kind, loss):
    (X, y), (X_test, y_test) = draw_items(150, 0), draw_items(150, 1)
    peer = LogisticRegression(C=1e4).fit(np.concatenate(X), np.concatenate(y))
    by_peer, gold = peer.predict(np.concatenate(X_test)), np.concatenate(y_test)
    for temperature in (1.0, 0.25) if LOSSES[loss].argmax == "sparsemap" else (1.0,):
        model = StructuredSparseMAPClassifier(
            ITEMS[kind], loss, temperature=temperature, alpha=1e-4, tol=1e-3, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        found = np.concatenate(model.predict(X_test))
        # The perceptron is content wherever it is right, and no probability is behind it.
        slack = 3.0 if loss == "perceptron" else 1.0
        assert found.mean() == pytest.approx(by_peer.mean(), abs=0.03 * slack)
        assert f1_score(gold, found) == pytest.approx(f1_score(gold, by_peer), abs=0.02 * slack)
        # All that is said of these samples agrees.
        assert np.array_equal(np.concatenate(model.predict_marginals(X_test)) > 0.5, found)
        assert np.array_equal(np.concatenate(model.decision_function(X_test)) > 0.0, found)
        assert model.score(X_test, y_test) == pytest.approx(f1_score(gold, found))
        assert parts_f1_scorer(model, X_test, y_test) == pytest.approx(f1_score(gold, found))
        if kind != "graph":
            marginals = [sum(p * s for s, p in few) for few in model.predict_structures(X_test[:9])]
            assert np.array_equal(np.concatenate(marginals) > 0.5, found[: 9 * 12])


@pytest.mark.parametrize("debias", ["mira", "sparsemap", None])
@pytest.mark.parametrize("loss", ["sparsemap", "crf"])
def test_group_lasso_perceptrons_decide_by_the_loss_that_was_last(loss, debias):
    (X, y), (X_test, y_test) = draw_items(150, 0), draw_items(300, 1)
    model = GroupLassoPerceptron(Subset(), loss, budget=3, shrink_every=50, debias=debias, random_state=0).fit(X, y)
    last = {"mira": "hinge", None: loss}.get(debias, debias)
    tilt = -0.5 if last == "sparsemap" else 0.0
    gold, found = np.concatenate(y_test), np.concatenate(model.predict(X_test))
    linear = np.concatenate(X_test) @ model.coef_.toarray()[0] + model.intercept_[0]
    assert np.array_equal(linear + tilt > 0, found)
    assert abs(found.mean() - gold.mean()) < 0.06
    assert model.score(X_test, y_test) == pytest.approx(f1_score(gold, found))
    assert np.array_equal(np.concatenate(model.predict_marginals(X_test)) > 0.5, found)
    # In a stream, it is the loss of the stream again.
    model.partial_fit(X, y)
    linear = np.concatenate(X_test) @ model.coef_.toarray()[0] + model.intercept_[0]
    assert np.array_equal(linear - (0.5 if loss == "sparsemap" else 0.0) > 0, np.concatenate(model.predict(X_test)))


def test_the_score_of_items_is_their_f1_also_in_early_stopping():
    X, y = draw_items(60, 0)
    for structure in ITEMS.values():
        early = StructuredSparseMAPClassifier(structure, "hinge", early_stopping=True, max_iter=3, random_state=0)
        with pytest.warns(ConvergenceWarning):
            early.fit(X, y)
        # An empty choice is correct for five items in six.
        assert early.validation_scores_[0] < 0.75
        weights = np.arange(60.0)
        score = early.score(X, y, sample_weight=weights)
        assert score == pytest.approx(parts_f1_score(y, early.predict(X), sample_weight=weights))
        assert early.score(X, early.predict(X)) == 1.0
    nothing = [np.zeros(12, bool)] * 60
    with pytest.warns(ConvergenceWarning):
        assert clone(early).set_params(early_stopping=False).fit(X, nothing).score(X, nothing) == 1.0


def test_of_structures_of_one_size_the_number_of_parts_decides_nothing(monkeypatch):
    # Two solvers that end at a gap do not give the same weights.
    replace(monkeypatch, "estimators", "_ROUGH", 0.0)
    X, y = make_data(Subset(2, 2))
    for loss in ("margin_sparsemap", "hinge"):
        model = StructuredSparseMAPClassifier(Subset(2, 2), loss, solver="adagrad", tol=0.1, random_state=0)
        model.fit(X, y)
        pairs = CustomStructure(lambda s: np.argsort(-s)[:2], encode=np.flatnonzero, fixed_size=True)
        custom = clone(model).set_params(structure=pairs).fit(X, y)
        np.testing.assert_allclose(custom.coef_, model.coef_)
        for x, s, parts in zip(X, custom.decision_function(X), custom.predict(X), strict=True):
            np.testing.assert_allclose(s, x @ custom.coef_[0] + custom.intercept_[0])
            assert len(parts) == 2
        assert model.score(X, y) == pytest.approx(np.mean([a[p].mean() for a, p in zip(y, custom.predict(X))]))
    with pytest.raises(ValueError, match="fixed_size must be True or False"):
        CustomStructure(chosen, fixed_size=2)


def test_rows_of_parts_come_in_many_forms():
    X, y = make_data(DependencyTree(), 30)
    model = StructuredSparseMAPClassifier("tree", alpha=1e-2, solver="adagrad", random_state=0)
    expected = clone(model).fit(X, y).coef_
    flat = [x.reshape(-1, N_FEATURES) for x in X]
    shapes = [x.shape[:2] for x in X]
    joined, indptr = np.vstack(flat), np.concatenate([[0], np.cumsum([len(x) for x in flat])])
    for form in (
        flat,
        [sparse.csr_array(x) for x in flat],
        RaggedArray(joined, indptr),
        RaggedArray(sparse.csr_array(joined), indptr, shapes=shapes),
    ):
        fitted = clone(model).fit(form, y)
        np.testing.assert_allclose(fitted.coef_, expected, atol=1e-12)
        assert all(np.array_equal(a, b) for a, b in zip(fitted.predict(form), fitted.predict(X), strict=True))
    ragged = RaggedArray(joined, indptr, shapes=shapes)
    assert ragged[[2, 0]].shapes.tolist() == [list(shapes[2]), list(shapes[0])]
    square = np.random.default_rng(0).normal(size=(6, 3, 3, N_FEATURES))
    y = [np.array([0, 1, 2])] * 6
    one_array = StructuredSparseMAPClassifier("matching", alpha=1e-2).fit(square, y)
    as_lists = StructuredSparseMAPClassifier("matching", alpha=1e-2).fit([x.reshape(9, -1) for x in square], y)
    np.testing.assert_allclose(one_array.coef_, as_lists.coef_, atol=1e-12)


def test_trees_in_scikit_learns_tools():
    X, y = make_data(DependencyTree(), 30)
    model = StructuredSparseMAPClassifier("tree", solver="adagrad", alpha=1e-2, tol=1e-2, random_state=0)
    assert cross_val_score(model, X, y, cv=3).mean() > 0.7
    search = GridSearchCV(model, {"alpha": [1e-2, 1e6], "loss": ["sparsemap", "crf"]}, cv=2).fit(X, y)
    assert search.best_params_["alpha"] == 1e-2
    early = clone(model).set_params(early_stopping=True).fit(X, y, sample_weight=np.ones(30))
    assert len(early.validation_scores_) == early.n_iter_
    two = clone(model).set_params(n_jobs=2, loss="crf").fit(X, y)
    one = clone(model).set_params(n_jobs=1, loss="crf").fit(X, y)
    assert np.array_equal(one.coef_, two.coef_)
    assert all(np.array_equal(a, b) for a, b in zip(one.predict_marginals(X), two.predict_marginals(X), strict=True))


def test_partial_fit_needs_no_classes_without_labels():
    X, y = make_data(Matching(), 40)
    model = StructuredSparseMAPClassifier("matching", loss="hinge", solver="mira")
    for start in range(0, 40, 10):
        model.partial_fit(X[start : start + 10], y[start : start + 10])
    assert model.n_iter_ == 4 and model.score(X, y) > 0.8
    with pytest.raises(ValueError, match="not made of labels; leave classes at None"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="solver cannot change to or from 'mira'"):
        model.set_params(solver="adagrad").partial_fit(X, y)
    warm = StructuredSparseMAPClassifier("matching", warm_start=True, alpha=1e-2, tol=0.1)
    warm.fit(X, y).fit(X, y)


@pytest.mark.parametrize("solver", ["lbfgs", "adagrad"])
def test_a_custom_structure_is_learned_with_its_additional_scores(solver):
    # Segments: which length is good is in no feature.
    rng = np.random.default_rng(0)
    n = 6
    structure = CustomStructure(best_segment, additional={"lengths": (n,)}, encode=encode_segment, decode=tuple)
    X = [rng.normal(size=(n, 1)) for _ in range(40)]
    y = []
    for x in X:
        starts = [x[i : i + 3].sum() for i in range(n - 2)]
        first = int(np.argmax(starts))
        y.append((first, first + 1, first + 2))
    model = StructuredSparseMAPClassifier(structure, solver=solver, alpha=1e-2, tol=1e-2, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert np.argmax(model.additional_scores_["lengths"]) == 2
    assert model.predict(X[:1])[0] == y[0]
    assert pickle.loads(pickle.dumps(model)).predict(X[:1])[0] == y[0]


@pytest.mark.parametrize("loss", ["sparsemap", "crf"])
def test_segments_are_learned_with_their_durations(loss):
    # A chain cannot tell that runs of "b" have three steps.
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(60):
        labels = np.concatenate([["a"] * int(rng.choice([1, 4])) + ["b"] * 3 for _ in range(3)])
        y.append(labels)
        X.append(np.c_[labels == "a", labels == "b"] + 1.2 * rng.normal(size=(len(labels), 2)))
    structure = Segmentation(5)
    models = [
        StructuredSparseMAPClassifier(own, loss, alpha=1e-2, tol=1e-2, random_state=0).fit(X[:40], y[:40])
        for own in (structure, "chain")
    ]
    scores = [model.score(X[40:], y[40:]) for model in models]
    assert scores[0] > 0.85 and scores[0] > scores[1] + 0.03
    durations = models[0].additional_scores_["durations"]
    assert durations.shape == (5, 2) and np.argmax(durations[:, 1]) == 2 and models[0].coef_.shape == (2, 2)
    runs = Segmentation(2)
    with pytest.raises(ValueError, match=r"y\[0\]: the span of label 1 .* raise max_length"):
        StructuredSparseMAPClassifier(runs).fit([np.eye(4)], [["a", "b", "b", "b"]])


def test_spans_are_learned_from_their_features():
    rng = np.random.default_rng(0)
    structure, w = Segmentation(3, "spans"), np.array([2.0, -1.0, 0.5])
    X = [rng.normal(size=(int(n), 3, 2, 3)) for n in rng.integers(2, 7, size=60)]
    y = [map_inference(structure, x @ w)[0] for x in X]
    model = StructuredSparseMAPClassifier(structure, alpha=1e-3, tol=1e-3).fit(X[:40], y[:40])
    assert model.score(X[40:], y[40:]) > 0.9
    assert model.predict(X[:1])[0].shape[1] == 3 and not model.additional_scores_


@pytest.mark.parametrize("loss", ["margin_sparsemap", "crf"])
def test_labels_of_arcs_are_outputs_of_the_model(loss):
    structure = DependencyTree(single_root=True, n_labels=2)
    (X, y), (X_test, y_test) = make_data(structure, 60), make_data(structure, seed=1)
    model = StructuredSparseMAPClassifier(structure, loss, alpha=1e-3, tol=1e-2, random_state=0).fit(X, y)
    assert model.coef_.shape == (2, N_FEATURES) and model.score(X_test, y_test) > 0.85
    assert model.score(X_test, y_test) == pytest.approx(labeled_attachment_score(y_test, model.predict(X_test)))
    assert model.decision_function(X[:1])[0].shape == (*X[0].shape[:-1], 2)
    with pytest.raises(ValueError, match="known is for structures made of labels, choices, trees without labels"):
        model.predict(X[:1], known=[[None] * X[0].shape[1]])
    flat = [x.reshape(-1, N_FEATURES) for x in X]
    again = clone(model).fit(flat, y)
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-12)
    several = [np.array([[0, 1], [0, 0]])]
    with pytest.raises(ValueError, match=r"y\[2\]: more than one word .*repair"):
        clone(model).fit([*X[:2], np.ones((3, 2, N_FEATURES))], [*y[:2], *several])
    repaired = [structure.repair(tree) for tree in several]
    clone(model).fit([*X[:2], np.ones((3, 2, N_FEATURES))], [*y[:2], *repaired])


def test_crf_probabilities_are_those_of_the_gibbs_distribution():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X.argmax(axis=1)
    flat = StructuredSparseMAPClassifier(loss="crf", alpha=0.01).fit(X, y)
    scores = flat.decision_function(X)
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(flat.predict_proba(X), expected, atol=1e-12)
    chain = StructuredSparseMAPClassifier("chain", loss="crf", alpha=0.01).fit([X[:4], X[4:9]], [y[:4], y[4:9]])
    scores = chain.decision_function([X[:4]])[0]
    additional = {"transitions": chain.transitions_, "start": chain.start_, "end": chain.end_}
    _, M, theta = naive.enumerate_chain(scores, **additional)
    p = np.exp(theta - theta.max())
    np.testing.assert_allclose(chain.predict_marginals([X[:4]])[0].ravel(), M @ p / p.sum(), atol=1e-10)


def test_a_cost_matrix_moves_mistakes_to_where_they_are_cheap():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    plain = StructuredSparseMAPClassifier(loss="margin_sparsemap", alpha=0.01).fit(X, y)
    careful = clone(plain).set_params(cost=[[0.0, 1.0], [5.0, 0.0]]).fit(X, y)
    assert ((careful.predict(X) == 0) & (y == 1)).sum() < ((plain.predict(X) == 0) & (y == 1)).sum()
    with pytest.raises(ValueError, match=r"cost must have shape \(2, 2\)"):
        StructuredSparseMAPClassifier(loss="hinge", cost=np.zeros((3, 3))).fit(X, y)


def test_chains_learn_with_every_loss_and_solver():
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(80):
        states = np.cumsum(rng.random(6) < 0.3) % 2
        X.append(np.eye(2)[states] + 0.7 * rng.normal(size=(6, 2)))
        y.append(states)
    for loss, recipe in LOSSES.items():
        for solver in ("lbfgs", "adagrad", "mira"):
            model = StructuredSparseMAPClassifier("chain", loss, solver=solver, alpha=0.01, tol=1e-2, random_state=0)
            if (solver == "lbfgs" and recipe.argmax == "map") or (solver == "mira" and loss != "hinge"):
                with pytest.raises(ValueError, match=r"not smooth|is for loss='hinge'"):
                    model.fit(X, y)
            else:
                assert model.fit(X, y).score(X, y) > 0.8, (loss, solver)


def test_lbfgs_and_adagrad_agree_on_a_smooth_loss():
    X, y = make_data(DependencyTree(), 30)
    batch = StructuredSparseMAPClassifier("tree", "crf", alpha=0.05, solver="lbfgs", tol=1e-8).fit(X, y)
    online = StructuredSparseMAPClassifier("tree", "crf", alpha=0.05, solver="adagrad", eta0=0.5, tol=0.0, max_iter=300)
    with pytest.warns(ConvergenceWarning, match="still improving"):
        online.set_params(n_iter_no_change=300, random_state=0).fit(X, y)
    np.testing.assert_allclose(online.coef_, batch.coef_, atol=0.1)


def test_wrong_samples_are_named():
    X, y = make_data(DependencyTree(), 5)
    model = StructuredSparseMAPClassifier("tree", alpha=1e-2)
    with pytest.raises(ValueError, match=r"X\[1\]: a sample of a tree .* got 5 rows"):
        model.fit([np.zeros((6, 2)), np.zeros((5, 2))], [[0, 1], [0, 1]])
    with pytest.raises(ValueError, match=r"y\[0\]: these heads form a cycle at word 1"):
        model.fit([np.zeros((6, 2))], [[2, 1]])
    with pytest.raises(ValueError, match=r"y\[0\]: a tree is 2 ints"):
        model.fit([np.zeros((6, 2))], [[0, 3]])
    with pytest.raises(ValueError, match=r"y\[0\]: arcs cross"):
        model.set_params(structure=DependencyTree(projective=True)).fit([np.zeros((20, 2))], [[3, 0, 2, 2]])
    with pytest.raises(ValueError, match=r"X\[0\]: .* 6 rows are no square"):
        StructuredSparseMAPClassifier("matching").fit([np.zeros((6, 2))], [[0, 1]])
    with pytest.raises(ValueError, match=r"y\[1\]: a column can be matched once"):
        StructuredSparseMAPClassifier("matching").fit(np.zeros((2, 2, 2, 1)), [[0, 1], [1, 1]])
    with pytest.raises(ValueError, match=r"X\[1\] has 2 axes, but X\[0\] has 3"):
        StructuredSparseMAPClassifier("matching").fit([np.zeros((1, 1, 2)), np.zeros((1, 2))], [[0], [0]])
    with pytest.raises(ValueError, match="class_weight is for structures made of labels"):
        StructuredSparseMAPClassifier("tree", class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match="cost is for structures made of labels"):
        StructuredSparseMAPClassifier("tree", "hinge", np.zeros((1, 1))).fit(X, y)
    fitted = model.set_params(structure="tree").fit(X, y)
    with pytest.raises(ValueError, match=r"y\[0\]: there are"):
        fitted.score(X, [[0] * 9] * 5)
    assert isinstance(fitted._structure, DependencyTree) and fitted._structure != LinearChain()


def best_intervals(scores):
    """Return intervals that do not overlap, parts i * n + j for the one from i to j, of the highest total score."""
    n = round(np.sqrt(len(scores)))
    best = [(0.0, [])]
    for j in range(n):
        ways = [(best[i][0] + scores[i * n + j], [*best[i][1], i * n + j]) for i in range(j + 1)]
        best.append(max([best[j], *ways]))
    return best[n][1]


def test_targets_that_are_no_structures_are_refused():
    rng = np.random.default_rng(0)
    n = 4
    structure = CustomStructure(best_intervals)
    X = rng.normal(size=(20, n * n, 2))
    y = [best_intervals(x @ [1.0, -1.0]) for x in X]
    assert len({len(parts) for parts in y}) > 1
    model = StructuredSparseMAPClassifier(structure, alpha=1e-2)
    assert model.fit(list(X), y).score(list(X), y) > 0.8
    # From 0 to 2, and from 1 to 3.
    wrong = [*y[:13], [2, n + 3], *y[14:]]
    message = r"y\[13\] is no structure: with high scores for its parts \[2, 7\] and low scores for all others"
    for attempt in (
        lambda: clone(model).fit(list(X), wrong),
        lambda: clone(model).partial_fit(list(X), wrong),
        lambda: clone(model).set_params(early_stopping=True, random_state=0).fit(list(X), wrong),
        lambda: GroupLassoPerceptron(structure).fit(list(X), wrong),
    ):
        with pytest.raises(ValueError, match=message):
            attempt()
    # It may be too long to be quoted.
    with pytest.raises(ValueError, match=r"y\[0\] is no structure.* 10, 11, \.\.\.\] and low"):
        clone(model).fit(list(X), [range(n * n), *y[1:]])
    nothing_allowed = CustomStructure(lambda scores: None)
    with pytest.raises(ValueError, match=r"y\[0\] is no structure"):
        StructuredSparseMAPClassifier(nothing_allowed).fit(list(X), y)


def test_targets_are_compared_in_their_additional_parts_too():
    # A run of parts, with a score for its length, which a wrong encode mistakes.
    X, y = np.zeros((3, 5, 1)), [[0, 1], [2, 3, 4], [3]]
    for length, is_right in ((lambda parts: len(parts) - 1, True), (lambda parts: 4, False), (lambda parts: 0, False)):
        encode = lambda parts, length=length: (parts, [length(parts)])  # noqa: E731
        structure = CustomStructure(best_segment, additional={"lengths": (5,)}, encode=encode)
        found = [is_structure_of(structure, x, parts) for x, parts in zip(X, y, strict=True)]
        assert found == [is_right or len(parts) - 1 == length(parts) for parts in y]
        if not is_right:
            with pytest.raises(ValueError, match="Correct y, leave the sample out, or correct encode"):
                StructuredSparseMAPClassifier(structure).fit(list(X), y)


def is_structure_of(structure, x, parts):
    """Return whether an estimator takes the parts for a structure."""
    try:
        StructuredSparseMAPClassifier(structure).partial_fit([x], [parts])
    except ValueError as error:
        assert "Correct y, leave the sample out, or correct encode" in str(error)
        return False
    return True


def test_the_oracle_is_asked_once_about_each_target():
    calls = []

    def counting(scores):
        calls.append(scores.copy())
        return chosen(scores)

    X, y = draw_items(30, 0)
    structure = CustomStructure(counting, encode=np.flatnonzero)
    targets = StructureTask(structure, RaggedArray.from_list(X), 1).learn(y, np.ones(30), "sparsemap").targets
    assert len(calls) == 30 and len(targets.weights) == 30
    for scores, gold in zip(calls, y):
        assert np.array_equal(scores > 0, gold)
    calls.clear()
    StructureTask(Subset(), RaggedArray.from_list(X), 1).learn(y, np.ones(30), "sparsemap")
    assert not calls


def test_score_of_rankings_checks_them():
    X = [np.arange(4.0)[:, None]]
    model = StructuredSparseMAPClassifier(Ranking()).fit(X, [[3, 2, 1, 0]])
    assert model.score(X, [[3, 2, 1, 0]]) == 1.0
    for wrong in ([3, 3, 1, 0], [3, 2, 1], [3, 2, 1, -4], [3, 2, 1, 9], [3.0, 2.0, 1.0, 0.0]):
        with pytest.raises(ValueError, match=r"y\[0\]: "):
            model.score(X, [wrong])
