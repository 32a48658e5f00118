"""The parser of second order: features of triples, its factor graph against all trees, and learning."""

import pickle
from functools import partial

import naive
import numpy as np
import pytest
from internals import ROUGH, as_graph_problems, gold_parts, graph_losses
from naive_arcs import naive_grandparents, naive_siblings, naive_sides
from scipy import sparse
from sklearn.base import clone

from sklearn_sparsemap import StructuredSparseMAPClassifier, lp_sparsemap, map_inference
from sklearn_sparsemap.factors import AtMost, FactorGraph, StructureFactor, second_order_tree
from sklearn_sparsemap.features import (
    ArcVectorizer,
    GrandparentTemplate,
    GrandparentVectorizer,
    SiblingTemplate,
    SiblingVectorizer,
    grandparent_templates,
    sibling_templates,
)
from sklearn_sparsemap.inspection import explain
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.structures import DependencyTree, HeadAutomaton

TEMPLATES = [*sibling_templates(fine_pos="xpos"), "sib.pos[-1]|mod.pos[+1]|distance", "direction"]
OF_GRANDPARENTS = [*grandparent_templates(fine_pos="xpos"), "grand.pos[-1]|mod.pos[+1]|distance", "direction"]
KINDS = {
    "siblings": (SiblingVectorizer, SiblingTemplate, TEMPLATES, naive_siblings),
    "grandparents": (GrandparentVectorizer, GrandparentTemplate, OF_GRANDPARENTS, naive_grandparents),
}
BOTH = pytest.mark.parametrize("names", [("siblings",), ("siblings", "grandparents"), ("grandparents",)])


def make_sentences(rng, n_sentences, most=6):
    def token():
        return {name: f"{name}{rng.integers(k)}" for name, k in (("word", 5), ("pos", 3), ("xpos", 4))}

    return [[token() for _ in range(rng.integers(1, most + 1))] for _ in range(n_sentences)]


def table_shapes(n):
    """Return the shapes of the scores of each automaton, by name."""
    sides = naive_sides(n)
    return {
        "siblings": [(len(side) + 1, len(side) + 1) for _, side in sides],
        "grandparents": [(n, len(side)) for head, side in sides if head > 0],
    }


def n_scores(n, name="siblings"):
    return sum(rows * columns for rows, columns in table_shapes(n)[name])


def sibling_score(heads, tables):
    """Return the sum of the scores of consecutive siblings of a tree; one table for each side of a head."""
    total, (n,) = 0.0, np.shape(heads)
    for (h, side), table in zip(naive_sides(n), tables, strict=True):
        before = 0
        for j, word in enumerate(side):
            if heads[word - 1] == h:
                total += table[before, j]
                before = j + 1
        total += table[before, len(side)]
    return total


def grandparent_score(heads, tables):
    """Return the sum of the scores of modifiers and heads of their heads; one table for each side of a word."""
    total, (n,) = 0.0, np.shape(heads)
    sides = [(h, side) for h, side in naive_sides(n) if h > 0]
    for (h, side), table in zip(sides, tables, strict=True):
        candidates = [g for g in range(n + 1) if g != h]
        for j, word in enumerate(side):
            if heads[word - 1] == h:
                total += table[candidates.index(heads[h - 1]), j]
    return total


SCORE = {"siblings": sibling_score, "grandparents": grandparent_score}


def second_order_score(heads, tables):
    return sum(SCORE[name](heads, own) for name, own in tables.items())


def random_problem(rng, n, n_features=None, names=("siblings",)):
    """Return arc scores, tables by name, and a graph whose scores are the tables, as products of features."""
    tables, features, weights = {}, {}, {}
    for name in names:
        shapes = table_shapes(n)[name]
        values = rng.normal(size=n_scores(n, name))
        if n_features is None:
            features[name], weights[name] = sparse.diags_array(values).tocsr(), np.ones(len(values))
        else:
            features[name], weights[name] = rng.normal(size=(len(values), n_features)), rng.normal(size=n_features)
            values = features[name] @ weights[name]
        ends = np.cumsum([rows * columns for rows, columns in shapes])[:-1]
        tables[name] = [own.reshape(shape) for own, shape in zip(np.split(values, ends), shapes)]
    graph = second_order_tree(np.zeros(((n + 1) * n, 1)), **features)
    scores = 2.0 * rng.normal(size=(n + 1, n))
    return scores, tables, graph, {"heads": weights}


def best_by_enumeration(scores, tables):
    trees, _, theta = naive.enumerate_trees(scores, single_root=True)
    totals = theta + [second_order_score(heads, tables) for heads in trees]
    return trees[int(np.argmax(totals))], totals.max()


# --- Features


@pytest.mark.parametrize("name", KINDS)
def test_features_are_those_of_the_twin(name):
    vectorizer, template_kind, texts, naive_rows = KINDS[name]
    rng = np.random.default_rng(0)
    sentences = make_sentences(rng, 14, most=13)
    rows = vectorizer(texts, n_features=2**24).transform(sentences)
    templates = [template_kind.parse(t) if isinstance(t, str) else t for t in texts]
    column_of, n_names = {}, 0
    for sentence, own in zip(sentences, rows, strict=True):
        expected = naive_rows(sentence, templates)
        assert own.shape[0] == len(expected) == n_scores(len(sentence), name)
        for names, start, stop in zip(expected, own.indptr[:-1], own.indptr[1:], strict=True):
            columns = own.indices[start:stop].tolist()
            assert len(columns) == len(names)
            # One column for each name, in the columns of its template.
            by_template = {one.partition("=")[0]: one for one in names}
            for template, column in zip(templates, columns, strict=bool(names)):
                one = by_template[str(template)]
                assert column_of.setdefault(one, column) == column
            n_names += len(names)
    assert len(column_of) > 2000 and len(set(column_of.values())) > 0.99 * len(column_of)
    assert n_names > 20_000


@pytest.mark.parametrize("name", KINDS)
def test_features_do_not_depend_on_threads_or_batches(name):
    vectorizer, sentences = KINDS[name][0], make_sentences(np.random.default_rng(1), 12)
    together = vectorizer(n_jobs=2).transform(sentences)
    for sentence, own in zip(sentences, together, strict=True):
        alone = vectorizer(dtype=np.float32).transform([sentence])[0]
        assert (own != alone).nnz == 0 and alone.dtype == np.float32


@pytest.mark.parametrize("text", ["between.pos", "head.pos", "sib", "direction|direction", ""])
def test_templates_that_are_none(text):
    for kind in (SiblingTemplate, GrandparentTemplate):
        with pytest.raises(ValueError):
            kind.parse(text)
    with pytest.raises(ValueError, match="grandparent template"):
        GrandparentTemplate.parse("sib.pos[0]")


# --- The factor graph


@BOTH
@pytest.mark.parametrize("n_features", [None, 3])
def test_the_best_tree_is_that_of_the_enumeration(draws, n_features, names):
    rng, integral = np.random.default_rng(2), 0
    for i in range(draws(72)):
        scores, tables, graph, weights = random_problem(rng, 1 + i % 4, n_features, names)
        tree, value = best_by_enumeration(scores, tables)
        found = map_inference(graph, scores, additional=weights)
        assert found.value == pytest.approx(value, abs=1e-6)
        assert found.structure.argmax(axis=0).tolist() == list(tree)
        assert found.bound >= value - 1e-6
        integral += found.integral
    assert integral >= 36


@BOTH
def test_the_relaxation_bounds_all_mixtures_of_trees_and_is_certified(draws, names):
    rng, integral = np.random.default_rng(3), 0
    for i in range(draws(40)):
        scores, tables, graph, weights = random_problem(rng, 1 + i % 4, names=names)
        result = lp_sparsemap(graph, scores, additional=weights)
        assert result.converged and abs(result.gap) < 1e-5
        trees, M, theta = naive.enumerate_trees(scores, single_root=True)
        theta = theta + [second_order_score(heads, tables) for heads in trees]
        u, _ = naive.solve_qp(M, theta)
        # Marginals of trees are marginals of the factors, so that the relaxation has at least the value of SparseMAP.
        best_tree = int(np.argmax(theta))
        assert result.objective >= theta[best_tree] - 0.5 * len(trees[0]) - 1e-6
        if result.integral:
            integral += 1
            np.testing.assert_allclose(result.marginals.ravel(), u, atol=1e-5)
    assert integral >= 10


@BOTH
def test_derivatives_reach_the_weights_of_features(names):
    rng, compared = np.random.default_rng(4), 0
    for i in range(20):
        scores, _, graph, weights = random_problem(rng, 2 + i % 3, n_features=3, names=names)
        v, direction = rng.normal(size=scores.shape), {name: rng.normal(size=3) for name in names}

        def marginals_at(step):
            moved = {"heads": {name: weights["heads"][name] + step * direction[name] for name in names}}
            return lp_sparsemap(graph, scores, additional=moved, tol=1e-9).marginals

        result = lp_sparsemap(graph, scores, additional=weights, tol=1e-9)
        ahead, behind = (marginals_at(1e-4) - result.marginals) / 1e-4, (result.marginals - marginals_at(-1e-4)) / 1e-4
        if np.abs(ahead - behind).max() > 1e-3:
            continue  # a kink
        compared += 1
        expected, found = (v * (ahead + behind) / 2).sum(), result.vjp(v)["additional"]["heads"]
        assert sum(found[name] @ direction[name] for name in names) == pytest.approx(expected, abs=1e-3)
    assert compared >= 10


@BOTH
@pytest.mark.parametrize("name", ["sparsemap", "margin_sparsemap", "hinge", "perceptron"])
def test_losses_have_the_gradient_they_say(name, names):
    rng, compared = np.random.default_rng(5), 0
    for i in range(12):
        n = 2 + i % 3
        scores, _, graph, weights = random_problem(rng, n, n_features=3, names=names)
        gold = np.array(naive.all_trees(n, False, True)[i % 2])
        problems, _ = as_graph_problems(graph, scores, weights)
        u, joint = gold_parts(graph, problems.layout, gold)
        dw, ds = {one: rng.normal(size=3) for one in names}, rng.normal(size=scores.shape)

        def loss_at(step):
            moved = {"heads": {one: weights["heads"][one] + step * dw[one] for one in names}}
            own, _ = as_graph_problems(graph, scores + step * ds, moved)
            return graph_losses(name, 1.0, own, (u[None], joint[None]))[0][0]

        losses, du, dv, inexact = graph_losses(name, 1.0, problems, (u[None], joint[None]))
        assert not inexact.any()
        step = 1e-5
        ahead, behind = (loss_at(step) - losses[0]) / step, (losses[0] - loss_at(-step)) / step
        if abs(ahead - behind) > 1e-3:
            continue  # a kink
        compared += 1
        slope = (du[0] * ds.ravel()).sum() + problems.layout.summed(dv[0]) @ np.concatenate(list(dw.values()))
        assert slope == pytest.approx((ahead + behind) / 2, abs=1e-3)
        rough = graph_losses(name, 1.0, problems, (u[None], joint[None]), accuracy=ROUGH)
        assert rough[0][0] == pytest.approx(losses[0], abs=0.05 * (1.0 + losses[0]))
    assert compared >= 8


@BOTH
def test_gold_trees_have_the_scores_of_the_twin(names):
    rng = np.random.default_rng(6)
    for n in (1, 2, 3, 4):
        scores, tables, graph, weights = random_problem(rng, n, names=names)
        layout = as_graph_problems(graph, scores, weights)[0].layout
        for heads in naive.all_trees(n, False, True):
            u, joint = gold_parts(graph, layout, np.array(heads))
            assert u.reshape(n + 1, n).argmax(axis=0).tolist() == list(heads)
            counted = layout.summed(joint) @ np.concatenate(list(weights["heads"].values()))
            assert counted == pytest.approx(second_order_score(heads, tables))
            assert np.array_equal(layout.shape_assignment(u > 0.5), heads)


def test_samples_of_one_length_are_solved_together_and_alike():
    rng = np.random.default_rng(7)
    arcs = rng.normal(size=(4, 12, 5))
    siblings = [rng.normal(size=(n_scores(3), 4)) for _ in range(4)]
    graphs = [second_order_tree(*sample) for sample in zip(arcs, siblings, strict=True)]
    layouts = [graph.layout({"heads": {"siblings": (4,)}}) for graph in graphs]
    assert len({id(layout.arrays) for layout in layouts}) == 1
    w = rng.normal(size=4)
    for layout, own in zip(layouts, siblings, strict=True):
        assert np.allclose(layout.expanded(w), own @ w)
        assert np.allclose(pickle.loads(pickle.dumps(layout)).expanded(w), own @ w)


# --- Learning


def make_treebank(rng, n_sentences, name="siblings"):
    """Return sentences and trees in which pairs of words differ in their tags, and arcs are short.

    The pairs are consecutive siblings, or modifiers and the heads of their heads.
    """
    sentences, trees = [], []
    for _ in range(n_sentences):
        n = int(rng.integers(2, 6))
        tags = ["", *rng.choice(["A", "B", "C"], size=n)]
        tables = [np.zeros(shape) for shape in table_shapes(n)[name]]
        sides = [(h, side) for h, side in naive_sides(n) if h > 0 or name == "siblings"]
        for (h, side), table in zip(sides, tables, strict=True):
            others = [0, *side] if name == "siblings" else [g for g in range(n + 1) if g != h]
            for i in range(table.shape[0]):
                for j in range(len(side)):
                    if others[i] > 0:
                        table[i, j] = 2.0 if tags[others[i]] != tags[side[j]] else -2.0
        way = np.arange(1, n + 1) - np.arange(n + 1)[:, None]
        scores = -0.3 * np.abs(way) - 0.11 * (way > 0)
        trees.append(np.array(best_by_enumeration(scores, {name: tables})[0]))
        sentences.append([{"word": tag, "pos": tag} for tag in tags[1:]])
    return sentences, trees


def features(sentences, name="siblings"):
    arcs = ArcVectorizer(["head.pos[0]|mod.pos[0]|direction|distance"], n_features=2**10).transform(sentences)
    siblings = SiblingVectorizer(["sib.pos[0]|mod.pos[0]|direction", "direction"], n_features=2**8).transform(sentences)
    if name == "siblings":
        return list(zip(arcs, siblings, strict=True))
    grandparents = GrandparentVectorizer(["grand.pos[0]|mod.pos[0]", "direction"], n_features=2**8).transform(sentences)
    return list(zip(arcs, siblings, grandparents, strict=True))


@pytest.mark.parametrize(
    "loss, name",
    [(loss, "siblings") for loss in ("sparsemap", "margin_sparsemap", "hinge", "perceptron")]
    + [(loss, "grandparents") for loss in ("sparsemap", "hinge")],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pairs_that_differ_are_learned(loss, name):
    rng = np.random.default_rng(8)
    sentences, trees = make_treebank(rng, 52, name)
    train, test = slice(0, 40), slice(40, 52)
    options = {"loss": loss, "alpha": 1e-4, "solver": "adagrad", "max_iter": 8, "random_state": 0}
    X = features(sentences, name)
    second = StructuredSparseMAPClassifier(second_order_tree, **options).fit(X[train], trees[train])
    fewer = [sample[:-1] for sample in X] if name == "grandparents" else [sample[0] for sample in X]
    structure = second_order_tree if name == "grandparents" else DependencyTree(single_root=True)
    first = StructuredSparseMAPClassifier(structure, **options).fit(fewer[train], trees[train])
    assert second.score(X[train], trees[train]) > first.score(fewer[train], trees[train]) + 0.03
    found = second.predict(X[test])
    right = np.concatenate([tree == own for tree, own in zip(trees[test], found, strict=True)])
    assert second.score(X[test], trees[test]) == pytest.approx(right.mean())
    dims = [DependencyTree(single_root=True).dims((len(t) + 1, len(t)), {}) for t in found]
    for tree, own in zip(found, dims, strict=True):
        DependencyTree(single_root=True).encode(tree, np.array(own))
    assert second.additional_scores_["heads"][name].shape == (2**8,)
    assert second.predict_marginals(X[test])[0].shape == (len(trees[40]) + 1, len(trees[40]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_model_is_the_same_for_all_threads_and_copies():
    sentences, trees = make_treebank(np.random.default_rng(9), 16)
    X = features(sentences, "grandparents")
    model = StructuredSparseMAPClassifier(second_order_tree, solver="adagrad", max_iter=3, random_state=0).fit(X, trees)
    other = clone(model).set_params(n_jobs=2).fit(X, trees)
    assert np.array_equal(model.coef_, other.coef_)
    for name in KINDS:
        assert np.array_equal(model.additional_scores_["heads"][name], other.additional_scores_["heads"][name])
    again = pickle.loads(pickle.dumps(model))
    assert all(map(np.array_equal, model.predict(X), again.predict(X)))
    stream = clone(model).set_params(n_jobs=None)
    for start in range(0, 16, 4):
        stream.partial_fit(X[start : start + 4], trees[start : start + 4])
    assert stream.score(X, trees) > 0.4


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_trees():
    sentences, trees = make_treebank(np.random.default_rng(10), 8)
    function = partial(second_order_tree, tree=DependencyTree(projective=True))
    model = StructuredSparseMAPClassifier(function, solver="adagrad", max_iter=2).fit(features(sentences), trees)
    assert len(model.predict(features(sentences))) == 8


def test_bad_samples_are_named():
    sentences, trees = make_treebank(np.random.default_rng(11), 3)
    X, model = features(sentences), StructuredSparseMAPClassifier(second_order_tree, solver="adagrad", max_iter=1)
    for i, wrong, message in (
        (1, (X[1][0][:-1], X[1][1]), r"X\[1\]: arcs of a sentence"),
        (2, (X[2][0], X[2][1][:-1]), r"X\[2\]: features\['heads'\]\['siblings'\] has .* rows"),
        (1, (*X[1], X[1][1]), r"X\[1\]: features\['heads'\]\['grandparents'\] has .* rows"),
        (2, (X[2][0], X[2][1] * np.nan), r"X\[2\]: .* NaN"),
        (1, (X[1][0], X[1][1][:, :-1]), r"X\[1\]: .*shape"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit([*X[:i], wrong, *X[i + 1 :]], trees)
    with pytest.raises(ValueError, match=r"y\[1\]: these heads form a cycle"):
        model.fit(X, [trees[0], np.roll(np.arange(1, len(trees[1]) + 1), 1), trees[2]])


def test_features_and_structured_arrays_that_do_not_fit():
    graph = FactorGraph()
    u = graph.structured(DependencyTree(), (4, 3), name="tree")
    graph.add(StructureFactor(HeadAutomaton(), u[0], name="head"))
    with pytest.raises(ValueError, match="no structure factors named 'tail'"):
        graph.with_features({"tail": {"siblings": np.zeros((16, 2))}})
    with pytest.raises(ValueError, match="additional scores 'cousins'"):
        graph.with_features({"head": {"cousins": np.zeros((16, 2))}})
    own = graph.with_features({"head": {"siblings": np.zeros((16, 2))}})
    with pytest.raises(ValueError, match="there are 2 features"):
        lp_sparsemap(own, np.zeros((4, 3)), additional={"head": {"siblings": np.zeros(3)}})
    with pytest.raises(ValueError, match="weights of 2 features"):
        own.layout({"head": {"siblings": (4, 4)}})
    with pytest.raises(ValueError, match="the graph without features"):
        own.add(AtMost(u[0], 1))
    with pytest.raises(ValueError, match=r"accepts shapes .*; got 'siblings': \(3, 3\)"):
        StructureFactor(HeadAutomaton(), u[0], name="head", shapes={"siblings": (3, 3)})
    with pytest.raises(ValueError, match="tree over n words"):
        FactorGraph().structured(DependencyTree(), (3, 3))


def test_gold_in_the_form_of_the_structure_is_that_of_its_variables():
    graph = FactorGraph()
    u = graph.structured(DependencyTree(), (4, 3))
    graph.add(AtMost(u[0], 1))
    scores, loss = np.random.default_rng(12).normal(size=(4, 3)), FenchelYoungLoss(graph)
    heads = np.array([0, 1, 2])
    mask = np.arange(4)[:, None] == heads
    assert loss.loss_gradient(scores, heads)[0] == loss.loss_gradient(scores, mask)[0]
    with pytest.raises(ValueError, match="cycle"):
        loss.loss_gradient(scores, [2, 1, 0])
    with pytest.raises(ValueError, match="violates"):
        loss.loss_gradient(scores, [0, 0, 0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rounding_keeps_to_the_other_factors():
    """Trees of which the root has at most one modifier, by a budget: rounded trees may violate it, predictions not."""

    def graph_of(x):
        n = (int(np.sqrt(4 * len(x) + 1)) - 1) // 2
        graph = FactorGraph()
        u = graph.structured(DependencyTree(), (n + 1, n))
        graph.add(*[AtMost(row, 1) for row in u])
        return graph

    rng = np.random.default_rng(13)
    X = [rng.normal(size=(12, 3)) for _ in range(40)]
    y = [np.array([0, 1, 2])] * 40
    model = StructuredSparseMAPClassifier(graph_of, solver="adagrad", max_iter=2).fit(X, y)
    for heads in model.predict(X):
        assert np.bincount(heads).max() == 1


def test_known_heads_and_explanations_of_parsers():
    rng = np.random.default_rng(5)
    sentences = [s for s in make_sentences(rng, 14, most=4) if len(s) > 1]
    heads = [np.arange(len(s)) for s in sentences]
    arcs, siblings = ArcVectorizer(["head.pos[0]|mod.pos[0]"]), SiblingVectorizer(TEMPLATES, n_features=256)
    X = list(zip(arcs.fit_transform(sentences), siblings.fit_transform(sentences)))
    model = StructuredSparseMAPClassifier(second_order_tree, loss="hinge", max_iter=3, tol=0.0, random_state=0)
    with pytest.warns(Warning, match="max_iter|converge"):
        model.fit(X, heads)
    compared = 0
    for x, own in zip(X, heads):
        known = [None] * len(own)
        known[0] = 2
        (found,) = model.predict([x], known=[known])
        assert found[0] == 2
        (best,) = model.predict_n_best([x], 2)
        why = explain(model, x)
        assert why.score_difference == pytest.approx(best[0][1] - best[1][1], abs=1e-6)
        assert why.contributions.sum() == pytest.approx(why.score_difference, abs=1e-6)
        compared += 1
    assert compared > 5
    with pytest.raises(ValueError, match=r"known\[0\]: "):
        model.predict(X[:1], known=[[99] * len(heads[0])])
