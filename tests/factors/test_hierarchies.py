"""Hierarchies of labels: isotonic regression on forests, the constraint, partly labelled rows, the loader."""

import warnings
from itertools import product

import numpy as np
import pytest
from internals import (
    Calibration,
    Forest,
    LabelGraph,
    forest_of,
    implications,
    make_coherent,
    partly_known_losses,
    read_constraints,
)
from naive_exact import Optimum, Vertices
from naive_multilabel import naive_forest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import MultilabelLPSparseMAP, lp_sparsemap, map_inference
from sklearn_sparsemap.datasets import load_hierarchical_arff
from sklearn_sparsemap.factors import AtMost, Hierarchy, Implies
from sklearn_sparsemap.metrics import hierarchical_f1_score
from sklearn_sparsemap.score_models import Network

pd = pytest.importorskip("pandas")


def random_parents(n, rng):
    """Draw a forest whose labels are in no order."""
    order, parents = rng.permutation(n), np.full(n, -1)
    for k in range(1, n):
        if rng.random() < 0.85:
            parents[order[k]] = order[rng.integers(0, k)]
    return parents


def graph_of(parents):
    n = len(parents)
    return LabelGraph(n, np.zeros((0, 2), np.int64), read_constraints(Hierarchy(parents), np.arange(n)))


@pytest.mark.parametrize("n", [1, 2, 7, 25])
def test_forests_are_solved_exactly(n):
    rng = np.random.default_rng(n)
    for _ in range(4):
        parents = random_parents(n, rng)
        forest, graph = Forest(parents), graph_of(parents)
        scores = rng.choice([0.3, 1.0, 4.0]) * rng.normal(size=(6, n))
        found, _ = forest.project(scores, n_jobs=2)
        assert_allclose(found, [naive_forest(s, parents) for s in scores], atol=1e-9)
        assert_array_equal(graph.solve(scores, None).marginals, found)
        others = lp_sparsemap(graph.graph, list(scores), additional={"edges": np.zeros(0)}, tol=1e-10)
        assert_allclose(found, [r.marginals for r in others], atol=1e-7)
        assert_allclose(graph.solve(scores, None).objective, others.objective, atol=1e-7)
        best = forest.best(scores)
        assert not forest.violated(best).any() and not graph.violated(found > 0.4).any()
        wanted = map_inference(graph.graph, list(scores), additional={"edges": np.zeros(0)})
        assert_allclose((best * scores).sum(axis=1), [r.value for r in wanted], atol=1e-9)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3, 1e6])
def test_hierarchies_equal_enumeration(scale):
    """Forests, and labels of several parents: over all sets of labels that hold, with ties and masks."""
    rng, n_mixed = np.random.default_rng(2), 0
    for parents in ([-1], [-1, 0, 1, 1, 0, -1], [-1, -1, [0, 1], 2, [0, 3]]):
        n, pairs, graph = len(parents), Hierarchy(parents).pairs(range(len(parents))), graph_of(parents)
        sets = np.array([y for y in product((0.0, 1.0), repeat=n) if all(y[c] <= y[p] for c, p in pairs)])
        vertices = Vertices(list(sets), sets, np.zeros((len(sets), 0)))
        for kind in range(8):
            scores = scale * (rng.normal(size=n) if kind % 2 else rng.integers(-1, 2, n))
            mask = (None, -1e5, -1e10)[kind % 3]
            if mask is not None:
                scores[rng.random(n) < 0.3] = mask
            exact = Optimum(vertices, scores)
            assert exact.is_certified
            assert_allclose(graph.solve(scores[None], np.zeros(0)).marginals[0], exact.marginals, atol=1e-6)
            result = lp_sparsemap(graph.graph, scores, additional={"edges": np.zeros(0)}, tol=1e-10)
            assert result.converged
            assert_allclose(result.marginals, exact.marginals, atol=1e-6)
            n_mixed += ((exact.marginals > 1e-6) & (exact.marginals < 1.0 - 1e-6)).any()
    # Whole multiples of a large scale are not mixed.
    assert n_mixed > 0 or scale > 1.0


def test_the_derivative_of_a_forest():
    rng = np.random.default_rng(0)
    forest = Forest(random_parents(20, rng))
    scores, v, n_averaged = rng.normal(0.3, 0.7, size=(8, 20)), rng.normal(size=(8, 20)), 0
    found, blocks = forest.project(scores)
    step = 1e-6 * rng.normal(size=(8, 20))
    difference = forest.project(scores + step)[0] - forest.project(scores - step)[0]
    assert_allclose((difference * v).sum(axis=1), 2.0 * (forest.vjp(found, blocks, v) * step).sum(axis=1), atol=1e-11)
    n_averaged = ((blocks != np.arange(20)) & (found > 0) & (found < 1)).sum()
    assert n_averaged > 10


def test_known_labels_are_fixed_with_what_follows():
    rng = np.random.default_rng(0)
    n_fixed = 0
    for _ in range(20):
        parents = random_parents(9, rng)
        forest, scores = Forest(parents), rng.normal(size=(1, 9))
        gold = forest.best(rng.normal(size=(1, 9)))
        known = np.where(rng.random((1, 9)) < 0.3, gold, -1.0)
        (found,), _ = forest.project(scores, known)
        assert_allclose(found, naive_forest(scores[0], parents, known[0]), atol=1e-9)
        assert (found[known[0] >= 0] == known[0][known[0] >= 0]).all()
        n_fixed += (known >= 0).sum()
    assert n_fixed > 20


def test_partly_known_losses_have_their_gradients():
    rng = np.random.default_rng(1)
    parents = random_parents(8, rng)
    graph, scores = graph_of(parents), rng.normal(size=(5, 8))
    gold, known, weights = graph.forest.best(rng.normal(size=(5, 8))), rng.random((5, 8)) < 0.5, rng.uniform(size=5)
    for loss, own in (("sparsemap", graph), ("logistic", graph), ("sparsemap", LabelGraph(8, graph.edges))):
        losses, residuals, *_ = partly_known_losses(loss, 0.7, own, scores, gold, known, weights)
        step = 1e-6 * rng.normal(size=scores.shape)
        sides = [partly_known_losses(loss, 0.7, own, scores + s * step, gold, known, weights)[0] for s in (1, -1)]
        assert_allclose(weights * (sides[0] - sides[1]), 2.0 * (residuals * step).sum(axis=1), atol=1e-9)
        assert (losses >= 0.0).all() and losses.max() > 0.1
    with pytest.raises(ValueError, match="loss='hinge' takes no labels that are NaN"):
        partly_known_losses("hinge", 1.0, graph, scores, gold, known, weights)
    with pytest.raises(ValueError, match="labels that are NaN need a model without edges"):
        LabelGraph(8, np.array([[0, 1]])).solve_known(scores, gold, known)


def test_hierarchies_are_read():
    names = ["a", "a/b", "a/b/c", "d"]
    pairs = [(1, 0), (2, 1)]
    for given in (names, [None, 0, [1], -1], {"a/b": "a", 2: ["a/b"]}, [[], ["a"], (1,), None]):
        assert Hierarchy(given).pairs(names) == pairs
    assert forest_of(4, read_constraints(Hierarchy(names), np.array(names))).parents.tolist() == [-1, 0, 1, -1]
    two = read_constraints([Hierarchy([None, None, [0, 1]])], np.arange(3))
    assert len(two) == 2 and forest_of(3, two) is None
    assert forest_of(2, read_constraints([Implies(0, 1), Implies(1, 0)], np.arange(2))) is None
    assert forest_of(3, read_constraints([Implies(2, 0), AtMost(2)], np.arange(3))) is None
    assert Hierarchy(names) == Hierarchy(list(names)) != Hierarchy([None, 0, 1, None])
    assert repr(Hierarchy(names)) == "Hierarchy(<4 labels>)" and len({Hierarchy(names), Hierarchy(names)}) == 1
    with pytest.raises(ValueError, match="takes the parents of all labels, or paths"):
        Hierarchy("a/b")
    with pytest.raises(ValueError, match="has 2 entries for 3 labels"):
        Hierarchy([None, 0]).pairs([0, 1, 2])
    with pytest.raises(ValueError, match="puts the label 1 above itself"):
        Hierarchy([None, 1]).pairs([0, 1])
    with pytest.raises(ValueError, match="has a path twice"):
        Hierarchy(["a", "a"]).pairs([0, 1])
    with pytest.raises(ValueError, match="above itself"):
        Forest([1, 0])


def test_pooled_scores_are_not_cut_off():
    rng = np.random.default_rng(0)
    forest = Forest([-1, 0, 1, -1, 3, 0])
    scores = 5.0 * rng.normal(size=(30, 6))
    found = forest.pool(scores)
    # In small steps around 1/2, the bounds of the projection are far away.
    wanted = [1e3 * (naive_forest(1e-3 * row + 0.5, forest.parents) - 0.5) for row in scores]
    assert_allclose(found, wanted, atol=1e-6)
    assert found.max() > 3.0 and found.min() < -3.0 and (np.abs(found - scores) > 0.1).any()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 5))
    Y = np.zeros((150, 5), int)
    Y[:, 0] = X[:, 0] + 0.5 * rng.normal(size=150) > 0
    Y[:, 1] = Y[:, 0] & (X[:, 1] + 0.5 * rng.normal(size=150) > 0)
    Y[:, 2] = Y[:, 1] & (X[:, 2] + 0.5 * rng.normal(size=150) > 0)
    Y[:, 3] = X[:, 3] > 0.5
    Y[:, 4] = Y[:, 3] & Y[:, 0] & (X[:, 4] > 0)
    return X, Y


@pytest.mark.parametrize("parents", [[None, 0, 1, None, 3], [None, 0, 1, None, [3, 0]]])
def test_no_prediction_is_incoherent(data, parents):
    X, Y = data
    far, rules = np.concatenate([X, 5.0 * X[::-1]]), Hierarchy(parents)
    for loss in ("logistic", "sparsemap"):
        model = MultilabelLPSparseMAP(constraints=rules, loss=loss, threshold="auto").fit(X, Y)
        found = [model.predict_proba(far)]
        for params in ({}, {"decision": "threshold"}, {"decision": "map"}, {"decision": "auto", "threshold": 0.5}):
            found.append(model.set_params(**params).predict(far))
        for values in found:
            assert all((values[:, child] <= values[:, parent]).all() for child, parent in rules.pairs(range(5)))
    marginals = model.predict_marginals(far)
    assert all((marginals[:, c] <= marginals[:, p] + 1e-9).all() for c, p in rules.pairs(range(5)))


def naive_close(Y, pairs):
    """Turn on the parent of each label that is on, until nothing changes."""
    Y = np.array(Y)
    for _ in range(Y.shape[1]):
        for child, parent in pairs:
            Y[Y[:, child] == 1, parent] = 1
    return Y


def test_labels_are_closed_upwards():
    rng = np.random.default_rng(0)
    edges = [("c", "a"), ("d", "a"), ("d", "b"), ("e", "d"), ("f", "c"), ("f", "e"), ("g", "f")]
    hierarchy = Hierarchy.from_edges(edges)
    names = hierarchy.labels
    assert sorted(names) == list("abcdefg") and all(names.index(p) < names.index(c) for c, p in edges)
    Y = (rng.random((40, 7)) < 0.15).astype(int)
    wanted = naive_close(Y, hierarchy.pairs(names))
    assert 0 < (wanted != Y).any(axis=1).sum() < 40
    for wrap in (np.asarray, np.ndarray.tolist, sparse.csr_array, sparse.csc_matrix):
        found = hierarchy.close(wrap(Y))
        assert_array_equal(found.toarray() if sparse.issparse(found) else found, wanted)
    frame = hierarchy.close(pd.DataFrame(Y, columns=names))
    assert_array_equal(frame.to_numpy(), wanted)
    partly = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
    closed = hierarchy.close(partly)
    assert_array_equal(np.isnan(closed), np.isnan(naive_close(partly, hierarchy.pairs(names))))
    order = rng.permutation(7)
    assert_array_equal(Hierarchy(dict(edges)).close(Y[:, order], [names[j] for j in order]).shape, Y.shape)
    assert_array_equal(hierarchy.close(Y[:, order], [names[j] for j in order]), wanted[:, order])
    samples = [[names[j] for j in np.flatnonzero(row)] for row in Y]
    assert_array_equal(hierarchy.binarize(samples), wanted)
    with pytest.raises(ValueError, match=r"Y has shape \(40, 6\), but the hierarchy has 7 labels"):
        hierarchy.close(Y[:, :6])
    with pytest.raises(ValueError, match="does not know the order of the labels"):
        Hierarchy({"a": "b"}).close(Y)


def test_samples_are_leaves_or_paths():
    hierarchy = Hierarchy.from_edges([("dog", "animal"), ("poodle", "dog"), ("cat", "animal")])
    both = [[1, 1, 0, 1], [1, 0, 1, 0]]
    for samples in (["poodle", "cat"], [["dog", "poodle"], "animal/cat"], [("animal/dog/poodle",), ["cat", "animal"]]):
        assert hierarchy.binarize(samples).tolist() == both
    paths = Hierarchy(["a", "a/b", "c", "c/b", "c/d"])
    assert paths.binarize([["d"], "a/b", np.str_("c/b"), []]).tolist() == [
        [0, 0, 1, 0, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0] * 5,
    ]  # fmt: skip
    assert Hierarchy([None, 0, 1]).binarize([2, [np.int64(1)]]).tolist() == [[1, 1, 1], [1, 1, 0]]
    for wrong, message in (
        (["b"], r"samples\[0\] has 'b', which 2 paths end in; write 'a/b'"),
        ([["a"], ["d/c"]], r"samples\[1\] has the path 'd/c', which does not go"),
        ("a/b", "samples must be a sequence"),
    ):
        with pytest.raises(ValueError, match=message):
            paths.binarize(wrong)
    with pytest.raises(ValueError, match=r"edges\[1\] is 'ab'; an edge is a pair"):
        Hierarchy.from_edges([("a", "b"), "ab"])
    with pytest.raises(ValueError, match="above itself: "):
        Hierarchy.from_edges([("a", "b"), ("b", "c"), ("c", "a")])


def test_names_go_in_and_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    leaves = [[name for name, on in zip(("dog", "cat", "rose"), row > 0.3) if on] for row in X]
    hierarchy = Hierarchy.from_edges([("dog", "animal"), ("cat", "animal"), ("rose", "plant")])
    model = MultilabelLPSparseMAP(constraints=hierarchy).fit(X, hierarchy.binarize(leaves))
    assert model.classes_.tolist() == hierarchy.labels and model.n_violations_ == 0
    found = model.predict([[2.0, -2.0, -2.0], [-2.0, -2.0, 2.0], [-2.0, -2.0, -2.0]], names=True)
    assert [set(each) for each in found] == [{"animal", "dog"}, {"plant", "rose"}, set()]
    indicator = MultilabelLPSparseMAP().fit(X, X > 0.3, classes=["dog", "cat", "rose"])
    rows = np.where(np.column_stack([indicator.predict(X)]) > 0)
    assert [len(each) for each in indicator.predict(X, names=True)] == np.bincount(rows[0], minlength=120).tolist()


@pytest.mark.parametrize("params", [{}, {"solver": "adam", "max_iter": 5}])
def test_curves_are_fitted_to_pooled_scores(data, params, monkeypatch):
    X, Y = data
    fit, seen = Calibration.fit, []

    def spy(self, scores, gold, weights):
        seen.append(scores)
        return fit(self, scores, gold, weights)

    monkeypatch.setattr(Calibration, "fit", spy)
    model = MultilabelLPSparseMAP(constraints=Hierarchy([None, 0, 1, None, 3]), random_state=0, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, Y)
    assert seen and all((s[:, 1] <= s[:, 0] + 1e-9).all() and (s[:, 2] <= s[:, 1] + 1e-9).all() for s in seen)
    raw = model.decision_function(X)
    assert (raw[:, 1] > raw[:, 0]).any()


def test_probabilities_are_coherent():
    rng = np.random.default_rng(0)
    # Two labels have two parents.
    pairs = [(1, 0), (2, 0), (3, 1), (3, 2), (5, 4), (6, 5), (6, 3)]
    values = rng.random((50, 7))
    found = make_coherent(values, pairs)
    implied = {j: {j} for j in range(7)}
    for _ in range(7):
        for child, parent in pairs:
            implied[child] |= implied[parent]
    wanted = np.empty_like(values)
    for i, row in enumerate(values):
        for j in range(7):
            low = max(row[k] for k in range(7) if j in implied[k])
            high = min(row[k] for k in implied[j])
            wanted[i, j] = 0.5 * (low + high)
    assert_allclose(found, wanted)
    assert all((found[:, child] <= found[:, parent]).all() for child, parent in pairs)
    assert make_coherent(values, []) is values
    constraints = [Implies("a", "b"), AtMost(["a", "b"], 1), Implies(["a", "c"], "b"), Hierarchy({"c": "a"})]
    read = read_constraints(constraints, np.array(["a", "b", "c"]))
    assert implications(read) == [(0, 1), (2, 0)]


def test_unknown_labels_are_free(data):
    X, Y = data
    rng = np.random.default_rng(0)
    hidden = np.where(rng.random(Y.shape) < 0.4, np.nan, Y)
    rules = Hierarchy([None, 0, 1, None, 3])
    network = {"score_model": Network((5,), dropout=0.0, eta0=0.02, batch_size=64), "max_iter": 100, "tol": 0.01}
    for params in ({}, {"loss": "logistic"}, {"threshold": "auto"}, {"constraints": rules}, network):
        model = MultilabelLPSparseMAP(random_state=0, **params)
        partly = model.fit(X, hidden).score(X, Y)
        assert partly > 0.4
    # Without rules: what a sample says nothing of changes nothing.
    twice, left = np.concatenate([X, X]), np.concatenate([Y, np.full(Y.shape, np.nan)])
    left[:, 0] = np.concatenate([Y[:, 0], Y[:, 0]])
    model = MultilabelLPSparseMAP(score_model="linear", alpha=0.1, tol=1e-7).fit(
        twice, pd.DataFrame(left, columns=list("abcde"))
    )
    assert model.classes_.tolist() == list("abcde")
    whole = MultilabelLPSparseMAP(score_model="linear", alpha=0.2, tol=1e-7).fit(X, Y)
    assert_allclose(model.coefs_[0][:, 1:], whole.coefs_[0][:, 1:], atol=1e-5)
    for params in ({"loss": "hinge"}, {"label_graph": "full"}, {"constraints": AtMost(4)}):
        with pytest.raises(ValueError, match="y has NaN for labels that are unknown; these need"):
            MultilabelLPSparseMAP(**params).fit(X, hidden)


def test_unknown_labels_keep_to_the_rules_and_to_what_was_seen():
    names = ["m", "m/j", "m/r", "s", "s/a"]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    music, sport = X[:, 0] > -0.5, X[:, 2] > 0
    Y = np.stack([music, X[:, 0] > 0.3, music & (X[:, 1] > 0), sport, sport & (X[:, 3] > 0)], axis=1).astype(float)
    hidden = np.where(rng.random(Y.shape) < 0.4, np.nan, Y)[:120]
    model = MultilabelLPSparseMAP(constraints=Hierarchy(names)).fit(X[:120], hidden, classes=names)
    # The few samples that are known in full are not all that there is.
    assert model.score(X[120:], Y[120:]) > 0.65
    known = ~np.isnan(hidden)
    right = (model.predict(X[:120]) == np.nan_to_num(hidden)) | ~known
    assert model.score(X[:120], hidden) == pytest.approx(right.all(axis=1).mean())
    # The ancestors of a label are added.
    deep = Hierarchy([None, 0, 1])
    X, Y = rng.normal(size=(60, 2)), np.zeros((60, 3))
    Y[X[:, 0] > 0] = [1, 1, 0]
    Y[:5] = [0, 1, 0]
    Y[5:8] = [0, np.nan, 1]
    Y[8:12] = [np.nan, np.nan, 1]
    model = MultilabelLPSparseMAP(constraints=deep, score_model="linear").fit(X, Y)
    closed = deep.close(Y)
    assert closed[0].tolist() == [1, 1, 0] and closed[5].tolist() == closed[8].tolist() == [1, 1, 1]
    same = MultilabelLPSparseMAP(constraints=deep, score_model="linear").fit(X, closed)
    assert model.n_violations_ == 0 and model.score(X, Y) == model.score(X, closed)
    assert_allclose(model.coefs_[0], same.coefs_[0], atol=1e-6)
    # Other rules are not closed.
    with pytest.warns(UserWarning, match="labels of 5 of 60 samples violate"):
        MultilabelLPSparseMAP(constraints=[Implies(1, 0)]).fit(X, np.nan_to_num(Y))
    single = MultilabelLPSparseMAP(alpha=0.1).fit([[0.0], [1.0], [2.0]], [[0.0], [1.0], [np.nan]])
    assert single.predict([[0.0], [1.0]]).shape == (2, 1)


def test_unknown_labels_in_a_stream(data):
    X, Y = data
    hidden = np.array(Y, float)
    hidden[:100, 2] = np.nan
    hidden[60:80] = np.nan
    model = MultilabelLPSparseMAP(alpha=0.0, threshold="auto", random_state=0)
    partly, whole = clone(model), clone(model)
    for start in range(0, 100, 20):
        partly.partial_fit(X[start : start + 20], hidden[start : start + 20])
        # Labels by themselves do not see each other; where nothing is known, Adam goes on by its momentum.
        whole.partial_fit(X[start : start + 20], Y[start : start + 20])
        assert not partly.coefs_[0][:, 2].any() and partly.coefs_[0][:, [0, 1, 3, 4]].all()
        if start < 60:
            assert_array_equal(partly.coefs_[0][:, [0, 1, 3, 4]], whole.coefs_[0][:, [0, 1, 3, 4]])
    assert (partly.coefs_[0] != whole.coefs_[0]).all()
    partly.partial_fit(X[100:], hidden[100:])
    assert partly.coefs_[0][:, 2].all() and 0.0 < partly.threshold_ < 1.0
    # An implied parent is known, too.
    rules = clone(model).set_params(constraints=Hierarchy([None, 0, 1]))
    child, parents = np.full((20, 3), np.nan), np.ones((20, 3))
    child[:, 2] = 1.0
    assert_array_equal(clone(rules).partial_fit(X[:20], child).coefs_[0], rules.partial_fit(X[:20], parents).coefs_[0])
    for params in ({"loss": "hinge"}, {"label_graph": "full"}, {"constraints": AtMost(4)}):
        with pytest.raises(ValueError, match="y has NaN for labels that are unknown; these need"):
            clone(model).set_params(**params).partial_fit(X, hidden)
    column = MultilabelLPSparseMAP().partial_fit([[0.0], [1.0]], [[1.0], [np.nan]])
    assert column.partial_fit([[0.0], [1.0]], [[1.0], [0.0]]).predict([[0.0]]).shape == (1, 1)


def test_thousands_of_classes():
    rng = np.random.default_rng(0)
    parents = np.concatenate([[-1], rng.integers(0, np.arange(1, 3000))])
    graph, scores = graph_of(parents), rng.normal(-0.5, 1.0, size=(3, 3000))
    found = graph.solve(scores, None).marginals
    assert (found[:, 1:] <= found[:, parents[1:]]).all() and 0.0 < found.mean() < 1.0
    graph.check_feasible()
    assert not graph.violated(graph.assign(scores)).any()


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([1.5, None], "the parent of label 0 is 1.5; write a label by its index or name, a list of labels, or None"),
        ([np.nan, None], "the parent of label 0 is nan; write"),
        (np.array([-1.0, 0.0]), "the parent of label 0 is -1.0; write"),
        ([None, True], "the parent of label 1 is True; write"),
        ([None, [0.5]], "the parent of label 1 is 0.5; write"),
        ([None, [[0]]], r"the parent of label 1 is \[0\]; write"),
        ({"jazz": 2.5}, "the parent of label 'jazz' is 2.5; write"),
        ({"jazz": object()}, "the parent of label 'jazz' is <object"),
    ],
)
def test_parents_that_are_no_labels(parents, message):
    with pytest.raises(ValueError, match=f"Hierarchy: {message}"):
        Hierarchy(parents)


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([1, 2, 0], "above itself: (0 -> 1 -> 2 -> 0|1 -> 2 -> 0 -> 1|2 -> 0 -> 1 -> 2)"),
        ([None, 2, 1, None], "above itself: (1 -> 2 -> 1|2 -> 1 -> 2), from labels to"),
        ([None, None, [0, 2], None], "puts the label 2 above itself: 2 -> 2, from"),
    ],
)
def test_cycles_of_indices_are_named_at_once(parents, message):
    with pytest.raises(ValueError, match=message):
        Hierarchy(parents)


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([["b"], ["c"], ["a"], None], "above itself: '[abc]' -> '[abc]' -> '[abc]' -> '[abc]', from"),
        ([None, None, ["c"], None], "puts the label 'c' above itself: 'c' -> 'c', from"),
        ({"a": "b", "b": ["d", "a"]}, "above itself: ('a' -> 'b' -> 'a'|'b' -> 'a' -> 'b'), from"),
    ],
)
def test_cycles_are_named(parents, message):
    names = list("abcd")
    with pytest.raises(ValueError, match=message):
        Hierarchy(parents).pairs(names)
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=message):
        MultilabelLPSparseMAP(constraints=Hierarchy(parents)).fit(X, np.ones((20, 4), int), classes=names)


def test_long_cycles_are_cut_off():
    n = 5000
    with pytest.raises(ValueError, match=r"above itself: \d+( -> \d+){11} -> \.\.\., from labels") as raised:
        Hierarchy([*range(1, n), 0])
    assert len(str(raised.value)) < 400
    # A deep hierarchy is none.
    assert len(Hierarchy([None, *range(n - 1)]).pairs(list(range(n)))) == n - 1


def test_the_loader(tmp_path):
    path = tmp_path / "a.arff"
    header = "@relation genes\n% comment\n@attribute 'a b' numeric\n@attribute kind {x,y}\n"
    header += "@attribute class hierarchical "
    path.write_text(header + "1/2,1/2/3,4\n@data\n1.5,x,1/2/3\n?,?,4@1/2\n")
    X, Y, names, parents = load_hierarchical_arff(path)
    assert_array_equal(X, [[1.5, 1.0, 0.0], [np.nan] * 3])
    assert names == ["1", "4", "1/2", "1/2/3"] and parents == [[], [], [0], [2]]
    assert Y.tolist() == [[1, 0, 1, 1], [1, 1, 1, 0]]
    path.write_text(header + "root/a,root/b,a/c,b/c\n@data\n0,y,c\n")
    _, Y, names, parents = load_hierarchical_arff(path)
    assert names == ["a", "b", "c"] and parents == [[], [], [0, 1]] and Y.tolist() == [[1, 1, 1]]
    for text, message in (
        (header + "1,2\n@data\n1,x,3\n", "line 7: the row has the class '3', which is not declared"),
        (header + "1,2\n@data\n1,z,1\n", "line 7: the row has 'z' for the attribute 'kind'"),
        (header + "1,2\n@data\n1,1\n", "line 7: the row has 1 values for 2 features"),
        (header + "1\n@attribute late numeric\n@data\n", "line 6: an attribute after the one of the classes"),
        (header + "root/a,b/c,c/b\n@data\n", "has no rows after @data"),
        (header + "root/a,b/c,c/b\n@data\n1,x,a\n", "is above itself"),
        ("@relation x\n@attribute a numeric\n@data\n1\n", "line 3: no features and a last attribute 'class hier"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            load_hierarchical_arff(path)


def test_labels_are_given_by_name_or_by_index_and_missing_ones_are_named():
    hierarchy = Hierarchy(["a", "a/b"])
    np.testing.assert_array_equal(hierarchy.binarize([[1], 0, "b", []]), [[1, 1], [1, 0], [1, 1], [0, 0]])
    for missing in (None, float("nan"), 2):
        with pytest.raises(ValueError, match=r"samples\[1\] has .*, which is no label of the hierarchy"):
            hierarchy.binarize(["a", missing])


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        ([[1, 0], [1]], "the rows of Y differ in length"),
        ([[2, 0]], "zeros and ones"),
        (sparse.csr_array([[0.5, 0.0]]), "zeros and ones"),
        ([["a", "b"]], "Y must be an array of numbers"),
        ([1, 0], r"Y has shape \(2,\), but the hierarchy has 2 labels"),
    ],
)
def test_matrices_to_close_hold_zeros_and_ones(Y, message):
    with pytest.raises(ValueError, match=message):
        Hierarchy(["a", "a/b"]).close(Y)


LEVELS = [["A", "B", ""], ["A", "C", "D"], ["E", "B", ""], ["E", "", ""], ["", "", ""]]
INDICATORS = [[1, 0, 1, 0, 0, 0], [1, 0, 0, 1, 0, 1], [0, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 0], [0] * 6]


def tables_of_levels():
    """The same table in several types, with empty, missing and NaN cells."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(LEVELS)
    text, none = np.array(LEVELS), [[level or None for level in row] for row in LEVELS]
    return [frame, frame.replace("", np.nan), frame.astype("string").replace("", pd.NA), text, np.array(none, object)]


def test_tables_of_levels():
    for table in tables_of_levels():
        hierarchy = Hierarchy(table)
        assert hierarchy.labels == ["A", "E", "A/B", "A/C", "E/B", "A/C/D"]
        assert hierarchy.pairs(hierarchy.labels) == [(2, 0), (3, 0), (4, 1), (5, 3)]
        for samples in (*tables_of_levels(), LEVELS, [tuple(row) for row in LEVELS]):
            assert hierarchy.binarize(samples).tolist() == INDICATORS
    edges = [("B", "A"), ("C", "A"), ("D", "C")]
    named = Hierarchy.from_edges(edges)
    assert named.binarize([["A", "B", ""], ["A", "C", "D"], ["", "", ""]]).tolist() == [
        [1, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 0]
    ]  # fmt: skip
    for samples, message in (
        (np.array([["A", "", "D"]]), "row 0 of the table, .*, has a gap; levels may be absent at the end only"),
        (np.array([["A", "X"]]), "has 'A/X', which is no label of the hierarchy; .* join the levels of a path by '/'"),
        (np.array([["A/B", ""]]), "has a level with '/'"),
        ([["X"]], "has 'X', which is no label of the hierarchy; correct it, add it, or join the levels"),
    ):
        with pytest.raises(ValueError, match=message):
            named.binarize(samples)
    with pytest.raises(ValueError, match="the table of levels has no labels"):
        Hierarchy(np.array([["", ""]]))


def test_tables_of_edges():
    pd = pytest.importorskip("pandas")
    edges = [("dog", "animal"), ("cat", "animal"), ("animal", None)]
    wanted = ["animal", "dog", "cat"]
    frame = pd.DataFrame(edges, columns=["id", "parent_id"])
    turned = pd.DataFrame({"Parent": ["animal", "animal", ""], "Child": ["dog", "cat", "animal"]})
    for own in (edges, frame, frame.fillna(np.nan), turned, np.array([edge for edge in edges if edge[1]])):
        hierarchy = Hierarchy.from_edges(own)
        assert hierarchy.labels == wanted and hierarchy.pairs(wanted) == [(1, 0), (2, 0)]
    for unknown in (pd.DataFrame(LEVELS), pd.DataFrame(edges, columns=["name", "above"])):
        with pytest.raises(ValueError, match=r"call the start of an arc one of parent, .* and its end one of child, "):
            Hierarchy.from_edges(unknown)
    with pytest.raises(ValueError, match=r"edges\[1\] is .*, without a child"):
        Hierarchy.from_edges([("a", "b"), (None, "b")])


def test_tables_are_closed_by_the_names_of_their_columns():
    pd = pytest.importorskip("pandas")
    hierarchy = Hierarchy.from_edges([("dog", "animal"), ("cat", "animal")])
    Y = pd.DataFrame([[1, 0, 0], [0, 0, 0]], columns=["dog", "animal", "cat"])
    closed = hierarchy.close(Y)
    assert closed.columns.tolist() == Y.columns.tolist() and closed.to_numpy().tolist() == [[1, 1, 0], [0, 0, 0]]
    unknown = Y.astype("Int64")
    unknown.iloc[0, 1] = unknown.iloc[1, 0] = pd.NA
    np.testing.assert_array_equal(hierarchy.close(unknown).to_numpy(float), [[1, 1, 0], [np.nan, 0, 0]])
    with pytest.raises(ValueError, match="y has the column 'wolf', which is not among classes"):
        hierarchy.close(Y.rename(columns={"dog": "wolf"}))


def test_directed_graphs_and_series_are_read():
    networkx, pd = pytest.importorskip("networkx"), pytest.importorskip("pandas")
    arcs = [("music", "jazz"), ("music", "rock"), ("jazz", "bop")]
    graph = networkx.DiGraph(arcs)
    graph.add_node("law")
    of_labels = pd.Series({"jazz": "music", "rock": "music", "bop": "jazz", "music": None, "law": np.nan})
    table = networkx.to_pandas_edgelist(networkx.DiGraph(arcs))
    several = networkx.MultiDiGraph([*arcs, arcs[0]])
    # The enumeration is the list of edges itself.
    expected = {(child, parent) for parent, child in arcs}
    for given in (graph, several, of_labels, of_labels.iloc[::-1]):
        for read in (Hierarchy, Hierarchy.from_edges):
            found = read(given)
            assert {(found.labels[a], found.labels[b]) for a, b in found.pairs(found.labels)} == expected
            assert set(found.labels) - {"law"} == {"music", "jazz", "rock", "bop"}
            assert ("law" in found.labels) == (given is not several)
    pairs = set()
    for names in (("source", "target"), ("Parent", "Child"), ("from", "to"), ("PARENT_ID", "CHILD_ID")):
        for columns in (names, names[::-1]):
            own = table.set_axis(names, axis=1)[list(columns)].assign(weight=1.0)
            found = Hierarchy.from_edges(own)
            assert {(found.labels[a], found.labels[b]) for a, b in found.pairs(found.labels)} == expected
            pairs.add(columns)
    assert len(pairs) == 8
    with pytest.raises(ValueError, match="the graph is not directed"):
        Hierarchy(networkx.Graph(arcs))
    with pytest.raises(ValueError, match=r"edges are those of a graph, .*; pass the graph itself"):
        Hierarchy.from_edges(graph.edges)
    # A Series with the index that pandas writes by itself, or of paths, is a sequence.
    assert Hierarchy(pd.Series([None, 0, 0])) == Hierarchy([None, 0, 0])
    assert Hierarchy(pd.Series(["a", "a/b"], index=[3, 7])).labels == ["a", "a/b"]


def test_whole_numbers_stay_integers_if_values_are_missing():
    pd = pytest.importorskip("pandas")
    train, test = pd.DataFrame({"l1": [1, 1, 2], "l2": [10, np.nan, 20]}), pd.DataFrame({"l1": [1, 2], "l2": [10, 20]})
    for own in (train, train.astype("Int64"), train.convert_dtypes(), train.astype(object)):
        hierarchy = Hierarchy(own)
        assert hierarchy.labels == ["1", "2", "1/10", "2/20"]
        for rows in (test, test.astype("Int64"), train.iloc[[0, 2]]):
            assert hierarchy.binarize(rows).tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    table = pd.DataFrame({"id": [1, 2, 3], "name": ["a", "b", "c"], "parent_id": [None, 1, 1]})
    for own in (table, table.convert_dtypes(), table[["parent_id", "id"]]):
        found = Hierarchy.from_edges(own)
        assert found.labels == [1, 2, 3] and found.entries == ((2, (1,)), (3, (1,)))
        assert found.binarize([[2.0], [3]]).tolist() == [[1, 1, 0], [1, 0, 1]]


@pytest.mark.parametrize(
    "flat",
    [["music", "music > jazz"], [None, None, -1], {}, {"jazz": []}, [("a", None), ("b", None)]],
    ids=["paths", "indices", "empty", "dict", "edges"],
)
def test_hierarchies_without_parents_warn(flat):
    read = Hierarchy.from_edges if isinstance(flat[0] if isinstance(flat, list) else None, tuple) else Hierarchy
    if flat == {"jazz": []}:
        assert read(flat).pairs(["jazz"]) == []
        return
    with pytest.warns(UserWarning, match=r"no label of this hierarchy .* has a parent, so it has no effect"):
        read(flat)


def test_paths_follow_the_names_of_labels():
    pd = pytest.importorskip("pandas")
    paths = Hierarchy(["a", "a/b", "c"])
    Y = pd.DataFrame([[1, 1, 0], [0, 0, 0]], columns=["c", "a/b", "a"])
    assert paths.close(Y).to_numpy().tolist() == [[1, 1, 1], [0, 0, 0]]
    assert paths.pairs(["c", "a/b", "a"]) == [(1, 2)] and paths.pairs(["x", "y", "z"]) == [(1, 0)]
    with pytest.raises(ValueError, match="has the path 'a', which the labels have at another place"):
        paths.pairs(["x", "y", "a"])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = pd.DataFrame((X > 0.3).astype(int), columns=["c", "a/b", "a"])
    predicted = MultilabelLPSparseMAP(constraints=paths, loss="logistic", alpha=0.01).fit(X, Y).predict(X)
    assert (predicted[:, 1] <= predicted[:, 2]).all() and 0 < predicted[:, 1].sum() < predicted[:, 2].sum()


@pytest.mark.parametrize("kind", ["Int64", "boolean", "object", "polars"])
def test_closed_tables_keep_their_type(kind):
    pd = pytest.importorskip("pandas")
    hierarchy = Hierarchy.from_edges([("dog", "animal"), ("cat", "animal")])
    Y = pd.DataFrame([[1, 0, 0], [0, None, 0], [0, 0, None]], columns=["dog", "animal", "cat"])
    expected = [[1, 1, 0], [0, None, 0], [0, 0, None]]
    if kind == "polars":
        own = pytest.importorskip("polars").from_pandas(Y)
        closed = hierarchy.close(own)
        assert closed.schema == own.schema and [list(row) for row in closed.rows()] == expected
        return
    own = Y.astype(kind)
    closed = hierarchy.close(own)
    assert closed.dtypes.tolist() == own.dtypes.tolist() and closed.columns.tolist() == own.columns.tolist()
    assert [[None if pd.isna(entry) else int(entry) for entry in row] for row in closed.to_numpy()] == expected


def test_columns_in_different_orders_need_a_hierarchy_with_names():
    pd = pytest.importorskip("pandas")
    Y = pd.DataFrame([[1, 1], [1, 0]], columns=["a", "b"])
    with pytest.raises(ValueError, match="columns in different orders, and the labels of the hierarchy have no names"):
        hierarchical_f1_score(Y, Y[["b", "a"]], Hierarchy([None, 0]))
    assert hierarchical_f1_score(Y, Y[["b", "a"]], Hierarchy.from_edges([("b", "a")])) == 1.0
