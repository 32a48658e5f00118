"""StructuredSparseMAPClassifier over every kind of structure, with every loss."""

import pickle

import naive
import numpy as np
import pytest
from registry import best_segment, encode_segment
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier, map_inference, sparsemap
from sklearn_sparsemap.losses import LOSSES
from sklearn_sparsemap.structures import CustomStructure, DependencyTree, LinearChain, Matching, Subset

N_FEATURES = 5


def make_data(structure, n_samples=40, seed=0):
    """Samples whose gold structure is the best one under hidden weights, with some noise; one row a part."""
    rng = np.random.default_rng(seed)
    w = np.random.default_rng(99).normal(size=N_FEATURES)
    X, y = [], []
    for _ in range(n_samples):
        n, m = (int(k) for k in rng.integers(1, 5, size=2))
        shape = {DependencyTree: (n + 1, n), Matching: (n, m)}.get(type(structure), (n + 3,))
        x = rng.normal(size=(*shape, N_FEATURES))
        X.append(x)
        y.append(map_inference(structure, x @ w + 0.1 * rng.normal(size=shape))[0])
    return X, y


KINDS = {
    "tree": DependencyTree(),
    "projective": DependencyTree(projective=True, single_root=True),
    "matching": Matching(),
    "subset": Subset(min_size=1, max_size=2),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_loss_learns_every_structure(loss, kind):
    structure = KINDS[kind]
    X, y = make_data(structure)
    X_test, y_test = make_data(structure, seed=1)
    if kind == "matching" and LOSSES[loss].argmax == "gibbs":
        with pytest.raises(ValueError, match="#P-complete"):
            StructuredSparseMAPClassifier(structure, loss).fit(X, y)
        return
    model = StructuredSparseMAPClassifier(structure, loss, alpha=1e-3, tol=1e-2, random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.85
    assert model.coef_.shape == (1, N_FEATURES) and not hasattr(model, "classes_")
    assert all(np.array_equal(a, b) for a, b in zip(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X)))


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_have_the_shapes_of_the_scores(kind):
    structure = KINDS[kind]
    X, y = make_data(structure)
    model = StructuredSparseMAPClassifier(structure, alpha=1e-2, solver="adagrad", tol=1e-2, random_state=0).fit(X, y)
    scores, marginals, found = model.decision_function(X), model.predict_marginals(X), model.predict_structures(X)
    for x, s, u, few, p in zip(X, scores, marginals, found, model.predict(X)):
        assert s.shape == u.shape == x.shape[:-1]
        np.testing.assert_allclose(s, x @ model.coef_[0] + model.intercept_[0])
        np.testing.assert_allclose(u, sparsemap(structure, s).marginals, atol=1e-9)
        assert sum(q for _, q in few) == pytest.approx(1.0)
        assert np.array_equal(p, map_inference(structure, s)[0])


@pytest.mark.parametrize("solver", ["lbfgs", "adagrad", "mira"])
def test_solvers_of_a_tree(solver):
    X, y = make_data(DependencyTree(), 60)
    loss = "hinge" if solver == "mira" else "crf"
    model = StructuredSparseMAPClassifier("tree", loss, solver=solver, alpha=1e-3, tol=1e-3, random_state=0)
    model.fit(X, y)
    X_test, y_test = make_data(DependencyTree(), 60, seed=1)
    assert model.score(X_test, y_test) > 0.85
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    right = [np.mean(p == t) * len(t) for p, t in zip(model.predict(X_test), y_test)]
    assert model.score(X_test, y_test) == pytest.approx(sum(right) / sum(map(len, y_test)))


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
        assert all(np.array_equal(a, b) for a, b in zip(fitted.predict(form), fitted.predict(X)))
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
    assert all(np.array_equal(a, b) for a, b in zip(one.predict_marginals(X), two.predict_marginals(X)))


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
    careful = StructuredSparseMAPClassifier(
        loss="margin_sparsemap", alpha=0.01, cost=[[0.0, 1.0], [5.0, 0.0]]
    ).fit(X, y)
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
    online = StructuredSparseMAPClassifier("tree", "crf", alpha=0.05, solver="adagrad", tol=0.0, max_iter=300)
    with pytest.warns(ConvergenceWarning, match="still improving"):
        online.set_params(eta0=0.5, n_iter_no_change=300, random_state=0).fit(X, y)
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
        StructuredSparseMAPClassifier("tree", "hinge", cost=np.zeros((1, 1))).fit(X, y)
    fitted = model.set_params(structure="tree").fit(X, y)
    with pytest.raises(ValueError, match=r"y\[0\]: there are"):
        fitted.score(X, [[0] * 9] * 5)
    assert isinstance(fitted._structure, DependencyTree) and fitted._structure != LinearChain()
