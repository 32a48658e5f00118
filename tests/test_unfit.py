"""Trees that do not fit: left out of training or made to fit, against a slow twin."""

import warnings
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from sklearn_sparsemap import GroupLassoPerceptron, RaggedArray, StructuredSparseMAPClassifier
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.structures import DependencyTree, LinearChain
from sklearn_sparsemap.structures._tree.repair import make_fit
from sklearn_sparsemap.structures._tree.structure import is_projective


def all_trees(n):
    """All heads of n words that are trees, with any number of roots."""
    for heads in product(range(n + 1), repeat=n):
        above = list(range(n + 1))
        for _ in range(n):
            above = [0 if w == 0 else heads[w - 1] for w in above]
        if not any(above) and all(h != w for w, h in enumerate(heads, 1)):
            yield heads


def lift(heads):
    """Lift arcs one at a time, from the definition: the words between must hang on the head, however far down."""
    heads = dict(enumerate(heads, 1))

    def hangs_on(word, head):
        while word not in (0, head):
            word = heads[word]
        return word == head

    while True:
        wrong = [
            (abs(head - word), word)
            for word, head in heads.items()
            if not all(hangs_on(k, head) for k in range(min(head, word) + 1, max(head, word)))
        ]
        if not wrong:
            return [heads[word] for word in sorted(heads)]
        heads[min(wrong)[1]] = heads[heads[min(wrong)[1]]]


def test_trees_are_made_to_fit_as_by_the_twin():
    n_moved = n_crossing = 0
    for n in (1, 2, 3, 4, 5):
        for heads in all_trees(n):
            tree = np.array(heads)
            lifted = make_fit(tree, True, False)
            assert_array_equal(lifted, lift(heads))
            assert is_projective(lifted) and (is_projective(tree) == (lifted == tree).all())
            n_crossing += not is_projective(tree)
            for projective in (False, True):
                one = make_fit(tree, projective, True)
                DependencyTree(projective, True).encode(one, [n, projective, True])
                # The first root stays the root.
                assert one[np.argmax(tree == 0)] == 0
                if (tree == 0).sum() == 1 and (not projective or is_projective(tree)):
                    assert_array_equal(one, tree)
                else:
                    n_moved += 1
            assert_array_equal(tree, heads)
    assert n_crossing > 100 and n_moved > 1000


# Right, two roots, arcs that cross.
HEADS = [[2, 0, 2], [0, 0, 2], [0, 4, 1, 1], [0, 1], [0, 0, 0]]


def treebank(n=40):
    """Sentences whose rows tell the head, and where it is."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for i in range(n):
        heads = np.array(HEADS[i % len(HEADS)])
        words = len(heads)
        rows = rng.normal(size=((words + 1) * words, 6))
        rows[heads * words + np.arange(words), 0] += 2.0
        X.append(rows)
        y.append(heads)
    return X, y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", [StructuredSparseMAPClassifier, GroupLassoPerceptron])
@pytest.mark.parametrize(
    "structure, several, cross, n_right",
    [
        (DependencyTree(single_root=True), 16, 0, 24),
        (DependencyTree(projective=True), 0, 8, 32),
        (DependencyTree(True, True), 16, 8, 16),
        (DependencyTree(), 0, 0, 40),
    ],
)
def test_fit_leaves_out_or_mends(estimator, structure, several, cross, n_right):
    X, y = treebank()
    settings = {"max_iter": 3, "random_state": 0}
    if estimator is StructuredSparseMAPClassifier:
        settings |= {"solver": "adagrad", "tol": 0.0}
    right = [i for i in range(40) if estimator_takes(structure, y[i])]
    assert len(right) == n_right
    found = {}
    for unfit in ("drop", "projectivise"):
        model = estimator(structure, unfit=unfit, **settings)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y)
        messages = [str(w.message) for w in caught if "do not fit" in str(w.message)]
        if n_right == 40:
            assert not messages
        else:
            assert len(messages) == 1 and f"{40 - n_right} of 40 trees do not fit DependencyTree(" in messages[0]
            for count, why in ((several, "several roots"), (cross, "arcs that cross")):
                assert (f"{count} with {why}" in messages[0]) == (count > 0)
        found[unfit] = model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_
    plain = estimator(structure, **settings)
    if n_right < 40:
        with pytest.raises(ValueError, match=r"y\[[12]\]: (more than one word|arcs cross)"):
            plain.fit(X, y)
    for unfit, X_own, y_own in (
        ("drop", [X[i] for i in right], [y[i] for i in right]),
        ("projectivise", X, [make_fit(heads, structure.projective, structure.single_root) for heads in y]),
    ):
        coef = plain.fit(X_own, y_own).coef_
        assert_array_equal(coef.toarray() if hasattr(coef, "toarray") else coef, found[unfit])


def estimator_takes(structure, heads):
    try:
        structure.encode(heads, [len(heads), structure.projective, structure.single_root])
    except ValueError:
        return False
    return True


def test_streams_weights_and_what_is_refused():
    X, y = treebank()
    structure = DependencyTree(single_root=True)
    right = [i for i in range(40) if (y[i] == 0).sum() == 1]
    weights = np.arange(1.0, 41.0)
    model = StructuredSparseMAPClassifier(structure, solver="adagrad", max_iter=1, random_state=0, unfit="drop")
    with pytest.warns(UserWarning, match="16 of 40 trees do not fit"):
        model.partial_fit(X, y, sample_weight=weights)
    plain = StructuredSparseMAPClassifier(structure, solver="adagrad", max_iter=1, random_state=0)
    plain.partial_fit([X[i] for i in right], [y[i] for i in right], sample_weight=weights[right])
    assert_array_equal(model.coef_, plain.coef_)
    groups = GroupLassoPerceptron(structure, groups=[0, 0, 1, 1, 2, 2], budget=1, shrink_every=10, unfit="projectivise")
    with pytest.warns(UserWarning, match="16 of 40 trees do not fit .*; arcs are moved so that they do"):
        groups.partial_fit(X, y).finalize(X, y)
    assert groups.selected_groups_.tolist() == [0]
    with pytest.raises(ValueError, match="none of the 8 trees fits"), pytest.warns(UserWarning, match="8 of 8"):
        model.fit(X[1::5], y[1::5])
    with pytest.raises(ValueError, match="none of the 8 trees fits"), pytest.warns(UserWarning, match="8 of 8"):
        groups.set_params(unfit="drop").finalize(X[1::5], y[1::5])
    with pytest.raises(ValueError, match="unfit='drop' is for trees"):
        StructuredSparseMAPClassifier(LinearChain(), unfit="drop").fit([np.ones((2, 1))], [["a", "b"]])
    # What is no tree is reported as before.
    y[3] = np.array([2, 1])
    with pytest.raises(ValueError, match="form a cycle"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(RaggedArray.from_list(X), y)


def test_trees_without_weight_are_no_trees_to_learn_from():
    model = StructuredSparseMAPClassifier(DependencyTree(projective=True), unfit="drop")
    with pytest.warns(UserWarning, match="1 of 2 trees"), pytest.raises(ValueError, match="weights of the 1 trees"):
        model.fit([np.ones((5, 4, 1))] * 2, [[0, 1, 1, 1], [3, 4, 0, 3]], sample_weight=[0.0, 1.0])


def batches_of(X, y, n_bad):
    """A wide mini-batch with trees that do not fit, then such of the same features, then one that has some that do."""
    bad = [i for i in range(len(y)) if (y[i] == 0).sum() > 1]
    wide = [np.ones((6, 9))], [np.array([0, 0])]
    return [wide] + [([X[i]], [y[i]]) for i in bad[:n_bad]] + [(X, y)] + [([X[i]], [y[i]]) for i in bad[n_bad:]]


@pytest.mark.filterwarnings("ignore:.*trees do not fit", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", [StructuredSparseMAPClassifier, GroupLassoPerceptron])
def test_parts_without_a_tree_that_fits_are_skipped(estimator):
    X, y = treebank()
    settings = {"structure": DependencyTree(single_root=True), "unfit": "drop", "random_state": 0, "max_iter": 3}
    settings |= {"solver": "adagrad", "tol": 0.0} if estimator is StructuredSparseMAPClassifier else {"budget": 4}
    stream, plain = estimator(**settings), estimator(**settings)
    batches = batches_of(X, y, 3)
    for n, (X_part, y_part) in enumerate(batches):
        before = None if n < 5 else (stream.n_iter_, list(stream.loss_curve_), dense(stream.coef_))
        stream.partial_fit(X_part, y_part)
        if n < 4:
            # The next call is the first one, of any number of features.
            assert not hasattr(stream, "n_features_in_")
            with pytest.raises(NotFittedError):
                stream.predict(X)
        elif n > 4:
            assert (stream.n_iter_, list(stream.loss_curve_)) == before[:2]
            assert_array_equal(dense(stream.coef_), before[2])
    plain.partial_fit(X, y)
    assert stream.n_features_in_ == 6 and len(batches) > 10
    assert_array_equal(dense(stream.coef_), dense(plain.coef_))
    # After fit, too, such a part changes nothing.
    plain.fit(X, y)
    before = dense(plain.coef_)
    assert_array_equal(dense(plain.partial_fit(*batches[1]).coef_), before)

    right = [i for i in range(40) if (y[i] == 0).sum() == 1]
    parts = [([X[i] for i in right[start::3]], [y[i] for i in right[start::3]]) for start in range(3)]
    settings["shuffle"] = False
    found = estimator(**settings).fit_partitions([*batches[1:4], *parts, *batches[5:]])
    if estimator is GroupLassoPerceptron:
        # Steps fall with the number of all samples, of those that do not fit, too.
        assert found.score(X, y) > 0.7
    else:
        assert_array_equal(found.coef_, estimator(**settings).fit_partitions(parts).coef_)
    with pytest.raises(ValueError, match="no partition has a sample to learn from"):
        estimator(**settings).fit_partitions(batches[1:4])


@pytest.mark.filterwarnings("ignore:.*trees do not fit")
def test_shards_without_a_tree_that_fits_are_skipped():
    X, y = treebank()
    model = GroupLassoPerceptron(
        DependencyTree(single_root=True), groups=[0, 0, 1, 1, 2, 2], budget=1, shrink_every=10, unfit="drop",
        random_state=0,
    )  # fmt: skip
    batches = batches_of(X, y, 3)
    mixing = ParameterMixing(model, n_rounds=2, random_state=0).fit([batches[4], batches[1], batches[2]])
    assert mixing.estimator_.selected_groups_.tolist() == [0] and mixing.estimator_.score(X, y) > 0.7
    with pytest.raises(ValueError, match="the first shard has no sample to learn from"):
        ParameterMixing(model, n_rounds=2).fit([batches[1], batches[4]])


def test_how_often_fewer_arcs_would_do():
    # Trees, how many of them have arcs that cross, and for how many of these one and two arcs less would do.
    for n, counts in ((4, [125, 70, 7]), (5, [1296, 1023, 176, 16])):
        trees = np.array(list(all_trees(n)))
        fits = trees[[is_projective(tree) for tree in trees]]
        moved = np.array([(make_fit(tree, True, False) != tree).sum() for tree in trees])
        fewest = np.array([(fits != tree).sum(axis=1).min() for tree in trees])
        assert (moved >= fewest).all() and ((moved == 0) == (fewest == 0)).all()
        assert [len(trees), (fewest > 0).sum(), *np.bincount(moved - fewest)[1:]] == counts


def dense(coef):
    return coef.toarray() if hasattr(coef, "toarray") else coef.copy()
