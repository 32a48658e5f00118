"""MAP oracles against enumeration; structures as parts and back."""

import pickle

import naive
import numpy as np
import pytest
from registry import RANDOM, listed
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from sklearn_sparsemap import map_inference, marginal_inference
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Ranking, Segmentation, Simplex, Subset


@pytest.mark.parametrize("kind", RANDOM)
@pytest.mark.parametrize("options", [{}, {"ties": True}, {"forbid": True}, {"scale": 1e8}], ids=str)
def test_map_is_the_best_of_all(kind, options):
    rng = np.random.default_rng(0)
    for _ in range(50):
        instance = RANDOM[kind](rng, **options)
        structures, _, theta = instance.enumerate()
        found, value = map_inference(instance.structure, instance.scores, **instance.additional)
        best = theta.max()
        assert value == pytest.approx(best, rel=1e-12, abs=1e-12), instance
        # The structure itself, not only its value, must be a best one.
        assert theta[structures.index(listed(found))] == pytest.approx(best, rel=1e-12, abs=1e-12), instance


def draw_scores(rng, shape, i):
    """Scores of all sizes; every third draw with ties, every fourth with forbidden parts besides a diagonal."""
    scores = np.round(2 * rng.normal(size=shape)) if i % 3 == 0 else rng.normal(size=shape) * 10 ** rng.uniform(-2, 8)
    if i % 4 == 1:
        mask = rng.random(shape) < 0.6
        np.fill_diagonal(mask, False)
        scores[mask] = -np.inf
    return scores


def value_or_infeasible(structure, scores):
    try:
        found, value = map_inference(structure, scores)
    except ValueError as error:
        assert "infeasible" in str(error)
        return -np.inf
    assert np.array_equal(structure.decode(structure.encode(found, structure.dims(scores.shape, {}))[0],
                                           structure.dims(scores.shape, {})), found)  # fmt: skip
    return value


def test_larger_trees(draws):
    rng = np.random.default_rng(2)
    values = []
    for i in range(draws(150)):
        n = int(rng.integers(1, 16))
        scores = draw_scores(rng, (n + 1, n), i)
        weights = naive.with_root_row(scores)
        size = 1e-9 * (1.0 + np.abs(scores[scores > -np.inf]).max())
        assert value_or_infeasible(DependencyTree(), scores) == pytest.approx(naive.best_tree_value(weights), abs=size)
        single = -np.inf
        for r in range(1, n + 1):
            under_r = weights.copy()
            under_r[0, np.arange(n + 1) != r] = -np.inf
            single = max(single, naive.best_tree_value(under_r))
        values.append(value_or_infeasible(DependencyTree(single_root=True), scores))
        assert values[-1] == pytest.approx(single, abs=size)
    assert np.isfinite(values).all()


def test_larger_projective_trees():
    rng = np.random.default_rng(3)
    values = []
    for i in range(40):
        n = int(rng.integers(1, 9))
        scores = draw_scores(rng, (n + 1, n), i)
        weights = naive.with_root_row(scores)
        size = 1e-9 * (1.0 + np.abs(scores[scores > -np.inf]).max())
        expected = naive.best_projective_value(weights)
        assert value_or_infeasible(DependencyTree(projective=True), scores) == pytest.approx(expected, abs=size)
        single = -np.inf
        for r in range(1, n + 1):
            under_r = weights.copy()
            under_r[0, np.arange(n + 1) != r] = -np.inf
            single = max(single, naive.best_projective_value(under_r))
        values.append(value_or_infeasible(DependencyTree(projective=True, single_root=True), scores))
        assert values[-1] == pytest.approx(single, abs=size)
    assert np.isfinite(values).all()


def test_larger_matchings():
    rng = np.random.default_rng(4)
    for i in range(300):
        shape = tuple(int(k) for k in rng.integers(1, 30, size=2))
        scores = draw_scores(rng, shape, i)
        rows, columns = linear_sum_assignment(scores, maximize=True)
        expected = scores[rows, columns].sum()
        assert map_inference(Matching(), scores)[1] == pytest.approx(expected, rel=1e-12, abs=1e-9)
    blocked = np.zeros((3, 3))
    blocked[:2, :2] = -np.inf
    blocked[2, 2] = -np.inf
    assert value_or_infeasible(Matching(), blocked) == -np.inf


def test_batches_of_matchings_whether_or_not_the_last_prices_help():
    # In a batch each problem begins with the prices of the one before. Where pairs are forbidden, some rows have one
    # column left, or none.
    rng = np.random.default_rng(8)
    n_feasible = n_infeasible = 0
    for shape in ((1, 1), (7, 7), (12, 12), (9, 14), (14, 9), (60, 60)):
        base = rng.normal(size=shape)
        families = {
            "unlike": rng.normal(size=(12, *shape)),
            "alike": base + 1e-3 * rng.normal(size=(12, *shape)),
            "ties": rng.integers(0, 3, size=(12, *shape)).astype(float),
            "products": rng.random((12, shape[0], 1)) * rng.random((12, 1, shape[1])),
            "forbidden": np.where(rng.random((12, *shape)) < 2.2 / max(shape), rng.normal(size=(12, *shape)), -np.inf),
        }
        for name, batch in families.items():
            expected = []
            for scores in batch:
                try:
                    expected.append(scores[linear_sum_assignment(scores, maximize=True)].sum())
                except ValueError:
                    expected.append(-np.inf)
            expected = np.array(expected)
            feasible = np.isfinite(expected)
            n_feasible += feasible.sum()
            n_infeasible += (~feasible).sum()
            if feasible.any():
                found = map_inference(Matching(), batch[feasible]).values
                np.testing.assert_allclose(found, expected[feasible], rtol=1e-12, atol=1e-9, err_msg=f"{name} {shape}")
            for scores in batch[~feasible][:3]:
                assert value_or_infeasible(Matching(), scores) == -np.inf
    assert n_feasible > 250 and n_infeasible > 20


def test_larger_subsets():
    rng = np.random.default_rng(5)
    for _ in range(200):
        n = int(rng.integers(1, 60))
        scores = np.round(rng.normal(size=n) * 2, int(rng.integers(0, 3)))
        low, high = sorted(int(k) for k in rng.integers(0, n + 1, size=2))
        ordered = np.sort(scores)[::-1]
        expected = max(ordered[:k].sum() for k in range(low, high + 1))
        assert map_inference(Subset(low, high), scores)[1] == pytest.approx(expected)


@pytest.mark.parametrize("kind", RANDOM)
def test_encode_and_decode_are_inverse_and_agree_with_scores(kind):
    rng = np.random.default_rng(1)
    for _ in range(50):
        instance = RANDOM[kind](rng)
        structure = instance.structure
        given = {name: a.shape for name, a in instance.additional.items()}
        dims = structure.dims(instance.scores.shape, given)
        flat = np.concatenate([np.zeros(0)] + [instance.additional[n].ravel() for n in given])
        structures, M, theta = instance.enumerate()
        p = rng.integers(len(structures))
        slots, additional_slots = structure.encode(np.array(structures[p]), dims)
        assert (len(slots), len(additional_slots)) == tuple(structure.sizes(dims)[:2])
        assert np.array_equal(structure.decode(slots, np.array(dims)), structures[p])
        assert np.array_equal(M[:, p], np.bincount(slots[slots >= 0], minlength=len(M)))
        total = instance.scores.ravel()[slots[slots >= 0]].sum() + flat[additional_slots[additional_slots >= 0]].sum()
        assert total == pytest.approx(theta[p])
        several = [np.array(own) for own in structures[:3]]
        together = structure.in_estimators.encode_all(structure, several, np.array(dims))
        for own, parts in zip(several, together, strict=True):
            assert all(map(np.array_equal, parts, structure.encode(own, dims)))


@pytest.mark.parametrize("kind", RANDOM)
def test_fixed_size_says_that_all_structures_have_equally_many_parts(kind):
    rng = np.random.default_rng(2)
    instances = [RANDOM[kind](rng) for _ in range(50)]
    declared = [instance.structure.fixed_size for instance in instances]
    differ = [np.ptp(instance.enumerate()[1].sum(axis=0)) > 0 for instance in instances]
    wrong = [instance for instance, *is_wrong in zip(instances, declared, differ, strict=True) if all(is_wrong)]
    assert not wrong, f"fixed_size is True, but structures of {wrong[0]} have different numbers of parts"
    assert all(declared) or any(differ), f"set fixed_size = True in {type(instances[0].structure).__name__}"


def test_a_path_is_checked_when_encoded():
    chain = LinearChain()
    dims = chain.dims((3, 2), {})
    for wrong in ([0, 1], [0, 1, 2], [0, -1, 0], [0.0, 1.0, 1.0], 0):
        with pytest.raises(ValueError, match="a path is 3 ints from 0 to 1"):
            chain.encode(wrong, dims)
    with pytest.raises(ValueError, match="a choice is an int from 0 to 3"):
        Simplex().encode(4, (4,))


def test_single_step_uses_start_and_end_whatever_transitions_are_given():
    scores, start, end = np.array([[0.0, 1.0]]), np.array([3.0, 0.0]), np.array([0.0, 1.0])
    for transitions in (np.full((2, 2), 7.0), np.zeros((0, 2, 2))):
        found, value = map_inference(LinearChain(), scores, transitions=transitions, start=start, end=end)
        assert found.tolist() == [0]
        assert value == naive.chain_score([0], scores, transitions, start, end) == 3.0


def test_structures_are_values():
    assert Simplex() == Simplex() != LinearChain()
    assert len({Simplex(), Simplex(), LinearChain()}) == 2
    assert repr(LinearChain()) == "LinearChain()"
    assert pickle.loads(pickle.dumps(LinearChain())) == LinearChain()


class Secret:
    """An object that has neither a hash nor a pickle."""

    __hash__ = None

    def __reduce__(self):
        raise TypeError


def test_structures_with_objects_of_any_kind_are_values():
    def holding(value):
        structure = Simplex()
        structure.value = value
        return structure

    # The text of a long table leaves out most of it.
    table = np.zeros(5000, dtype=[("a", "f8"), ("b", "f8")])
    other = table.copy()
    other["a"][2500] = 1.0
    tables = [pytest.importorskip("pandas").DataFrame(each) for each in (table, table.copy(), other)]
    assert holding(tables[0]) == holding(tables[1]) != holding(tables[2])
    secret = Secret()
    assert holding(secret) == holding(secret) != holding(Secret())
    assert hash(holding(secret)) == hash(holding(secret))
    matrix = sparse.csr_array(([2.0, 1.0, 0.0], ([0, 0, 1], [1, 0, 1])), shape=(2, 2))
    unsorted = sparse.csr_array(([2.0, 1.0], [1, 0], [0, 2, 2]), shape=(2, 2))
    assert holding(matrix) == holding(unsorted) != holding(2 * unsorted)
    assert matrix.nnz == 3 and unsorted.indices.tolist() == [1, 0]
    assert holding({"a": 1, "b": 2}) != holding({"b": 2, "a": 1}), "additional scores are joined in their order"


@pytest.mark.parametrize(
    ("structure", "shape", "wrong", "message"),
    [
        (DependencyTree(), (4, 3), [1, 0, 0], "word 1 is its own head"),
        (DependencyTree(), (4, 3), [2, 1, 0], "cycle at word 1"),
        (DependencyTree(), (4, 3), [0, 4, 1], "3 ints from 0"),
        (DependencyTree(), (4, 3), [0.0, 1.0, 1.0], "3 ints from 0"),
        (DependencyTree(single_root=True), (4, 3), [0, 0, 1], "more than one word"),
        (DependencyTree(projective=True), (5, 4), [0, 4, 1, 1], "arcs cross"),
        (Matching(), (2, 3), [0, 0], "matched once"),
        (Matching(), (2, 3), [0, -1], "has 2 pairs; got 1"),
        (Matching(), (2, 3), [0, 3], "2 ints from 0 to 2"),
        (Segmentation(2), (4, 2), [0, 0, 0, 1], "span of label 0 from step 0 on has 3 steps, more than max_length=2"),
        (Segmentation(2), (2, 2), [0, 2], "2 ints from 0 to 1, the label of each step"),
        (Segmentation(2, "spans"), (3, 2, 2), [[0, 3, 1]], "3 steps, more than max_length=2"),
        (Segmentation(2, "spans"), (3, 2, 2), [[0, 2, 1]], "follow each other from step 0 to step 3"),
        (Segmentation(2, "spans"), (3, 2, 2), [[0, 2, 1], [2, 3, 2]], "ints from 0 to 1"),
        (Segmentation(2, "spans"), (3, 2, 2), [0, 1, 1], r"shape \(n_spans, 3\)"),
        (DependencyTree(n_labels=2), (3, 2, 2), [0, 1], r"int array of shape \(2, 2\)"),
        (DependencyTree(n_labels=2), (3, 2, 2), [[0, 1], [1, 2]], "labels of arcs are ints from 0 to 1"),
        (DependencyTree(n_labels=2), (3, 2, 2), [[2, 1], [1, 1]], "cycle at word 1"),
        (Ranking(), (3,), [0, 1], "a ranking is 3 ints from 0 to 2"),
        (Ranking(2), (3,), [0, 3], "a ranking is 2 ints from 0 to 2"),
        (Ranking(2), (3,), [1, 1], "each item is ranked once"),
        (Subset(1, 2), (3,), [True, True, True], "1 to 2 items"),
        (Subset(1, 2), (3,), [2, 0, 0], "3 bools"),
    ],
)
def test_what_is_no_structure_is_refused(structure, shape, wrong, message):
    with pytest.raises(ValueError, match=message):
        structure.encode(wrong, structure.dims(shape, {}))


def test_shapes_and_sizes_are_checked():
    with pytest.raises(ValueError, match=r"scores: scores of a tree over n words have shape \(n \+ 1, n\)"):
        map_inference(DependencyTree(), np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"scores\[1\]: there are 1 items, fewer than min_size=2"):
        map_inference(Subset(2), [[0.0, 1.0], [0.0]])
    with pytest.raises(ValueError, match=r"have shape \(n_steps, 3, n_labels\)"):
        map_inference(Segmentation(3, "spans"), np.zeros((4, 2, 2)))
    with pytest.raises(ValueError, match="n_labels=3, but the scores of arcs have 2 labels"):
        map_inference(DependencyTree(n_labels=3), np.zeros((3, 2, 2)))
    with pytest.raises(ValueError, match="there are 2 items, fewer than top_k=3"):
        map_inference(Ranking(3), np.zeros(2))
    with pytest.raises(ValueError, match="with a single label all 4 steps are one span"):
        map_inference(Segmentation(3), np.zeros((4, 1)))
    for arguments in ((-1,), (2, 1), (0, 1.5), (True,)):
        with pytest.raises(ValueError, match=r"must be a non-negative int|is less than"):
            Subset(*arguments)


def test_a_longest_span_beyond_all_steps_takes_no_room():
    scores = np.random.default_rng(5).normal(size=(6, 3))
    far, near = Segmentation(10**12), Segmentation(6)
    for structure in (far, near):
        dims = structure.dims(scores.shape, {})
        assert structure.sizes(dims)[2] < 100 and structure.marginal_work(dims) < 200
    np.testing.assert_array_equal(map_inference(far, scores).structure, map_inference(near, scores).structure)
    own, other = (marginal_inference(structure, scores) for structure in (far, near))
    np.testing.assert_array_equal(own.marginals, other.marginals)


def test_the_root_is_left_of_all_words():
    # Under an arc from the root to word 2, word 1 must not have its head behind word 2.
    scores = np.full((4, 3), -1.0)
    scores[0, 1], scores[3, 0], scores[2, 2] = 5.0, 5.0, 5.0
    assert map_inference(DependencyTree(), scores).structure.tolist() == [3, 0, 2]
    assert map_inference(DependencyTree(projective=True), scores).structure.tolist() != [3, 0, 2]
