"""Groups, proximal operators and the budget rule, compared with slow twins."""

import itertools
import pickle

import naive_penalties as naive
import numpy as np
import pytest
from internals import (
    FLOATS,
    FLOATS_OUT,
    INTS,
    budget_rule,
    disjoint_budget_factors,
    disjoint_budget_rule,
    entry,
    gap_of_overlapping,
    group_budget_factors,
    power_of_two,
    shrink_atoms,
)
from interpreted import interpreted
from numba import types

from sklearn_sparsemap.features import Template, chunking_templates
from sklearn_sparsemap.penalties import (
    L1,
    ElasticNet,
    GroupLasso,
    GroupOrder,
    GroupTree,
    SparseGroupLasso,
    as_group_weights,
    as_groups,
)

SEEDS = range(8)


def random_partition(rng, n):
    m = rng.integers(1, n + 1)
    return rng.permutation(np.concatenate([np.arange(m), rng.integers(m, size=n - m)]))


def random_tree(rng, n):
    m = rng.integers(2, n + 1)
    parents = [-1, *(rng.integers(-1, i) for i in range(1, m))]
    relabel = rng.permutation(m)
    shuffled = np.full(m, -1)
    for node, parent in enumerate(parents):
        shuffled[relabel[node]] = -1 if parent < 0 else relabel[parent]
    ids = np.concatenate([np.arange(m), rng.integers(m, size=n - m)])
    return GroupTree(shuffled, [np.flatnonzero(ids == k) for k in range(m)])


def random_order(rng, n):
    m = rng.integers(2, n + 1)
    rank = rng.permutation(m)
    pairs = [(a, b) for a, b in itertools.product(range(m), repeat=2) if rank[a] < rank[b] and rng.random() < 0.3]
    ids = np.concatenate([np.arange(m), rng.integers(m, size=n - m)])
    return GroupOrder(pairs, columns=[np.flatnonzero(ids == k) for k in range(m)])


def random_overlap(rng, n):
    groups = [rng.choice(n, rng.integers(1, n + 1), replace=False) for _ in range(rng.integers(2, 7))]
    missing = np.setdiff1d(np.arange(n), np.concatenate(groups))
    return [g.tolist() for g in groups] + ([missing.tolist()] if len(missing) else [])


KINDS = {"partition": random_partition, "tree": random_tree, "order": random_order, "overlap": random_overlap}


def random_problem(kind, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 10))
    spec = KINDS[kind](rng, n)
    groups = as_groups(spec, n)
    group_weights = rng.uniform(0, 1, groups.n_groups)
    group_weights[rng.random(groups.n_groups) < 0.2] = 0.0
    weights = rng.normal(size=n) if seed % 2 else rng.normal(size=(n, 2))
    return rng, spec, groups, group_weights, weights


# Groups


def test_every_spelling_of_a_partition_is_the_same():
    ids = [0, 1, 0, 2, 1]
    columns = [[0, 2], [1, 4], [3]]
    for spec in (ids, np.array(ids, np.int32), columns, dict(zip("abc", columns)), [np.array(c) for c in columns]):
        groups = as_groups(spec, 5, allow_overlap=False)
        assert groups.is_partition and groups.is_nested
        np.testing.assert_array_equal(groups.atom_of, ids)
        np.testing.assert_array_equal(groups.sizes, [2, 2, 1])
    assert groups.n_features == 5 and as_groups(ids).n_features == 5
    assert as_groups(dict(zip("abc", columns))).names == ("a", "b", "c")
    assert as_groups(None, 4).sizes.tolist() == [1] * 4
    assert as_groups(groups, 5) is groups


def test_templates_may_have_no_features_yet():
    groups = as_groups("templates", feature_groups=[0, 2, 2], names=["a", "b", "c"])
    assert groups.sizes.tolist() == [1, 0, 2]
    more = groups.with_features([0, 2, 2, 1, 1])
    assert (more.sizes.tolist(), more.n_features, groups.n_features) == ([1, 2, 2], 5, 3)
    none_yet = as_groups("templates", feature_groups=np.empty(0, int), names=["a", "b"])
    assert none_yet.sizes.tolist() == [0, 0]
    order = GroupOrder([("a", "b")], names=["a", "b"])
    groups = as_groups(order, feature_groups=[0, 0])
    assert groups.sizes.tolist() == [2, 0] and groups.with_features([0, 0, 1]).sizes.tolist() == [3, 1]
    assert as_group_weights("log2", none_yet.sizes).tolist() == [0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_normal_form(kind, seed):
    _, spec, groups, _, weights = random_problem(kind, seed)
    columns = naive.columns_of(groups)
    if kind == "overlap":
        assert [c.tolist() for c in columns] == [sorted(c) for c in spec]
    assert groups.sizes.tolist() == [len(c) for c in columns]
    np.testing.assert_allclose(groups.norms(weights), [np.linalg.norm(weights[c]) for c in columns], rtol=1e-12)
    sets = [set(c.tolist()) for c in columns]
    nested = True
    for a, b in itertools.combinations(range(groups.n_groups), 2):
        if sets[a] & sets[b]:
            assert groups.family[a] != groups.family[b]
        if sets[a] < sets[b]:
            assert groups.family[a] < groups.family[b]
        nested &= not (sets[a] & sets[b]) or sets[a] <= sets[b] or sets[b] <= sets[a]
    assert groups.is_nested == nested and groups.is_partition == (len(groups.group_atoms) == groups.n_atoms)
    assert (np.diff(groups.family[groups.order]) >= 0).all()
    for g in range(groups.n_groups):
        assert set(groups.ancestors(g)) == {h for h in range(groups.n_groups) if sets[g] < sets[h]}
    # Two features are in the same atom exactly if they are in the same groups.
    member = np.array([[f in s for s in sets] for f in range(groups.n_features)])
    for f, h in itertools.combinations(range(groups.n_features), 2):
        assert (groups.atom_of[f] == groups.atom_of[h]) == (member[f] == member[h]).all()


def test_order_covers_and_levels():
    order = GroupOrder([("a", "b"), ("b", "c"), ("a", "c"), ("a", "d"), ("a", "a")])
    assert order.names == ("a", "b", "c", "d")
    assert order.covers.tolist() == [[0, 1], [0, 3], [1, 2]] and order.levels.tolist() == [0, 1, 2, 1]
    groups = as_groups(order, feature_groups=[0, 1, 2, 3])
    assert groups.sizes.tolist() == [4, 2, 1, 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_covers_generate_the_order(seed):
    rng = np.random.default_rng(seed)
    order = random_order(rng, 9)
    reach = np.eye(order.n_groups, dtype=int)
    for _ in range(order.n_groups):
        for a, b in order.covers:
            reach[a] |= reach[b]
    np.testing.assert_array_equal(reach > 0, order.precedes)
    for a, b in order.covers:
        between = order.precedes[a] & order.precedes[:, b]
        assert between.sum() == 2 and order.levels[b] > order.levels[a]


def test_order_of_templates():
    templates = [
        Template(tuple((field, offset) for offset, field in zip(offsets, fields)))
        for length in (1, 2)
        for offsets in itertools.combinations((-1, 0, 1), length)
        for fields in itertools.product(("pos", "word", "shape"), repeat=length)
    ]
    coarser = {("pos", "word"), ("shape", "word")}
    order = GroupOrder.from_templates(templates)
    assert order.names == tuple(map(str, templates))
    atoms = [[(offset, field) for field, offset in t.atoms] for t in templates]
    expected = [[naive.template_precedes(a, b, coarser) for b in atoms] for a in atoms]
    np.testing.assert_array_equal(order.precedes, expected)
    # As in the figure of the paper: a template and one that it covers differ in one position by one step.
    order = GroupOrder.from_templates(chunking_templates())
    names = {(order.names[a], order.names[b]) for a, b in order.covers}
    assert ("pos[0]", "pos[-1]|pos[0]") in names and ("pos[0]", "word[0]") in names
    assert ("pos[0]", "pos[-1]|pos[0]|pos[1]") not in names


def test_order_of_templates_with_two_fields_at_a_position():
    order = GroupOrder.from_templates(["word[0]|pos[0]", "word[0]", "pos[0]"])
    assert [(order.names[a], order.names[b]) for a, b in order.covers] == [
        ("word[0]", "word[0]|pos[0]"),
        ("pos[0]", "word[0]"),
    ]
    order = GroupOrder.from_templates(["head.pos[0]", "mod.pos[0]", "head.word[0]|mod.pos[0]|distance", "distance"])
    assert order.covers.tolist() == [[0, 2], [1, 2], [3, 2]]
    own = GroupOrder.from_templates(["tag[0]", "word[0]"], coarser=[("tag", "word")])
    assert own.covers.tolist() == [[0, 1]]
    none = GroupOrder.from_templates(["pos[0]", "word[0]"], coarser=())
    assert none.covers.tolist() == [] and none.levels.tolist() == [0, 0]


def test_tree():
    tree = GroupTree.from_nested({"a": {"b": [0], "c": {"d": [1], "e": [2, 3]}}, "f": [4]})
    groups = as_groups(tree, 5)
    assert dict(zip(tree.names, groups.sizes.tolist())) == {"a": 4, "b": 1, "c": 3, "d": 1, "e": 2, "f": 1}
    assert tree.parents.tolist() == [-1, 0, 0, 2, 2, -1] and tree.levels.tolist() == [0, 1, 1, 2, 2, 0]
    assert [tree.names[g] for g in groups.ancestors(3)] == ["c", "a"]
    same = GroupTree([-1, 0, 0, 2, 2, -1], [[], [0], [], [1], [2, 3], [4]])
    np.testing.assert_array_equal(same.precedes, tree.precedes)
    assert pickle.loads(pickle.dumps(tree)).names == tree.names


ROOT = {"a": None, "b": "a"}

WRONG_GROUPS = {
    r"group 'a' has column 5, but there are 3 features": lambda: as_groups({"a": [0, 5], "b": [1, 2]}, 3),
    r"group 'b' has column -1": lambda: as_groups({"a": [0], "b": [-1, 1]}, 3),
    r"group 1 is empty; give it a column": lambda: as_groups([[0, 1, 2], []], 3),
    r"group 0 has column 1 more than once": lambda: as_groups([[0, 1, 1], [2]], 3),
    r"group 'a' must hold integers.*got.*0.5": lambda: as_groups({"a": [0.5], "b": [1]}, 3),
    r"group 'a' must be a list of columns": lambda: as_groups({"a": "xy"}, 3),
    r"group 0 must be a flat list": lambda: as_groups([[[0, 1], [1, 2]]], 3),
    r"2 of 4 features are in no group: 1, 3": lambda: as_groups([[0], [2]], 4),
    r"95 of 100 .* 5, 6, 7, 8, 9, \.\.\.": lambda: as_groups([[0, 1, 2], [3, 4]], 100),
    r"there are no groups": lambda: as_groups([], 3),
    r"there are no groups; use": lambda: as_groups({}, 3),
    r"groups has 2 entries for 3 features": lambda: as_groups([0, 1], 3),
    r"groups has 4 entries for 3 features": lambda: as_groups(["a", "a", "b", "b"], 3),
    r"groups has 5 entries for 3 features": lambda: as_groups(list("aabbc"), 3, feature_names=["x", "y", "z"]),
    r"groups\[1\] is -1": lambda: as_groups([0, -1, 1], 3),
    r"groups must hold integers.*float64": lambda: as_groups([0.0, 1.0, 1.0], 3),
    r"group 1 is empty, although there are groups up to 2; use the numbers as names, list": lambda: as_groups(
        [0, 2, 2], 3
    ),
    r"must be a 1-D array": lambda: as_groups(np.zeros((3, 1), int), 3),
    r"groups\[2\] is 2, but there are 2 groups": lambda: as_groups([0, 1, 2], 3, names=["a", "b"]),
    r"names has 1 entries for 2 groups": lambda: as_groups([[0], [1]], names=["a"]),
    r"two groups with the name 'a'": lambda: as_groups([[0], [1]], names=["a", "a"]),
    r"groups='template' is not one of": lambda: as_groups("template", 3),
    r"needs the template of each feature": lambda: as_groups("templates", 3),
    r"feature_groups has 2 entries for 3": lambda: as_groups("templates", 3, feature_groups=[0, 1]),
    r"groups must be None, an int array.*got 3": lambda: as_groups(3, 3),
    r"n_features is needed": lambda: as_groups(None),
    r"n_features must be": lambda: as_groups(None, -1),
    r"the groups have 2 features, but there are 3": lambda: as_groups(as_groups([0, 1]), 3),
    r"groups 'a' and 'b' overlap in feature 1;": lambda: as_groups({"a": [0, 1], "b": [1]}, 2, allow_overlap=False),
    r"groups 'a' and 'b' overlap; each feature must be in only one group": lambda: as_groups(
        GroupOrder([("a", "b")]), feature_groups=[0], allow_overlap=False
    ),
    r"atom_of\[0\] is 9, but there are 2": lambda: as_groups([0, 1]).with_features([9]),
    r"cycle, ('a' <= 'b' <= 'c' <= 'a'|'b' <= 'c' <= 'a' <= 'b'|'c' <= 'a' <= 'b' <= 'c'); remove": lambda: GroupOrder(
        [("a", "b"), ("b", "c"), ("c", "a"), ("a", "d"), ("e", "a")]
    ),
    r"names 'c', which is not a group; there are 'a', 'b'": lambda: GroupOrder([("a", "c")], names=["a", "b"]),
    r"pairs \(coarse, fine\); got 'ab'": lambda: GroupOrder(["ab"]),
    r"there are no groups; name": lambda: GroupOrder([]),
    r"counted from 0; got -1": lambda: GroupOrder([(-1, 0)]),
    r"columns has 1 entries for 2": lambda: GroupOrder([], names="ab", columns=[[0]]),
    r"they differ in 'c'": lambda: GroupOrder([], names="ab", columns={"a": [0], "b": [1], "c": [2]}),
    r"GroupOrder has no columns": lambda: as_groups(GroupOrder([("a", "b")]), 3),
    r"feature_groups\[2\] is 2, but": lambda: as_groups(GroupOrder([("a", "b")]), feature_groups=[0, 1, 2]),
    r"1 of 3 features are in no group: 1": lambda: as_groups(GroupTree(ROOT, {"a": [0], "b": [2]}), 3),
    r"group 'b' has column 4, but there are 3": lambda: as_groups(GroupTree(ROOT, {"a": [0, 1, 2], "b": [4]}), 3),
    r"groups 'a' and 'b' overlap in feature 0; a feature must be in only one base group": lambda: as_groups(
        GroupTree(ROOT, {"a": [0], "b": [0]}), 1
    ),
    r"group 'b' is empty: neither": lambda: as_groups(GroupTree(ROOT, {"a": [0]}), 1),
    r"the order has a cycle": lambda: GroupTree({"a": "b", "b": "a"}),
    r"'a' is its own parent": lambda: GroupTree({"a": "a"}),
    r"the parent of 'b' is 'x', which is not a node": lambda: GroupTree({"a": None, "b": "x"}),
    r"columns has 'x', which is not a node": lambda: GroupTree(ROOT, {"x": [0]}),
    r"parents\[1\] is -2": lambda: GroupTree([-1, -2]),
    r"parents\[1\] is 2": lambda: GroupTree([-1, 2]),
    r"parents must be a dict": lambda: GroupTree([0.5]),
    r"there are two groups with the name 'a'; rename": lambda: GroupTree.from_nested({"a": {"a": [0]}}),
    r"nested must be a dict; got list": lambda: GroupTree.from_nested([0]),
    r"cannot read 'pos\[x\]'": lambda: GroupOrder.from_templates(["word[0]|pos[x]"]),
    r"write \['pos\[0\]'\]": lambda: GroupOrder.from_templates("pos[0]"),
    r"cycle, '(pos|word)'": lambda: GroupOrder.from_templates(["pos[0]"], coarser=[("pos", "word"), ("word", "pos")]),
    r"group_weights='log' is not one of 'uniform', 'log2', 'sqrt'": lambda: as_group_weights("log", [1]),
    r"group_weights has shape \(2,\) for 1 groups": lambda: as_group_weights([1, 2], [1]),
    r"group_weights\[1\] is -1.0": lambda: as_group_weights([1, -1], [1, 1]),
    r"group_weights\[0\] is nan": lambda: as_group_weights([np.nan, -1], [1, 1]),
    r"array of numbers": lambda: as_group_weights(["a"], [1]),
    r"alpha must be": lambda: L1(-1.0),
    r"l1_ratio must be from 0 to 1; got 2": lambda: ElasticNet(1.0, 2),
    r"l1_ratio must be a": lambda: SparseGroupLasso(None, 1.0, -0.5),
    r"step must be": lambda: L1().prox([1.0], -1),
    r"weights\[1\] is nan": lambda: L1().prox([1.0, np.nan]),
    r"weights\[0, 1\] is inf": lambda: GroupLasso().prox([[1.0, np.inf]]),
    r"1 or 2 axes": lambda: ElasticNet().value(np.zeros((1, 1, 1))),
    r"weights must be an array of numbers": lambda: L1().prox(["a"]),
    r"values beyond 1e\+100": lambda: L1().prox([1e200]),
    r"method='fast' is not": lambda: GroupLasso(method="fast"),
    r"max_iter must be": lambda: GroupLasso(max_iter=0),
    r"groups has 2 entries for 4 features": lambda: GroupLasso([0, 1]).prox(np.zeros(4)),
}


@pytest.mark.parametrize("message", WRONG_GROUPS)
def test_messages(message):
    with pytest.raises(ValueError, match=message):
        WRONG_GROUPS[message]()


# Group weights


def test_group_weights():
    sizes = np.array([1, 2, 16])
    np.testing.assert_array_equal(as_group_weights("uniform", sizes), [1, 1, 1])
    np.testing.assert_array_equal(as_group_weights("log2", sizes), [0, 1, 4])
    np.testing.assert_allclose(as_group_weights("sqrt", sizes), [1, np.sqrt(2), 4])
    np.testing.assert_array_equal(as_group_weights([3, 2, 0], sizes), [3, 2, 0])


# Proximal operators


def check_is_prox(penalty, weights, step, solution, rng, scale=1.0):
    """At a minimum of a 1-strongly convex function, it grows at least as half the squared distance."""

    def objective(u):
        return 0.5 * ((u - weights) ** 2).sum() + step * penalty.value(u)

    for size in (1e-3, 0.1, 1.0):
        for _ in range(5):
            other = solution + scale * size * rng.normal(size=weights.shape) * (rng.random(weights.shape) < 0.5)
            least = objective(solution) + 0.5 * ((other - solution) ** 2).sum()
            assert objective(other) >= least - 1e-12 * scale**2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_prox_of_groups(kind, seed):
    rng, spec, groups, group_weights, weights = random_problem(kind, seed)
    columns = naive.columns_of(groups)
    for alpha in (0.1, 0.7):
        penalty = GroupLasso(spec, alpha, group_weights)
        solution, gap = penalty.prox_with_gap(weights, 0.9)
        expected, expected_gap = naive.prox_groups(weights, columns, 0.9 * alpha * group_weights)
        np.testing.assert_allclose(solution, expected, atol=1e-9 + np.sqrt(2 * max(expected_gap, 0.0)))
        assert 0 <= gap <= 0.5 * (1e-10 * np.linalg.norm(weights)) ** 2
        np.testing.assert_allclose(penalty.value(weights), naive.penalty_value(weights, columns, alpha * group_weights))
        check_is_prox(penalty, weights, 0.9, solution, rng)

        sparse = SparseGroupLasso(spec, alpha, 0.3, group_weights)
        solution = sparse.prox(weights, 0.9)
        check_is_prox(sparse, weights, 0.9, solution, rng)
        singles = [[f] if weights.ndim == 1 else (f, o) for f, o in np.ndindex(len(weights), weights[0].size)]
        everything = [*columns, *singles]  # a pair is one entry of a matrix
        radii = 0.9 * alpha * np.concatenate([0.7 * group_weights, np.full(len(singles), 0.3)])
        expected, expected_gap = naive.prox_groups(weights, everything, radii)
        np.testing.assert_allclose(solution, expected, atol=1e-9 + np.sqrt(2 * max(expected_gap, 0.0)))


OF_FEATURES = [L1(0.4), ElasticNet(0.4, 0.2), ElasticNet(0.4, 1), ElasticNet(3, 0)]


@pytest.mark.parametrize("penalty", OF_FEATURES, ids=lambda p: type(p).__name__)
def test_prox_of_features(penalty):
    rng = np.random.default_rng(0)
    for weights in (rng.normal(size=6), rng.normal(size=(4, 2))):
        solution = penalty.prox(weights, 0.5)
        check_is_prox(penalty, weights, 0.5, solution, rng)
    ratio = getattr(penalty, "l1_ratio", 1.0)
    threshold, ridge = 0.5 * penalty.alpha * ratio, 0.5 * penalty.alpha * (1 - ratio)
    expected = [np.sign(w) * max(abs(w) - threshold, 0) / (1 + ridge) for w in weights.ravel()]
    np.testing.assert_allclose(solution.ravel(), expected, rtol=1e-14)


def test_limits_agree():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=12)
    ids = np.arange(12) % 4
    np.testing.assert_allclose(GroupLasso(None, 0.3).prox(weights), L1(0.3).prox(weights), atol=1e-15)
    np.testing.assert_allclose(ElasticNet(0.3, 1.0).prox(weights), L1(0.3).prox(weights))
    np.testing.assert_allclose(SparseGroupLasso(ids, 0.3, 1.0).prox(weights), L1(0.3).prox(weights))
    np.testing.assert_array_equal(SparseGroupLasso(ids, 0.3, 0.0).prox(weights), GroupLasso(ids, 0.3).prox(weights))
    np.testing.assert_array_equal(GroupLasso(ids, 0.3).prox(weights, 0.0), weights)
    assert not GroupLasso(ids, 100.0).prox(weights).any() and not GroupLasso(ids).prox(np.zeros(12)).any()
    # A group of one feature, with the paper's weights.
    np.testing.assert_array_equal(GroupLasso([0, 1, 1], 100.0, "log2").prox([1e-9, 1.0, 1.0]), [1e-9, 0.0, 0.0])


@pytest.mark.parametrize("scale", [1e-170, 1e-12, 1e12, 1e90])
@pytest.mark.parametrize("kind", KINDS)
def test_prox_of_any_size(kind, scale):
    _, spec, _, group_weights, weights = random_problem(kind, 3)
    penalty = GroupLasso(spec, 0.5, group_weights)
    expected = penalty.prox(weights)
    np.testing.assert_allclose(penalty.prox(scale * weights, scale) / scale, expected, atol=1e-9)
    weights.flags.writeable = False
    np.testing.assert_array_equal(penalty.prox(np.asfortranarray(weights)), expected)


def test_trees_are_shrunk_from_the_leaves():
    tree = GroupTree([-1, 0, 0], [[], [0, 1], [2, 3]])
    weights = np.array([2.0, -1.0, 0.5, 0.4])
    columns = [[0, 1, 2, 3], [0, 1], [2, 3]]
    radii = np.full(3, 0.5)
    right = GroupLasso(tree, 0.5).prox(weights)
    np.testing.assert_allclose(right, naive.prox_groups(weights, columns, radii)[0], atol=1e-9)
    np.testing.assert_allclose(right, naive.shrink_in_order(weights, columns[::-1], radii), atol=1e-12)
    assert np.abs(right - naive.shrink_in_order(weights, columns, radii)).max() > 0.05


@pytest.mark.parametrize("seed", SEEDS)
def test_families_shrink_one_after_another(seed):
    _, spec, groups, group_weights, weights = random_problem("overlap", seed)
    columns = naive.columns_of(groups)
    expected = naive.shrink_in_order(weights, [columns[g] for g in groups.order], 0.3 * group_weights[groups.order])
    solution, gap = GroupLasso(spec, 0.3, group_weights, method="families").prox_with_gap(weights)
    np.testing.assert_allclose(solution, expected, atol=1e-12)
    assert groups.is_nested or np.isnan(gap)


def test_coarse_to_fine_discards_what_is_finer():
    order = GroupOrder.from_templates(chunking_templates())
    groups = as_groups(order, feature_groups=np.arange(72))
    rng = np.random.default_rng(0)
    for method in ("exact", "families"):
        weights = GroupLasso(groups, 0.4, method=method).prox(rng.normal(size=72))
        alive = weights != 0
        assert 0 < alive.sum() < 72
        for a, b in order.covers:
            assert alive[a] or not alive[b]


# The budget rule


@entry(types.float64(FLOATS, FLOATS, INTS, INTS, INTS, types.int64, FLOATS_OUT, FLOATS_OUT, FLOATS_OUT))
def call_budget_rule(rho, weights, order, group_indptr, group_atoms, budget, ratios, factors, left):
    """Return the strength of the budget rule."""
    if group_atoms.shape[0] == rho.shape[0]:
        return disjoint_budget_rule(rho, weights, order, group_indptr, group_atoms, budget, ratios, factors, left)
    return budget_rule(rho, weights, order, group_indptr, group_atoms, budget, ratios, factors, left)


def budget_strength(norms, budget, group_weights=None, groups=None):
    """Return the strength at which `budget` groups survive, given the norms of all atoms."""
    groups = as_groups(None, len(norms)) if groups is None else groups
    weights = np.ones(groups.n_groups) if group_weights is None else group_weights
    structure = groups.order, groups.group_indptr, groups.group_atoms
    # Squares of scaled norms neither overflow nor underflow.
    unit, work = power_of_two(np.max(norms)), np.empty((2, groups.n_atoms))
    rho = (np.asarray(norms) / unit) ** 2
    return unit * call_budget_rule(rho, weights, *structure, budget, np.empty(groups.n_groups), *work)


def survivors(norms, strength, group_weights, groups):
    rho, factors = np.asarray(norms, float) ** 2, np.empty(groups.n_atoms)
    shrink_atoms(rho, strength, group_weights, groups.order, groups.group_indptr, groups.group_atoms, factors)
    np.testing.assert_allclose(rho, factors**2 * np.asarray(norms, float) ** 2, rtol=1e-12)
    alive = (factors > 0) & (np.asarray(norms) > 0)
    return naive.count_alive(alive, [groups.group_atoms[a:b] for a, b in itertools.pairwise(groups.group_indptr)])


@pytest.mark.parametrize("seed", range(40))
def test_budget_is_met_exactly(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    norms = 10.0 ** rng.uniform(-12, 12, n) if seed % 2 else np.abs(rng.normal(size=n))
    norms[rng.random(n) < 0.2] = 0.0
    group_weights = 10.0 ** rng.uniform(-3, 3, n) if seed % 3 else np.log2(rng.integers(1, 50, n))
    groups = as_groups(None, n)
    n_alive, n_kept = (norms > 0).sum(), ((norms > 0) & (group_weights == 0)).sum()
    ratios = np.divide(norms, group_weights, out=np.full(n, np.inf), where=group_weights > 0)
    ratios = np.sort(ratios[norms > 0])[::-1]
    for budget in range(n + 2):
        sigma = budget_strength(norms, budget, group_weights)
        assert survivors(norms, sigma, group_weights, groups) == max(min(budget, n_alive), n_kept)
        assert (sigma == 0) == (n_alive <= max(budget, n_kept))
        if n_kept < budget < n_alive:
            np.testing.assert_allclose(sigma, (ratios[budget - 1] + ratios[budget]) / 2, rtol=1e-14)
        solution = GroupLasso(None, sigma, group_weights).prox(norms)
        assert np.count_nonzero(solution) == max(min(budget, n_alive), n_kept)


def test_budget_between_neighbouring_numbers():
    for start in (1.0, 1.5, 3e-9, 1.9999999999999998):
        norms = [start]
        for _ in range(6):
            norms.append(np.nextafter(norms[-1], np.inf))
        groups = as_groups(None, 7)
        for budget in range(8):
            sigma = budget_strength(norms, budget)
            assert survivors(norms, sigma, np.ones(7), groups) == budget
            assert np.count_nonzero(GroupLasso(None, sigma).prox(norms)) == budget


def test_tied_groups_die_together():
    groups = as_groups(None, 4)
    assert budget_strength([2.0, 1.0, 1.0, 1.0], 1) == 1.5
    sigma = budget_strength([2.0, 1.0, 1.0, 1.0], 2)
    assert sigma == 1.0 and survivors([2.0, 1.0, 1.0, 1.0], sigma, np.ones(4), groups) == 1
    assert budget_strength([0.0, 0.0], 1) == 0.0


@pytest.mark.parametrize("write_factors", [group_budget_factors, disjoint_budget_factors])
def test_ties_go_to_the_first_groups_but_never_to_a_smaller_one(write_factors):
    n = 5000
    groups = as_groups(None, n)
    norms = np.ones(n)
    norms[-1] += 1e-6
    factors = np.empty(n)
    structure = groups.order, groups.group_indptr, groups.group_atoms, np.zeros(0, np.int64)
    write_factors(np.ones(n), *structure, 2, norms**2, factors)
    assert np.flatnonzero(factors).tolist() == [0, n - 1]


def test_sorting_by_norm_only_would_be_wrong():
    norms, group_weights = np.array([8.0, 6.0, 1.0, 0.25]), np.array([16.0, 16.0, 1.0, 1.0])
    paper = (norms[1] + norms[2]) / 2
    groups = as_groups(None, 4)
    assert survivors(norms, paper, group_weights, groups) == 0
    assert survivors(norms, budget_strength(norms, 2, group_weights), group_weights, groups) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_budget_of_any_groups(kind, seed):
    _, spec, groups, group_weights, weights = random_problem(kind, seed)
    norms = groups.atom_norms(weights)
    columns = naive.columns_of(groups)
    in_order, d = [columns[g] for g in groups.order], group_weights[groups.order]
    high = 1.01 * (groups.norms(weights)[group_weights > 0] / group_weights[group_weights > 0]).max(initial=0.0)
    grid = np.linspace(0.0, high, 400)
    counts = np.array([naive.count_alive(naive.shrink_in_order(weights, in_order, s * d), columns) for s in grid])
    assert (np.diff(counts) <= 0).all()
    for budget in range(groups.n_groups + 1):
        sigma = budget_strength(norms, budget, group_weights, groups)
        count = survivors(norms, sigma, group_weights, groups)
        penalty = GroupLasso(spec, sigma, group_weights, method="families")
        assert naive.count_alive(penalty.prox(weights), columns) == count
        if counts[-1] > budget:
            # Groups of weight 0.
            assert count == counts[-1]
        else:
            assert count <= budget
            # As many as possible: no strength leaves a number that is nearer to the budget.
            assert not ((counts > count) & (counts <= budget)).any()
            if kind == "partition":
                assert count == min(budget, groups.n_groups)


def test_halving_agrees_with_selection():
    # One more group that is never shrunk and contains everything: the rule for overlaps, one survivor more.
    rng = np.random.default_rng(0)
    norms = np.abs(rng.normal(size=12))
    group_weights = rng.uniform(0.5, 2, 12)
    groups = as_groups([[i] for i in range(12)] + [list(range(12))], 12)
    assert not groups.is_partition
    for budget in range(1, 12):
        sigma = budget_strength(norms, budget + 1, np.append(group_weights, 0.0), groups)
        np.testing.assert_allclose(sigma, budget_strength(norms, budget, group_weights), rtol=1e-14)


def test_selection_of_many():
    rng = np.random.default_rng(0)
    for norms in (np.arange(1.0, 20001.0), np.arange(20000.0, 0.0, -1.0), rng.permutation(20000) + 1.0):
        for budget in (1, 7000, 19999):
            assert budget_strength(norms, budget) == 20000.5 - budget


def test_names_of_groups_of_features():
    pd = pytest.importorskip("pandas")
    names = ["b", "a", "b", "c"]
    for groups in (names, tuple(names), np.array(names), pd.Series(names), pd.Index(names)):
        for found in (as_groups(groups), as_groups(groups, 4), as_groups(groups, 4, feature_names=list("wxyz"))):
            assert list(found.names) == ["b", "a", "c"] and found.atom_of.tolist() == [0, 1, 0, 2]
    # Different names of columns are one group each.
    assert as_groups(["y", "x"], 2, feature_names=["x", "y"]).atom_of.tolist() == [1, 0]
    with pytest.raises(ValueError, match="groups has 3 entries for 4 features"):
        as_groups(["a", "b", "a"], 4)


def test_the_gap_of_overlapping_groups_is_its_definition():
    rng = np.random.default_rng(0)
    indptr = np.array([0, 2, 5, 6])
    atoms = np.array([0, 1, 1, 2, 3, 3])
    gap_of = interpreted(gap_of_overlapping)
    for _ in range(50):
        x = np.where(rng.random(4) < 0.3, 0.0, rng.random(4))
        weights = rng.random(3)
        strength = rng.random()
        # Dual vectors on the surfaces of their balls, far inside and outside of them.
        duals = rng.normal(size=6)
        expected = 0.0
        for g, factor in enumerate(rng.choice([1.0, 0.5, 1.5], 3)):
            own = slice(indptr[g], indptr[g + 1])
            radius = strength * weights[g]
            duals[own] *= factor * radius / np.linalg.norm(duals[own])
            part = x[atoms[own]]
            expected += radius * np.linalg.norm(part) - part @ duals[own]
        moved = rng.random()
        found = gap_of(x, moved, duals, strength, weights, indptr, atoms)
        assert found == pytest.approx(expected + 0.5 * moved**2, abs=1e-12)
