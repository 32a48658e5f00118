import pickle
from collections import Counter

import numpy as np
import pytest
from naive_arcs import naive_arcs
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from sklearn_sparsemap import RaggedArray
from sklearn_sparsemap.features import ArcTemplate, ArcVectorizer, arc_templates, dependency_templates
from sklearn_sparsemap.penalties import GroupOrder

WORDS = ["the", "The", "cat", "42", "-", "NASA", "x"]
TAGS = ["D", "N", "V", "P", "A"]
MIXED = [
    "head.pos[0]",
    "between.pos",
    "head.word[0]|head.shape[0]|mod.word[0]",
    "mod.pos[-2]|mod.pos[1]|head.pos[3]|head.pos[-1]",
    "distance",
    "head.pos[0]|between.pos|mod.pos[0]|direction|distance",
    "direction|mod.lower[0]",
    "between.word|distance",
]


def random_sentences(n_sentences, seed=0, longest=16):
    rng = np.random.default_rng(seed)
    return [
        [{"word": str(rng.choice(WORDS)), "pos": str(rng.choice(TAGS))} for _ in range(rng.integers(1, longest + 1))]
        for _ in range(n_sentences)
    ]


def random_heads(sentences, seed=0):
    """Any heads but the word itself; nothing here needs trees."""
    rng = np.random.default_rng(seed)
    return [(np.arange(1, len(s) + 1) + rng.integers(1, len(s) + 1, len(s))) % (len(s) + 1) for s in sentences]


def names_of_rows(vectorizer, X):
    """For each sentence and row the names of the columns with a one, as a list."""
    names = vectorizer.get_feature_names_out()
    assert (X.values.data == 1).all()
    return [[names[row].tolist() for row in np.split(sample.indices, sample.indptr[1:-1])] for sample in X]


def known_names(rows, known):
    return [[sorted(name for names in row for name in names if name in known) for row in sample] for sample in rows]


def ordered(rows):
    return [[sorted(row) for row in sample] for sample in rows]


def assert_equal(a, b):
    assert a.values.shape == b.values.shape
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(a.values, name), getattr(b.values, name))
    np.testing.assert_array_equal(a.indptr, b.indptr)
    np.testing.assert_array_equal(a.groups, b.groups)


# Templates


@pytest.mark.parametrize(
    "text",
    ["head.pos[0]", "mod.a.b-c=d[-12]|between.a.b|distance", "direction", "head.between[0]|mod.head[1]|between.mod"],
)
def test_template_round_trip(text):
    template = ArcTemplate.parse(text)
    assert str(template) == text
    assert eval(repr(template)) == template
    assert pickle.loads(pickle.dumps(template)) == template
    assert len({template, ArcTemplate.parse(text), ArcTemplate(template.atoms)}) == 1


def test_template_parts():
    template = ArcTemplate.parse(" head.pos[ +1 ] | between.word|mod.word[-2]|direction | distance")
    assert template.atoms == (
        ("head", "pos", 1),
        ("between", "word"),
        ("mod", "word", -2),
        ("direction",),
        ("distance",),
    )
    assert template.fields == ("pos", "word")
    assert ArcTemplate.parse("distance").fields == ()
    assert ArcTemplate.parse("distance") | ArcTemplate.parse("direction") == ArcTemplate.parse("distance|direction")
    with pytest.raises(AttributeError):
        template.atoms = ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pos[0]",
        "head.pos",
        "head[0]",
        "head.pos[0",
        "head.[0]",
        "mod.pos[0.5]",
        "between.pos[0]",
        "between",
        "distance[0]",
        "directions",
        "head.pos[0]|",
        "head.a b[0]",
        3,
    ],
)
def test_malformed_template(text):
    with pytest.raises(ValueError, match=r"(?i)write it as head\.field\[offset\]"):
        ArcTemplate.parse(text)


@pytest.mark.parametrize(
    ("atoms", "message"),
    [
        ((), "at least one"),
        ("distance", "use ArcTemplate.parse"),
        ([("distance",), ("distance",)], "each atom once"),
        ([("between", "a"), ("between", "b")], "at most one atom of between"),
        (["distance"], None),
        ([("head", "pos")], "an atom is"),
        ([("between", "pos", 0)], "an atom is"),
        ([("direction", 1)], "an atom is"),
        ([("middle", "pos", 0)], "an atom is"),
        ([()], "an atom is"),
        ([3], "an atom is"),
        ([("head", "pos", 0.5)], "must be an integer"),
        ([("mod", "pos", True)], "must be an integer"),
        ([("mod", "pos", 1001)], "at most 1000"),
        ([("head", "po|s", 0)], "must be a name"),
        ([("between", "")], "must be a name"),
    ],
)
def test_malformed_atoms(atoms, message):
    if message is None:
        assert ArcTemplate(atoms).atoms == (("distance",),)
        return
    with pytest.raises(ValueError, match=message):
        ArcTemplate(atoms)


def test_many_templates_from_coarse_to_fine():
    templates = arc_templates()
    assert len(templates) == len(set(templates)) >= 500
    assert set(dependency_templates(fine_pos="xpos")[:4]) < set(templates)
    for template in templates:
        # A feature that is the same for all heads of a word tells nothing.
        assert {atom[0] for atom in template.atoms} != {"mod"}
    orders = [
        [("pos", "word"), ("shape", "word")],
        [("pos", "xpos"), ("xpos", "word"), ("shape", "lemma"), ("lemma", "word")],
        [("pos", "shape"), ("pos", "lemma"), ("xpos", "lemma")],
    ]
    for coarser in orders:
        order = GroupOrder.from_templates(templates, coarser=coarser)
        assert not np.tril(order.precedes, -1).any() and order.precedes.sum() > 5000
    few = arc_templates(["pos"], ["word"])
    assert len(few) == 246 and set(few) < set(arc_templates(["pos", "xpos"], ["shape", "word"]))
    sentence = [{"word": "dogs", "pos": "N"}, {"word": "bark", "pos": "V"}]
    rows = ArcVectorizer(few).fit_transform([sentence])
    assert rows.values.shape[0] == 6 and len(np.unique(rows.groups)) == 246
    for wrong, message in (
        (([], ["word"]), "tags is empty"),
        (("pos", ["word"]), r"tags must be a sequence of fields; write \['pos'\]"),
        ((["pos"], ["word", "pos"]), "the field 'pos' occurs twice"),
        ((["a tag"], []), "a tag"),
    ):
        with pytest.raises(ValueError, match=message):
            arc_templates(*wrong)


def test_dependency_templates():
    templates = dependency_templates()
    assert len(set(templates)) == 40
    assert {field for template in templates for field in template.fields} == {"word", "pos"}
    with_fine = dependency_templates(fine_pos="xpos")
    assert len(set(with_fine)) == 50
    assert set(templates) < set(with_fine)
    assert {template.fields for template in set(with_fine) - set(templates)} == {
        *[("xpos",), ("xpos", "pos"), ("pos", "xpos"), ("xpos", "word"), ("word", "xpos")]
    }
    with pytest.raises(ValueError, match=r"cannot read 'head\.fine tag"):
        dependency_templates(fine_pos="fine tag")


# The vectorizer: what it computes


@pytest.mark.parametrize(
    "templates",
    [MIXED, ["between.pos"], ["distance", "direction"], ["head.word[0]"], ["mod.pos[9]|head.pos[-9]"]],
)
def test_features_are_those_of_the_twin(templates):
    train, test = random_sentences(12), random_sentences(8, seed=1)
    vectorizer = ArcVectorizer(templates)
    X = vectorizer.fit_transform(train)
    expected = [naive_arcs(sentence, templates) for sentence in train]
    known = {name for sample in expected for row in sample for names in row for name in names}
    assert sorted(vectorizer.get_feature_names_out()) == sorted(known)
    assert ordered(names_of_rows(vectorizer, X)) == known_names(expected, known)
    expected = [naive_arcs(sentence, templates) for sentence in test]
    found = names_of_rows(vectorizer, vectorizer.transform(test))
    assert ordered(found) == known_names(expected, known)


def test_default_templates_are_those_of_the_twin():
    sentences = random_sentences(5)
    vectorizer = ArcVectorizer()
    X = vectorizer.fit_transform(sentences)
    assert list(vectorizer.templates_) == dependency_templates()
    expected = [naive_arcs(sentence, dependency_templates()) for sentence in sentences]
    everything = {name for sample in expected for row in sample for names in row for name in names}
    assert ordered(names_of_rows(vectorizer, X)) == known_names(expected, everything)


@pytest.mark.parametrize("min_count", [2, 5, 10**6])
@pytest.mark.parametrize("arcs", ["all", "gold"])
def test_what_is_learned(arcs, min_count):
    train = random_sentences(15)
    heads = random_heads(train)
    rows = [naive_arcs(sentence, MIXED) for sentence in train]
    seen = rows
    if arcs == "gold":
        seen = [[sample[h * len(y) + m] for m, h in enumerate(y)] for sample, y in zip(rows, heads)]
    counts = Counter(name for sample in seen for row in sample for names in row for name in names)
    kept = {name for name, count in counts.items() if count >= min_count}
    assert len(kept) < len(counts)
    vectorizer = ArcVectorizer(MIXED, arcs=arcs, min_count=min_count)
    X = vectorizer.fit_transform(train, heads)
    assert set(vectorizer.get_feature_names_out()) == kept
    assert ordered(names_of_rows(vectorizer, X)) == known_names(rows, kept)
    assert_equal(clone(vectorizer).fit(train, heads).transform(train), X)


@pytest.mark.parametrize("parameters", [{}, {"min_count": 2}, {"n_features": 2000}, {"n_features": 20}])
def test_form_of_the_rows(parameters):
    train = random_sentences(12)
    vectorizer = ArcVectorizer(MIXED, **parameters)
    X = vectorizer.fit_transform(train)
    assert isinstance(X, RaggedArray)
    assert X.lengths.tolist() == [len(sentence) * (len(sentence) + 1) for sentence in train]
    assert isinstance(X.values, sparse.csr_array)
    assert X.values.dtype == np.float64
    assert X.values.indices.dtype == X.values.indptr.dtype == np.int32
    assert set(X.values.data) == {1.0}
    assert X.values.has_canonical_format
    for row in np.split(X.values.indices, X.values.indptr[1:-1]):
        assert (np.diff(row) > 0).all()
    sample = np.diff(X[3].indptr).reshape(-1, len(train[3]))
    assert (sample[1:].diagonal() == 0).all()
    assert len(X.values.data) == X.values.indptr[-1]
    assert (np.diff(X.groups) >= 0).all()
    assert X.values.shape[1] == vectorizer.n_features_out_ == len(vectorizer.get_feature_names_out())
    np.testing.assert_array_equal(X.groups, vectorizer.groups_)
    templates = [name.split("=")[0].split("#")[0] for name in vectorizer.get_feature_names_out()]
    assert templates == [vectorizer.template_names_[group] for group in X.groups]


def test_many_ngrams():
    # More than one growth of the hash table and of what is found.
    sentence = [{"id": i} for i in range(40)]
    vectorizer = ArcVectorizer(["head.id[0]|mod.id[0]"])
    X = vectorizer.fit_transform([sentence])
    is_arc = np.ones((41, 40), dtype=bool)
    is_arc[np.arange(1, 41), np.arange(40)] = False
    np.testing.assert_array_equal(np.diff(X.values.indptr), is_arc.ravel())
    np.testing.assert_array_equal(X.values.indices, np.arange(1600))
    backwards = vectorizer.transform([sentence[::-1]])
    assert sorted(backwards.values.indices) == list(range(1600))


@pytest.mark.parametrize("n_values", [1, 2, 7, 30])
def test_values_between(n_values):
    # Up to 28 values between two words: more than fit into a vector instruction.
    sentences = [[{"a": int(v)} for v in np.random.default_rng(0).integers(0, n_values, 30)]]
    vectorizer = ArcVectorizer(["between.a"])
    X = vectorizer.fit_transform(sentences)
    expected = naive_arcs(sentences[0], ["between.a"])
    found = names_of_rows(vectorizer, X)[0]
    assert [set(row) for row in found] == [row[0] for row in expected]
    assert max(map(len, found)) == len(set(vectorizer.get_feature_names_out()))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, "float64"])
def test_dtype(dtype):
    X = ArcVectorizer(["distance"], dtype=dtype).fit_transform([["a", "b"]])
    assert X.values.dtype == np.dtype(dtype)
    assert X.values.toarray().tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [1, 0], [0, 0]]


@pytest.mark.parametrize("parameters", [{}, {"min_count": 2}, {"n_features": 100}, {"n_features": 2**20}])
def test_threads_change_nothing(parameters):
    train, test = random_sentences(60), random_sentences(60, seed=1)
    one, two = (ArcVectorizer(MIXED, n_jobs=n_jobs, **parameters) for n_jobs in (1, 2))
    assert_equal(one.fit_transform(train), two.fit_transform(train))
    assert_equal(one.transform(test), two.transform(test))


def test_several_calls_of_the_kernel():
    # More than 50,000 arcs: even a single thread fills the rows in several ranges, with gaps to close between them.
    sentences = random_sentences(40, longest=80)
    vectorizer = ArcVectorizer(MIXED, n_features=64)
    X = vectorizer.transform(sentences)
    assert X.values.shape[0] > 60_000
    parts = [vectorizer.transform([sentence]).values for sentence in sentences]
    joined = sparse.vstack(parts, format="csr")
    np.testing.assert_array_equal(X.values.indptr, joined.indptr)
    np.testing.assert_array_equal(X.values.indices, joined.indices)


# The hashed mode


def test_hashed_columns_follow_the_ngrams():
    # With room enough, columns and n-grams correspond one to one.
    train = random_sentences(5)
    hashed = ArcVectorizer(MIXED, n_features=2**24).transform(train).values
    vectorizer = ArcVectorizer(MIXED)
    learned = vectorizer.fit_transform(train).values
    np.testing.assert_array_equal(hashed.indptr, learned.indptr)
    column_of = {}
    for a, b in zip(learned.indptr, learned.indptr[1:]):
        for column in learned.indices[a:b]:
            # The n-gram is in every row where the column of its hash is.
            column_of.setdefault(column, set(hashed.indices[a:b].tolist())).intersection_update(hashed.indices[a:b])
    used = np.flatnonzero(learned.sum(axis=0) > 0)
    assert len(used) == vectorizer.n_features_out_
    assert len(np.unique(hashed.indices)) == len(used)
    assert all(column_of[column] for column in used)


def test_hashed_columns_stay_in_their_range():
    X = ArcVectorizer(MIXED, n_features=101).transform(random_sentences(10))
    sizes = np.bincount(X.groups)
    assert len(sizes) == len(MIXED)
    assert sizes.max() - sizes.min() <= 1
    plain = [j for j, template in enumerate(MIXED) if "between" not in template]
    is_arc = np.diff(X.values.indptr) > 0
    for j in plain:
        one_each = sparse.csr_array(X.values[:, np.flatnonzero(X.groups == j)]).sum(axis=1)
        np.testing.assert_array_equal(one_each, is_arc)


def test_hashed_twice_to_one_column():
    # One column for each template: all values between two words share it.
    sentences = random_sentences(5)
    X = ArcVectorizer(MIXED, n_features=len(MIXED)).transform(sentences)
    rows = [row for sentence in sentences for row in naive_arcs(sentence, MIXED)]
    expected = [[j for j, names in enumerate(row) if names] for row in rows]
    assert [row.tolist() for row in np.split(X.values.indices, X.values.indptr[1:-1])] == expected
    # And few columns: some values share, others do not.
    X = ArcVectorizer(["between.word"], n_features=3).transform(sentences)
    wide = ArcVectorizer(["between.word"], n_features=3 * 2**20).transform(sentences)
    # The upper bits of the same hash.
    expected = [sorted(set(row // 2**20)) for row in np.split(wide.values.indices, wide.values.indptr[1:-1])]
    assert [row.tolist() for row in np.split(X.values.indices, X.values.indptr[1:-1])] == expected
    assert X.values.nnz < wide.values.nnz


def test_hashed_mode_has_no_state():
    train, test = random_sentences(5), random_sentences(5, seed=1)
    vectorizer = ArcVectorizer(MIXED, n_features=500)
    check_is_fitted(vectorizer)
    expected = vectorizer.transform(test)
    assert_equal(vectorizer.fit(train).transform(test), expected)
    parts = [vectorizer.transform(test[i : i + 1]).values for i in range(5)]
    assert (sparse.vstack(parts) != expected.values).nnz == 0
    assert vectorizer.get_feature_names_out()[0] == "head.pos[0]#0"


@pytest.mark.parametrize("n_features", [0, 1, 2.0, True, 2**31])
def test_wrong_n_features(n_features):
    vectorizer = ArcVectorizer(["distance", "direction"], n_features=n_features)
    for method in (vectorizer.fit, vectorizer.transform, vectorizer.fit_transform):
        with pytest.raises(ValueError, match="n_features must be None or an integer from 2"):
            method([["a"]])


# As a scikit-learn estimator


def test_parameters_stay_untouched():
    templates = ["head.word[0]"]
    vectorizer = ArcVectorizer(templates, min_count=2, dtype="float32", n_jobs=2, arcs="gold")
    before = dict(vectorizer.get_params())
    vectorizer.fit([["a", "b"]], [[0, 1]])
    assert vectorizer.get_params() == before
    assert vectorizer.templates is templates
    twin = clone(vectorizer)
    assert twin.get_params() == before
    with pytest.raises(NotFittedError, match="This ArcVectorizer is not fitted"):
        twin.transform([["a"]])
    # The hashed mode keeps no vocabulary.
    hashed = ArcVectorizer(templates, n_features=10).fit([["a"]]).set_params(n_features=None)
    with pytest.raises(NotFittedError):
        hashed.transform([["a"]])


def test_pickle():
    train, test = random_sentences(20), random_sentences(10, seed=1)
    vectorizer = ArcVectorizer(MIXED, min_count=2).fit(train)
    before = len(pickle.dumps(vectorizer))
    expected = vectorizer.transform(test)
    # The hash tables, built by now, stay behind.
    data = pickle.dumps(vectorizer)
    assert len(data) == before
    copy = pickle.loads(data)
    assert_equal(copy.transform(test), expected)
    assert copy.get_feature_names_out().tolist() == vectorizer.get_feature_names_out().tolist()


def test_tags():
    tags = get_tags(ArcVectorizer())
    assert not tags.input_tags.two_d_array
    assert tags.requires_fit
    assert not get_tags(ArcVectorizer(n_features=1000)).requires_fit


# Wrong input


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "X has no sentences"),
        ([["a"], [], ["b"]], r"X\[1\] has no tokens; remove"),
        ([["a"], ["b", 3]], r"X\[1\]\[1\] is 3 of type int; a token must be"),
        ([[{"pos": "N"}]], r"X\[0\]\[0\] lacks the field 'word', which the template 'head.word\[0\]\|distance' needs"),
    ],
)
def test_wrong_sentences(X, message):
    vectorizer = ArcVectorizer(["direction", "head.word[0]|distance"]).fit([["a"]])
    for method in (vectorizer.fit, vectorizer.transform, vectorizer.set_params(n_features=9).transform):
        with pytest.raises(ValueError, match=message):
            method(X)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "y is None"),
        ([[0, 1]], "y has the heads of 1 sentences, but X has 2"),
        ([[0, 1], [0, 1]], r"y\[1\] must hold one head, an integer, for each of the 1 words of X\[1\]; got"),
        ([[0, 1.0], [0]], r"y\[0\] must hold one head, an integer"),
        ([[0, 3], [0]], r"y\[0\]\[1\] is 3, but X\[0\] has 2 words"),
        ([[-1, 0], [0]], r"y\[0\]\[0\] is -1, but"),
        ([[0, 2], [0]], r"y\[0\]\[1\] is 2, but"),
    ],
)
def test_wrong_heads(y, message):
    X = [["a", "b"], ["c"]]
    with pytest.raises(ValueError, match=message):
        ArcVectorizer(["distance"], arcs="gold").fit(X, y)
    ArcVectorizer(["distance"]).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"templates": []}, r"templates is empty; give at least one: write it as head\.field"),
        ({"templates": "distance"}, r"must be a list of templates; write \['distance'\]"),
        ({"templates": ["word[0]"]}, r"cannot read 'word\[0\]' in the arc template"),
        ({"templates": ["distance", "distance"]}, "given twice"),
        ({"min_count": 0}, "'min_count' parameter .* must be an int"),
        ({"min_count": 2, "n_features": 100}, "min_count=2 needs counts"),
        ({"arcs": "some"}, "'arcs' parameter of ArcVectorizer must be a str among .* Got 'some'"),
        ({"arcs": "gold", "n_features": 100}, "arcs='gold' restricts"),
        ({"dtype": complex}, "dtype must be"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        ArcVectorizer(**parameters).fit([[{"word": "a", "pos": "N"}]], [[0]])
