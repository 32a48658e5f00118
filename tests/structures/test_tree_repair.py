"""Trees that a structure forbids: they are recognised, refused in training, and repaired as by a slow twin."""

from collections import Counter
from itertools import chain, product

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sklearn_sparsemap import GroupLassoPerceptron, StructuredSparseMAPClassifier
from sklearn_sparsemap.structures import DependencyTree, LinearChain


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


def is_projective(heads):
    return DependencyTree(projective=True).misfits(heads) == ()


def test_trees_are_made_to_fit_as_by_the_twin():
    n_moved = n_crossing = 0
    for n in (1, 2, 3, 4, 5):
        for heads in all_trees(n):
            tree = np.array(heads)
            lifted = DependencyTree(projective=True).repair(tree)
            assert_array_equal(lifted, lift(heads))
            assert is_projective(lifted) and (is_projective(tree) == (lifted == tree).all())
            n_crossing += not is_projective(tree)
            for projective in (False, True):
                one = DependencyTree(projective, True).repair(tree)
                DependencyTree(projective, True).encode(one, [n, projective, True])
                # The first root stays the root.
                assert one[np.argmax(tree == 0)] == 0
                if (tree == 0).sum() == 1 and (not projective or is_projective(tree)):
                    assert_array_equal(one, tree)
                else:
                    n_moved += 1
            assert_array_equal(tree, heads)
    assert n_crossing > 100 and n_moved > 1000


# Allowed, two roots, arcs that cross.
HEADS = [[2, 0, 2], [0, 0, 2], [0, 4, 1, 1], [0, 1], [0, 0, 0]]


def treebank(n=40):
    """Make sentences whose rows tell the head, and where it is."""
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
    "structure, reasons",
    [
        (DependencyTree(single_root=True), {"several roots": 16}),
        (DependencyTree(projective=True), {"arcs that cross": 8}),
        (DependencyTree(True, True), {"several roots": 16, "arcs that cross": 8}),
        (DependencyTree(), {}),
    ],
)
def test_trees_that_do_not_fit_are_refused_and_can_be_repaired(estimator, structure, reasons):
    X, y = treebank()
    model = estimator(structure, max_iter=1, random_state=0)
    assert Counter(chain.from_iterable(map(structure.misfits, y))) == reasons
    if reasons:
        with pytest.raises(ValueError, match=r"y\[[12]\]: (more than one word|arcs cross).* `DependencyTree.repair`"):
            model.fit(X, y)
    repaired = [structure.repair(heads) for heads in y]
    for tree, heads in zip(repaired, y, strict=True):
        assert structure.misfits(tree) == ()
        assert (tree.tolist() == heads.tolist()) == (structure.misfits(heads) == ())
    model.fit(X, repaired)


def test_repair_leaves_alone_all_that_is_no_tree():
    structure = DependencyTree(True, True)
    for heads in ([2, 1], [5, 0], [0.5], [[0], [0]]):
        assert structure.misfits(heads) == () and structure.repair(heads).tolist() == heads
    labels = [[2, 0, 2, 0], [0, 0, 2]]
    chain = LinearChain()
    assert chain.in_estimators.repair(chain, labels[0]) is labels[0]
    assert chain.in_estimators.misfits(chain, labels[1]) == ()
    labelled = DependencyTree(single_root=True, n_labels=3)
    assert labelled.repair([[0, 2], [0, 1]]).tolist() == [[0, 2], [1, 1]]


def test_how_often_fewer_arcs_would_do():
    # Trees, how many of them have arcs that cross, and for how many of these one and two arcs less would do.
    for n, counts in ((4, [125, 70, 7]), (5, [1296, 1023, 176, 16])):
        trees = np.array(list(all_trees(n)))
        fits = trees[[is_projective(tree) for tree in trees]]
        moved = np.array([(DependencyTree(projective=True).repair(tree) != tree).sum() for tree in trees])
        fewest = np.array([(fits != tree).sum(axis=1).min() for tree in trees])
        assert (moved >= fewest).all() and ((moved == 0) == (fewest == 0)).all()
        assert [len(trees), (fewest > 0).sum(), *np.bincount(moved - fewest)[1:]] == counts
