"""Rules with names, the same for label sets and for factor graphs."""

import pickle
import warnings
from itertools import pairwise, product

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import MultilabelLPSparseMAP, lp_sparsemap, map_inference
from sklearn_sparsemap.factors import (
    AndOut,
    AtLeast,
    AtMost,
    AtMostOne,
    Budget,
    Exactly,
    Exclusive,
    FactorGraph,
    Iff,
    Implies,
    Imply,
    Knapsack,
    Label,
    Or,
    OrOut,
    Pair,
    StructureFactor,
    WeightedSum,
    Xor,
    XorOut,
)
from sklearn_sparsemap.structures import LinearChain, Matching

RULES = [
    (lambda u: AtMost(u, 2), lambda v: sum(v) <= 2),
    (lambda u: AtMost([u[0], ~u[1], u[2]], 1), lambda v: v[0] + (1 - v[1]) + v[2] <= 1),
    (lambda u: AtLeast(u, 3), lambda v: sum(v) >= 3),
    (lambda u: Exactly(u, 2, name="two"), lambda v: sum(v) == 2),
    (lambda u: Exclusive(u[1:]), lambda v: sum(v[1:]) <= 1),
    (lambda u: Implies(u[0], u[1]), lambda v: not v[0] or v[1]),
    (lambda u: Implies([u[0], ~u[1]], u[2]), lambda v: not (v[0] and not v[1]) or v[2]),
    (lambda u: Implies(u[:3], ~u[3]), lambda v: not all(v[:3]) or not v[3]),
]


@pytest.mark.parametrize("rule, holds", RULES)
def test_rules_of_variables(rule, holds):
    rng = np.random.default_rng(0)
    graph = FactorGraph()
    u = graph.variables(4)
    graph.add(rule(u))
    allowed = np.array([v for v in product((0, 1), repeat=4) if holds(v)])
    for _ in range(20):
        scores = rng.normal(size=4) * 3
        best = map_inference(graph, scores)
        assert holds(best.structure.tolist()) and best.value == pytest.approx((allowed @ scores).max())
    assert type(rule(u)).__name__ in repr(graph.factors[0])


def test_one_naming_for_both_worlds():
    rng = np.random.default_rng(0)
    pairs = [
        (lambda u: Budget(u, 2), lambda u: AtMost(u, 2)),
        (lambda u: Or(u), lambda u: AtLeast(u, 1)),
        (lambda u: Xor(u), lambda u: Exactly(u, 1)),
        (lambda u: AtMostOne(u), lambda u: Exclusive(u)),
        (lambda u: Imply(u), lambda u: Implies(u[:-1], u[-1])),
    ]
    for factor, rule in pairs:
        scores, found = rng.normal(size=(3, 4)), []
        for make in (factor, rule):
            graph = FactorGraph()
            graph.add(make(graph.variables(4)))
            found.append([r.marginals for r in lp_sparsemap(graph, list(scores))])
        assert np.allclose(*found, atol=1e-7)


def test_every_factor_has_a_name_and_errors_list_all():
    graph = FactorGraph()
    u = graph.variables((3, 2), name="jobs")
    for job in u:
        graph.add(Xor(job, name="every job has a worker"))
    for worker in u.T:
        graph.add(AtMost(worker, 1, name="a worker has one job"))
    with pytest.raises(ValueError) as raised:
        lp_sparsemap(graph, np.zeros((3, 2)))
    message = str(raised.value)
    assert message.count("Exactly(") == 3 and message.count("AtMost(") == 2
    assert "'every job has a worker' (Exactly([jobs[" in message and "'a worker has one job' (AtMost([jobs[" in message
    assert pickle.loads(pickle.dumps(graph)).factors[0].name == "every job has a worker"
    many = FactorGraph()
    v = many.variables(6)
    # The last one is satisfied by the contradiction of the others, so it is not named.
    many.add(*(Imply([v[i], v[i + 1]]) for i in range(5)), Exactly([v[0]], 1), Exactly([v[5]], 0), Or([v[0], ~v[5]]))
    with pytest.raises(ValueError, match="contradict") as raised:
        lp_sparsemap(many, np.zeros(6))
    message = str(raised.value)
    assert message.count("Implies(") == 5 and message.count("Exactly(") == 2 and "Or(" not in message
    assert " more." not in message
    w = FactorGraph().variables(3)
    for kind in (Xor, AtMostOne, Or, Imply, XorOut, OrOut, AndOut):
        assert kind(w, name="rule").name == "rule" and "name='rule'" in repr(kind(w, name="rule"))
    assert Budget(w, 1, name="b").name == "b" and Knapsack(w, [1, 1, 1], 2.0, name="k").name == "k"
    for wrong in ("", 3):
        with pytest.raises(ValueError, match="Exactly needs a name, a str"):
            Xor(w, name=wrong)


def test_add_names_conditions_and_factors_without_a_name():
    graph = FactorGraph()
    u = graph.variables(6, name="slot")
    rule = Exactly(u, 4)
    graph.add(rule, name="four slots")
    graph.add(u[:-1] >> ~u[1:], name="gap")
    graph.add(Iff(u[0], u[5]), (u[1] & u[2]) >> u[3], XorOut(u[:3]), name="more")
    graph.add(u[0], name="the first")
    graph.add(u[1] | u[5])
    assert [f.name for f in graph.factors] == ["four slots"] + ["gap"] * 5 + ["more"] * 4 + ["the first", None]
    assert rule.name == "four slots" and rule is graph.factors[0]
    broken = graph.violations([0, 1, 1, 0, 0, 0])
    assert [f.name for f in broken] == ["four slots", "gap", "more", "the first"]
    # Errors of inference name them, too; four of six slots always touch.
    with pytest.raises(ValueError, match=r"contradict each other: .*'gap' "):
        map_inference(graph, np.zeros(6))
    assert "gap" in graph._repr_html_()
    # A name changes nothing else.
    plain = FactorGraph()
    v = plain.variables(6)
    plain.add(Exactly(v, 3), v[:-1] >> ~v[1:])
    with_names = FactorGraph()
    v = with_names.variables(6)
    with_names.add(Exactly(v, 3), v[:-1] >> ~v[1:], name="rule")
    scores = [1.0, 0.8, -0.2, 0.3, 0.6, 0.5]
    assert np.array_equal(*(lp_sparsemap(g, scores).marginals for g in (plain, with_names)))


def test_add_names_scores_of_structures():
    graph = FactorGraph()
    u = graph.variables((2, 2, 2))
    for chain in u:
        graph.add(StructureFactor(LinearChain(), chain), name="chain")
    assert [f.name for f in graph.scored] == ["chain", "chain"]
    additional = {"chain": {"transitions": [[0.0, 5.0], [0.0, 0.0]]}}
    assert map_inference(graph, np.zeros((2, 2, 2)), additional=additional).value == 10.0
    with pytest.raises(ValueError, match="there is a factor named 'chain' already, which has other scores"):
        graph.add(StructureFactor(Matching(), u[0]), name="chain")


def test_add_refuses_a_second_name():
    graph = FactorGraph()
    u = graph.variables(4)
    unnamed = Exactly(u, 2)
    for named in (AtMost(u, 3, name="own"), Pair(u[:-1], u[1:], name="own", tied=True)):
        with pytest.raises(ValueError, match=r"add got name='all', but \w+\(.*name='own'.* has a name already"):
            graph.add(unnamed, u[0] | u[1], named, name="all")
    for wrong in ("", 3):
        with pytest.raises(ValueError, match="add needs a name, a str that is not empty; got"):
            graph.add(unnamed, name=wrong)
    assert graph.factors == [] and unnamed.name is None
    with pytest.raises(ValueError, match=r"Iff of variables has no name; write graph.add\(Iff\(a, b\), name='same'\)"):
        Iff(u[0], u[1], name="same")


def test_names_of_rules_and_of_scores_do_not_mix():
    graph = FactorGraph()
    u = graph.variables(3)
    graph.add(Xor(u, name="p"), Pair(u[:-1], u[1:], name="p"))
    plain = FactorGraph()
    v = plain.variables(3)
    plain.add(Xor(v), Pair(v[:-1], v[1:], name="p"))
    found = [lp_sparsemap(g, [1.0, 0.5, 0.2], additional={"p": 0.3}).marginals for g in (graph, plain)]
    assert np.array_equal(*found)
    only = FactorGraph()
    only.add(Xor(only.variables(2), name="rule"))
    with pytest.raises(ValueError, match="names 'rule', but the named factors are"):
        lp_sparsemap(only, [0.0, 0.0], additional={"rule": 1.0})


def test_rules_of_labels_negate_and_have_several_causes():
    names = ["rain", "umbrella", "wet", "dry"]
    rules = [
        Implies(["rain", ~Label("umbrella")], "wet", name="rain wets"),
        AtMost([~Label("rain"), "wet"], 1),
        Implies(~0, Label(3)),
        Exactly(["wet", "dry"], 1),
    ]

    def holds(y):
        rain, umbrella, wet, dry = y
        first = not (rain and not umbrella) or wet
        return first and (not rain) + wet <= 1 and (rain or dry) and wet + dry == 1

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = np.array([v for v in product((0, 1), repeat=4) if holds(v)])[rng.integers(3, size=60)]
    model = MultilabelLPSparseMAP(constraints=rules, label_graph=None, max_iter=3, random_state=0, decision="map")
    with warnings.catch_warnings():
        # Three epochs are few.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, Y, classes=names)
    assert all(map(holds, model.predict(3 * rng.normal(size=(50, 3))).tolist()))
    # A label may have a negative number for its name.
    indices, signs, _, _ = Exclusive([-1, -2]).resolve([-1, 5, 7])
    assert indices.tolist() == [0, 1] and signs.tolist() == [1.0, -1.0]
    assert repr(rules[0]) == "Implies(['rain', ~'umbrella'], 'wet', name='rain wets')"
    assert repr(Label(np.str_("a"))) == "'a'" and AtMost([Label(np.str_("a"))], 1) == AtMost([Label("a")], 1)
    assert Label("a") == ~~Label("a") and len({Label("a"), ~Label("a"), Label("a")}) == 2
    for rule, message in (
        (Implies(["rain", ~Label("rain")], "wet"), "names 'rain' twice"),
        (AtMost([~Label("snow")], 1), "names the label 'snow', which does not exist"),
        (AtMost([~9], 1), "names label -10, but there are 4 labels"),
        (AtMost(FactorGraph().variables(2), 1), "is about variables of a factor graph"),
    ):
        with pytest.raises(ValueError, match=message):
            rule.resolve(names)
    graph = FactorGraph()
    u = graph.variables(2)
    for rule, message in (
        (lambda: AtMost(["a"], 1), r"is about labels; in a factor graph pass variables, such as AtMost\(u\[0\], 2\)"),
        (lambda: AtLeast(u, 3), "asks for 3 of 2 variables"),
        (lambda: AtMost([u[0], "a"], 1), "AtMost takes variables of a graph"),
        (lambda: Implies([], u[0]), "Implies needs at least 2 variables or labels"),
        (lambda: Implies("a", ["b", "c"]), "Implies has one label that is implied; .*; add a rule for each"),
    ):
        with pytest.raises(ValueError, match=message):
            graph.add(rule())


def sum_of(weights, u, signs):
    """Return a weighted sum of variables, some of them negated, as products of arrays."""
    sums = [w @ v for w, v in ((weights[signs], ~u[signs]), (weights[~signs], u[~signs])) if len(w)]
    return sums[0] + sums[1] if len(sums) == 2 else sums[0]


def test_weighted_sums_equal_enumeration():
    rng, n_compared, n_refused = np.random.default_rng(1), 0, 0
    for _ in range(60):
        n = int(rng.integers(1, 6))
        graph = FactorGraph()
        u = graph.variables(n)
        weights, signs = rng.integers(-3, 4, size=n).astype(float), rng.random(n) < 0.3
        literals = [~u[i] if off else u[i] for i, off in enumerate(signs)]
        on = np.array(list(product((0, 1), repeat=n)))
        totals = np.where(signs, 1 - on, on) @ weights
        k = float(rng.integers(-6, 7))
        for kind, allowed in ((AtMost, totals <= k), (AtLeast, totals >= k), (Exactly, totals == k)):
            if not (totals.min() <= k or kind is AtLeast) or not (totals.max() >= k or kind is AtMost):
                with pytest.raises(ValueError, match=f"asks for {k:g}, but the sum is between {totals.min():g} and"):
                    kind(WeightedSum(weights, literals), k)
                n_refused += 1
                continue
            if not allowed.any():
                # Only fractions satisfy it.
                continue
            graph = FactorGraph()
            u = graph.variables(n)
            literals = [~u[i] if off else u[i] for i, off in enumerate(signs)]
            # Also in another unit, and as a sum of two.
            half = n // 2
            total = sum_of(weights, u, signs)
            if half:
                total = WeightedSum(weights[:half], literals[:half]) + WeightedSum(weights[half:], literals[half:])
            graph.add(kind(total, k), kind(sum_of(1e-5 * weights, u, signs), 1e-5 * k))
            scores = rng.normal(size=n)
            best = map_inference(graph, scores)
            assert best.value == pytest.approx((on[allowed] @ scores).max(), abs=1e-9)
            result = lp_sparsemap(graph, scores)
            found = np.where(signs, 1 - result.marginals, result.marginals) @ weights
            assert result.converged and (found <= k + 1e-6 or kind is AtLeast) and (found >= k - 1e-6 or kind is AtMost)
            n_compared += 1
    assert n_compared > 80 and n_refused > 20


CONDITIONS = [
    (lambda u: u[0] | u[1], lambda v: v[0] or v[1]),
    (lambda u: u[0] & ~u[1], lambda v: v[0] and not v[1]),
    (lambda u: u[0] >> u[1], lambda v: not v[0] or v[1]),
    (lambda u: (u[0] & u[1]) >> (u[2] | ~u[3]), lambda v: not (v[0] and v[1]) or v[2] or not v[3]),
    (lambda u: ~((u[0] | u[1]) & (u[2] | u[3])), lambda v: not ((v[0] or v[1]) and (v[2] or v[3]))),
    (lambda u: u[:3] >> ~u[1:], lambda v: not any(a and b for a, b in pairwise(v))),
    (lambda u: u[0] | u[2:], lambda v: v[0] or all(v[2:])),
    (lambda u: u[0] | u[0] | u[1], lambda v: v[0] or v[1]),
    (lambda u: (u[0] | ~u[0]) & u[3], lambda v: v[3]),
    (lambda u: Iff(u[0], u[1]), lambda v: v[0] == v[1]),
    (lambda u: Iff(u[0], u[1] & (u[2] | u[3])), lambda v: v[0] == (v[1] and (v[2] or v[3]))),
    (lambda u: Iff(u[:2], ~u[2:]), lambda v: v[0] != v[2] and v[1] != v[3]),
]


@pytest.mark.parametrize("condition, holds", CONDITIONS)
def test_conditions_hold_as_in_python(condition, holds):
    rng = np.random.default_rng(0)
    graph = FactorGraph()
    u = graph.variables(4)
    graph.add(condition(u))
    allowed = np.array([v for v in product((0, 1), repeat=4) if holds(v)])
    for _ in range(20):
        scores = rng.normal(size=4) * 3
        best = map_inference(graph, scores)
        assert holds(best.structure.tolist()) and best.value == pytest.approx((allowed @ scores).max())
    assert "Condition" in repr(condition(u))


def test_conditions_and_sums_that_cannot_be_are_named():
    u, v = FactorGraph().variables((2, 3)), FactorGraph().variables(3)
    long = u[0, 0] & u[0, 1]
    for _ in range(13):
        long = long & (u[0] | u[1])
    for make, message in [
        (lambda: u[0] | v, "mixes the variables of two graphs"),
        (lambda: u[0, 0] | 1, "join variables of a graph and conditions on them; got 1"),
        (lambda: list((u[0] | u[:, :2]).clauses()), r"shapes \(3,\), \(2, 2\), which do not broadcast"),
        (lambda: ~long, "the negation of the condition has more than 4096 clauses"),
        (lambda: [1.0, 2.0] @ u[0], r"shape \(2,\) for variables of shape \(3,\)"),
        (lambda: [1.0, np.nan, 2.0] @ u[0], "must be finite"),
        (lambda: [1.5, 1e12, 2.0] @ u[0], "differ by more than 1e"),
        (lambda: AtMost([5e-324] * 3 @ u[0], 1.0), "must be 0, or between 1e-250 and"),
        (lambda: [1e300, 1e300, 0.0] @ u[0], "must be 0, or between 1e-250 and"),
        (lambda: AtMost([1.0, 2.0, 3.0] @ u[0], "3"), "a weighted sum and then a number; got '3'"),
        (lambda: AtMost([1.0, 2.0, 3.0] @ u[0] + [1.0] @ u[0, :1], 2.0), r"u\[0, 0\] more than once"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match="no truth value"):
        bool(u[0] | u[1])
    on = FactorGraph()
    on.add(on.variables(2))
    assert map_inference(on, [-1.0, -2.0]).structure.tolist() == [True, True]
    assert repr([1.0, -2.0] @ on["u"]) == "WeightedSum([1.0, 2.0], [u[0], ~u[1]])"
    assert repr(Iff("a", "b")) == "Exactly(['a', ~'b'], 1)" and repr(Iff(0, 1)) == "Exactly([0, ~1], 1)"


def test_scores_of_each_array_are_given_or_declared_zero():
    graph = FactorGraph()
    u, v = graph.variables(2, name="first"), graph.variables(2, name="second")
    graph.add(u >> v)
    with pytest.raises(ValueError, match=r"scores has no 'second'; pass its scores, or 0.0 if all of them are zero"):
        lp_sparsemap(graph, {"first": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"scores\[1\] has no 'first'"):
        map_inference(graph, [{"first": [1.0, 2.0], "second": 0.0}, {"second": 1}])
    result = lp_sparsemap(graph, {"first": [1.0, 2.0], "second": 0.0})
    same = lp_sparsemap(graph, {"first": [1.0, 2.0], "second": [0.0, 0.0]})
    assert np.array_equal(result.marginals["second"], same.marginals["second"])
    assert np.array_equal(
        result.vjp({"second": 1.0})["scores"]["first"], same.vjp({"second": [1, 1]})["scores"]["first"]
    )
