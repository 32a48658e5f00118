"""Properties on examples that Hypothesis draws and, if one fails, shrinks.

``--hypothesis-profile=many`` tries many more examples, in another order each time.
"""

import string
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from naive_features import naive_feature_names
from naive_graphs import MEANING
from registry import Instance
from scipy import sparse
from scipy.optimize import nnls

from sklearn_sparsemap import RaggedArray, lp_sparsemap, map_inference, sparsemap
from sklearn_sparsemap.datasets import dump_conllu, load_conll, load_conllu, load_partition, save_partition
from sklearn_sparsemap.factors import FactorGraph
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.structures import (
    Alignment,
    DependencyTree,
    LinearChain,
    Matching,
    Ranking,
    Segmentation,
    Simplex,
    Subset,
)

# Quarters, which sums represent exactly and which tie often.
NUMBERS = st.integers(-16, 16).map(lambda k: k / 4)


def numbers(shape):
    return arrays(np.float64, shape, elements=NUMBERS)


@st.composite
def grids(draw, most=3):
    return draw(st.integers(1, most)), draw(st.integers(1, most))


@st.composite
def chains(draw):
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    shapes = {"transitions": draw(st.sampled_from([(m, m), (n - 1, m, m)])), "start": (m,), "end": (m,)}
    given_names = draw(st.sets(st.sampled_from(sorted(shapes))))
    return LinearChain(), (n, m), {name: shapes[name] for name in sorted(given_names)}


@st.composite
def trees(draw):
    n = draw(st.integers(1, 3))
    return DependencyTree(draw(st.booleans()), draw(st.booleans())), (n + 1, n), {}


@st.composite
def subsets(draw):
    n = draw(st.integers(1, 6))
    low = draw(st.integers(0, n))
    return Subset(low, draw(st.none() | st.integers(low, n))), (n,), {}


# Each strategy draws a structure, the shape of its scores, and those of its additional scores.
STRUCTURES = {
    "simplex": st.integers(1, 8).map(lambda n: (Simplex(), (n,), {})),
    "chain": chains(),
    "tree": trees(),
    "matching": grids().map(lambda shape: (Matching(), shape, {})),
    "subset": subsets(),
    "alignment": grids().map(lambda shape: (Alignment(), shape, {})),
    "ranking": st.integers(1, 4).map(lambda n: (Ranking(), (n,), {})),
    "segmentation": st.tuples(st.integers(1, 4), st.integers(2, 3)).map(lambda shape: (Segmentation(2), shape, {})),
}
ALL = sorted(STRUCTURES)


@st.composite
def instances(draw, name, n_scores=1, additional=True):
    """Draw an instance, with further scores of its shape."""
    structure, shape, shapes = draw(STRUCTURES[name])
    more = [draw(numbers(shape)) for _ in range(n_scores - 1)]
    own = {key: draw(numbers(each)) for key, each in shapes.items()} if additional else {}
    return Instance(structure, draw(numbers(shape)), own), *more


# -- Structures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
def test_the_map_value_is_the_maximum_of_the_enumeration(name, data):
    (case,) = data.draw(instances(name))
    _, value = map_inference(case.structure, case.scores, **case.additional)
    assert value == pytest.approx(case.enumerate()[2].max(), abs=1e-9)


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
def test_marginals_are_a_mixture_that_no_structure_improves(name, data):
    """The optimality conditions: the weights make the marginals, and no vertex has a higher score in the gradient."""
    (case,) = data.draw(instances(name))
    found = sparsemap(case.structure, case.scores, **case.additional)
    _, columns, totals = case.enumerate()
    indicators = np.reshape(columns, (case.scores.size, -1)).T
    u = found.marginals.ravel()
    assert found.weights.min() >= 0.0 and found.weights.sum() == pytest.approx(1.0)
    # The score of the mixture follows from the objective.
    value = found.objective + 0.5 * u @ u
    assert (totals - indicators @ u).max() <= value - u @ u + 1e-6
    # The marginals are in the polytope: a nonnegative mixture of all indicators.
    _, residual = nnls(np.vstack([indicators.T, np.ones(len(indicators))]), np.append(u, 1.0))
    assert residual <= 1e-6


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
def test_the_jacobian_is_symmetric_and_contracts(name, data):
    case, a, b = data.draw(instances(name, n_scores=3))
    found = sparsemap(case.structure, case.scores, **case.additional)
    ja, jb = found.vjp(a)["scores"], found.vjp(b)["scores"]
    assert (a * jb).sum() == pytest.approx((b * ja).sum(), abs=1e-6)
    np.testing.assert_allclose(found.jvp(scores=a), ja, atol=1e-6)
    # An orthogonal projection.
    np.testing.assert_allclose(found.vjp(ja)["scores"], ja, atol=1e-6)
    assert (ja * ja).sum() <= (a * a).sum() + 1e-6


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
def test_projection_is_idempotent_and_never_lengthens(name, data):
    case, other = data.draw(instances(name, n_scores=2, additional=False))
    shapes = {key: np.zeros(value.shape) for key, value in case.additional.items()}
    u, v = (sparsemap(case.structure, scores, **shapes).marginals for scores in (case.scores, other))
    np.testing.assert_allclose(sparsemap(case.structure, u, **shapes).marginals, u, atol=1e-6)
    assert np.linalg.norm(u - v) <= np.linalg.norm(case.scores - other) + 1e-6


# -- Factors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", MEANING, ids=lambda factor: factor.__name__)
@given(data=st.data())
def test_a_factor_alone_projects_onto_its_assignments(factor, data):
    n = data.draw(st.integers(3, 5))
    negated = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    scores = data.draw(numbers(n))
    graph = FactorGraph()
    u = graph.variables(n)
    literals = [~u[i] if off else u[i] for i, off in enumerate(negated)]
    graph.add(factor(literals[:-1], literals[-1]) if factor.__name__ == "Implies" else factor(literals))
    found = lp_sparsemap(graph, scores).marginals
    every = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    allowed = [row for row in every if MEANING[factor]([bool(on) != off for on, off in zip(row, negated)])]
    assert ((np.array(allowed) - found) @ (scores - found)).max() <= 1e-4
    best = map_inference(graph, scores)
    assert best[1] == pytest.approx(max(row @ scores for row in allowed))


# -- Features and files ------------------------------------------------------------------------------------------------

WORDS = st.text(string.ascii_letters + string.digits + "-.", min_size=1, max_size=6)
SENTENCES = st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4)
TEMPLATES = ["word[0]", "shape[0]", "prefix2[0]|case[-1]", "word[-1]|word[1]"]


@given(sentences=SENTENCES, templates=st.lists(st.sampled_from(TEMPLATES), min_size=1, unique=True))
def test_rows_name_what_the_slow_twin_names(sentences, templates):
    vectorizer = TemplateVectorizer(templates)
    X = vectorizer.fit_transform(sentences)
    names = vectorizer.get_feature_names_out()
    for rows, sentence in zip(X, sentences, strict=True):
        found = [sorted(names[row.indices]) for row in map(sparse.csr_array, rows.toarray()[:, None])]
        assert found == [sorted(row) for row in naive_feature_names(sentence, templates)]
    again = vectorizer.transform(sentences)
    assert (again.values != X.values).nnz == 0 and np.array_equal(again.indptr, X.indptr)


@given(data=st.data(), lengths=st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_partitions_come_back(data, lengths):
    X = RaggedArray(data.draw(numbers((sum(lengths), 2))), np.cumsum([0, *lengths]))
    y = [data.draw(st.lists(WORDS, min_size=n, max_size=n)) for n in lengths]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.npz"
        save_partition(path, X, y)
        X_read, y_read = load_partition(path)
        np.testing.assert_array_equal(X_read.values, X.values)
        np.testing.assert_array_equal(X_read.indptr, X.indptr)
        assert [list(each) for each in y_read] == y


@given(data=st.data(), sentences=SENTENCES)
def test_trees_come_back_from_conllu(data, sentences):
    # Words hang on earlier ones or the root, so that there is no circle.
    heads = [[data.draw(st.integers(0, m)) for m in range(len(sentence))] for sentence in sentences]
    relations = [[data.draw(WORDS) for _ in s] for s in sentences]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.conllu"
        dump_conllu(sentences, heads, relations, path)
        X, y = load_conllu(path)
    assert [[token["word"] for token in sentence] for sentence in X] == sentences
    assert [[token["deprel"] for token in sentence] for sentence in X] == relations
    assert [own.tolist() for own in y] == heads


@given(data=st.data(), sentences=SENTENCES)
def test_columns_come_back_from_conll(data, sentences):
    labels = [[data.draw(WORDS) for _ in s] for s in sentences]
    text = "\n".join("".join(f"{w} {b}\n" for w, b in zip(*pair, strict=True)) for pair in zip(sentences, labels))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.txt"
        path.write_text(text, encoding="utf-8")
        X, y = load_conll(path, columns=("word", "label"))
    assert [[token["word"] for token in sentence] for sentence in X] == sentences
    assert [list(own) for own in y] == labels
