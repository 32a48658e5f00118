import pickle
import sys
from collections import Counter, UserDict
from io import StringIO

import numpy as np
import pytest
from naive_features import naive_amount, naive_case, naive_feature_names, naive_shape
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from sklearn_sparsemap import RaggedArray
from sklearn_sparsemap.features import (
    DERIVED_FIELDS,
    ArcVectorizer,
    Template,
    TemplateVectorizer,
    chunking_templates,
    ner_templates,
    ngrams,
    sentences_from_frame,
    word_case,
    word_digits,
    word_punctuation,
    word_shape,
)

pd = pytest.importorskip("pandas")

WORDS = ["the", "The", "cat", "Cat's", "3", "42", "1,000", "-", "--", "NASA", "x"]
TAGS = ["D", "N", "V"]
MIXED = ["word[0]", "pos[-2]|word[0]|shape[1]", "lower[1]|lower[-1]", *ngrams("pos", (1, 3), 3)]


def random_sentences(n_sentences, seed=0):
    rng = np.random.default_rng(seed)
    return [
        [{"word": str(rng.choice(WORDS)), "pos": str(rng.choice(TAGS))} for _ in range(rng.integers(1, 9))]
        for _ in range(n_sentences)
    ]


def names_of_rows(vectorizer, X):
    names = vectorizer.get_feature_names_out()
    return [[names[sample.indices[a:b]].tolist() for a, b in zip(sample.indptr, sample.indptr[1:])] for sample in X]


def assert_equal(a, b):
    assert (a.values != b.values).nnz == 0
    assert a.values.shape == b.values.shape
    np.testing.assert_array_equal(a.indptr, b.indptr)
    np.testing.assert_array_equal(a.groups, b.groups)


# Templates


@pytest.mark.parametrize("text", ["word[0]", "word[-1]|word[0]", "a.b-c=d[12]|pos[-3]"])
def test_template_round_trip(text):
    template = Template.parse(text)
    assert str(template) == text
    assert eval(repr(template)) == template
    assert pickle.loads(pickle.dumps(template)) == template
    assert len({template, Template.parse(text), Template(template.atoms)}) == 1


def test_template_parts():
    template = Template.parse(" pos[ +1 ] | word[-2]|pos[0] ")
    assert template.atoms == (("pos", 1), ("word", -2), ("pos", 0))
    assert template.fields == ("pos", "word")
    assert template != Template.parse("word[-2]|pos[0]|pos[1]")
    assert Template.parse("word[0]") | Template.parse("pos[1]") == Template.parse("word[0]|pos[1]")


def test_template_is_immutable():
    with pytest.raises(AttributeError):
        Template.parse("word[0]").atoms = ()


@pytest.mark.parametrize(
    "text",
    ["", "word", "word[]", "word[a]", "word[0", "word[0]|", "word[0.5]", "a b[0]", "word[0]x", "[0]", 3],
)
def test_malformed_template(text):
    with pytest.raises(ValueError, match=r"(?i)write it as field\[offset\]"):
        Template.parse(text)


@pytest.mark.parametrize(
    ("atoms", "message"),
    [
        ((), "at least one"),
        ("word[0]", "use Template.parse"),
        ([("word", 0), ("word", 0)], "each atom once"),
        ([("word", 0.5)], "must be an integer"),
        ([("word", True)], "must be an integer"),
        ([("wo|rd", 0)], "must be a name"),
        ([("", 0)], "must be a name"),
        ([("word",)], "pair"),
    ],
)
def test_malformed_atoms(atoms, message):
    with pytest.raises(ValueError, match=message):
        Template(atoms)


def test_ngrams():
    assert [str(t) for t in ngrams("w", 2, 1)] == ["w[-1]|w[0]", "w[0]|w[1]"]
    assert [str(t) for t in ngrams("w", 1, 0)] == ["w[0]"]
    templates = ngrams("w", (2, 4), 3)
    assert len(templates) == len(set(templates)) == 6 + 5 + 4
    for template in templates:
        offsets = [offset for _, offset in template.atoms]
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
        assert offsets[0] >= -3
        assert offsets[-1] <= 3


@pytest.mark.parametrize(
    ("n", "window", "message"),
    [
        (0, 2, "n must be"),
        ((2, 1), 2, "n must be"),
        ((1, 2, 3), 2, "n must be"),
        (1.5, 2, "n must be"),
        (True, 2, "n must be"),
        (1, -1, "window must be"),
        (1, 0.5, "window must be"),
        ((1, 4), 1, "length 4 does not fit"),
    ],
)
def test_ngrams_wrong_parameters(n, window, message):
    with pytest.raises(ValueError, match=message):
        ngrams("word", n, window)


def test_chunking_templates():
    templates = chunking_templates()
    assert len(set(templates)) == 72
    assert Counter(t.fields for t in templates) == {("pos",): 45, ("word",): 18, ("shape",): 9}
    reach = {
        field: max(abs(o) for t in templates for f, o in t.atoms if f == field) for field in ("pos", "word", "shape")
    }
    assert reach == {"pos": 5, "word": 3, "shape": 2}
    assert {field: max(len(t.atoms) for t in templates if t.fields == (field,)) for field in reach} == {
        "pos": 5,
        "word": 3,
        "shape": 2,
    }


def test_ner_templates():
    templates = ner_templates()
    assert len(set(templates)) == len(templates) == 45 + 8 * 18 + 3 * 45 == 324
    assert set(templates) > set(chunking_templates())
    n_templates = Counter(t.fields for t in templates)
    assert set(n_templates) == {(field,) for field in ("word", "pos", *DERIVED_FIELDS)} - {
        (field,) for field in ("lower", "prefix4", "prefix5", "suffix4", "suffix5")
    }
    for (field,), n in n_templates.items():
        is_wide = field in ("pos", "case", "digits", "punctuation")
        assert n == (45 if is_wide else 18)
        offsets = {offset for t in templates if t.fields == (field,) for _, offset in t.atoms}
        assert offsets == set(range(-5, 6) if is_wide else range(-3, 4))
        assert max(len(t.atoms) for t in templates if t.fields == (field,)) == (5 if is_wide else 3)


# Shapes


@pytest.mark.parametrize(
    ("word", "shape"),
    [
        ("", ""),
        ("Confidence", "Aa"),
        ("2,664,098", "0,0+,0+"),
        ("1990s", "0+a"),
        ("U.S.", "A.A."),
        ("...", "."),
        ("++", "+"),
        ("0+0", "0+0"),
        ("Ǆ", "A"),
        ("ǅé", "Aa"),
        ("漢字", "x"),
        ("a b", "a a"),
    ],
)
def test_word_shape(word, shape):
    assert word_shape(word) == shape


def test_word_shape_is_that_of_the_twin():
    rng = np.random.default_rng(0)
    for _ in range(300):
        word = "".join(rng.choice(list("aAbB019+-."), rng.integers(0, 9)))
        assert word_shape(word) == naive_shape(word)


@pytest.mark.parametrize(
    ("word", "case", "digits", "punctuation"),
    [
        ("", "none", "none", "none"),
        ("a", "lower", "none", "none"),
        ("A", "initial", "none", "none"),
        ("U.S.", "upper", "none", "some"),
        ("¿Qué", "initial", "none", "some"),
        ("iPhone7", "mixed", "some", "none"),
        ("1992", "none", "all", "none"),
        ("€5", "none", "some", "some"),
        ("«…»", "none", "none", "all"),
        ("ǅé", "initial", "none", "none"),
        ("ÑAÑA", "upper", "none", "none"),
        ("straße", "lower", "none", "none"),
        ("漢字", "none", "none", "none"),
    ],
)
def test_indicators(word, case, digits, punctuation):
    assert (word_case(word), word_digits(word), word_punctuation(word)) == (case, digits, punctuation)


def test_indicators_are_those_of_the_twin():
    rng = np.random.default_rng(1)
    for _ in range(300):
        word = "".join(rng.choice(list("aAbB019+-."), rng.integers(0, 6)))
        assert word_case(word) == naive_case(word)
        assert word_digits(word) == naive_amount(word, "0123456789")
        assert word_punctuation(word) == naive_amount(word, "+-.")


# The vectorizer: what it computes


@pytest.mark.parametrize(
    "templates",
    [
        MIXED,
        chunking_templates(),
        ner_templates(),
        ["prefix5[0]|suffix4[-1]"],
        ["word[-9]"],
        ["pos[2]|word[12]"],
        ["word[0]"],
    ],
)
def test_features_are_those_of_the_twin(templates):
    train, test = random_sentences(30), random_sentences(20, seed=1)
    vectorizer = TemplateVectorizer(templates)
    X = vectorizer.fit_transform(train)
    expected = [naive_feature_names(sentence, templates) for sentence in train]
    assert names_of_rows(vectorizer, X) == expected
    known = {name for sentence in expected for row in sentence for name in row}
    assert sorted(vectorizer.get_feature_names_out()) == sorted(known)
    expected = [[[name for name in row if name in known] for row in naive_feature_names(s, templates)] for s in test]
    assert names_of_rows(vectorizer, vectorizer.transform(test)) == expected


def test_default_templates_take_bare_words():
    sentences = [["a", "b", "a"], ["b"]]
    vectorizer = TemplateVectorizer().fit(sentences)
    assert vectorizer.template_names_ == [
        "word[-1]",
        "word[0]",
        "word[1]",
        "word[-1]|word[0]",
        "word[0]|word[1]",
    ]
    assert names_of_rows(vectorizer, vectorizer.transform(sentences))[1] == [
        naive_feature_names(["b"], vectorizer.templates_)[0]
    ]


@pytest.mark.parametrize("min_count", [2, 3, 1000])
def test_min_count(min_count):
    train = random_sentences(25)
    counts = Counter(name for s in train for row in naive_feature_names(s, MIXED) for name in row)
    kept = {name for name, count in counts.items() if count >= min_count}
    assert len(kept) < len(counts)
    vectorizer = TemplateVectorizer(MIXED, min_count=min_count)
    X = vectorizer.fit_transform(train)
    assert set(vectorizer.get_feature_names_out()) == kept
    expected = [[[n for n in row if n in kept] for row in naive_feature_names(s, MIXED)] for s in train]
    assert names_of_rows(vectorizer, X) == expected
    assert_equal(vectorizer.transform(train), X)


@pytest.mark.parametrize("parameters", [{}, {"min_count": 2}, {"n_features": 1000}])
def test_form_of_the_rows(parameters):
    train = random_sentences(12)
    vectorizer = TemplateVectorizer(MIXED, **parameters)
    X = vectorizer.fit_transform(train)
    assert isinstance(X, RaggedArray)
    assert X.lengths.tolist() == [len(sentence) for sentence in train]
    assert isinstance(X.values, sparse.csr_array)
    assert X.values.dtype == np.float64
    assert X.values.indices.dtype == X.values.indptr.dtype == np.int32
    assert set(X.values.data) == {1.0}
    for row in np.split(X.values.indices, X.values.indptr[1:-1]):
        assert (np.diff(row) > 0).all()
        # At most one column of each template, those of one template side by side.
        assert len(set(X.groups[row])) == len(row)
    assert (np.diff(X.groups) >= 0).all()
    assert X.values.shape[1] == vectorizer.n_features_out_ == len(vectorizer.get_feature_names_out())
    np.testing.assert_array_equal(X.groups, vectorizer.groups_)
    templates = [name.split("=")[0].split("#")[0] for name in vectorizer.get_feature_names_out()]
    assert templates == [vectorizer.template_names_[group] for group in X.groups]
    assert_equal(clone(vectorizer).fit(train).transform(train), X)


@pytest.mark.parametrize("parameters", [{}, {"min_count": 2}, {"n_features": 100}])
def test_threads_change_nothing(parameters):
    train, test = random_sentences(60), random_sentences(60, seed=1)
    one, two = (TemplateVectorizer(MIXED, n_jobs=n_jobs, **parameters) for n_jobs in (1, 2))
    assert_equal(one.fit_transform(train), two.fit_transform(train))
    assert_equal(one.transform(test), two.transform(test))
    assert_equal(two.transform(train), two.fit_transform(train))


def test_many_ngrams():
    # More than one growth of the hash table, and integers as values.
    sentences = [[{"id": i} for i in range(3000)]]
    vectorizer = TemplateVectorizer(["id[0]", "id[0]|id[1]"])
    X = vectorizer.fit_transform(sentences)
    np.testing.assert_array_equal(X.values.indices.reshape(-1, 2), np.arange(3000)[:, None] + [0, 3000])
    backwards = vectorizer.transform([sentences[0][::-1]])
    # No pair was seen in this order, nor 0 before the end.
    np.testing.assert_array_equal(backwards.values.indices, np.arange(3000)[::-1])


def test_integers_and_strings_differ():
    X = [[{"a": 1}, {"a": "1"}, {"a": True}, {"a": np.int64(1)}, {"a": np.str_("1")}]]
    vectorizer = TemplateVectorizer(["a[0]"])
    assert vectorizer.fit_transform(X).values.indices.tolist() == [0, 1, 0, 0, 1]
    assert vectorizer.transform([[{"a": "1"}, {"a": 1}]]).values.indices.tolist() == [1, 0]
    hashed = TemplateVectorizer(["a[0]"], n_features=10**6).transform(X).values.indices
    assert hashed[0] != hashed[1]


def test_padding_is_no_value():
    vectorizer = TemplateVectorizer(["word[-1]"]).fit([["a"]])
    assert vectorizer.get_feature_names_out().tolist() == ["word[-1]=<begin-1>"]
    assert vectorizer.transform([["<begin-1>", "x"]]).values.toarray().tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize("dtype", [np.float32, np.int64, "float64"])
def test_dtype(dtype):
    assert TemplateVectorizer(dtype=dtype).fit_transform([["a"]]).values.dtype == np.dtype(dtype)


def test_containers():
    sentences = random_sentences(6)
    expected = TemplateVectorizer(MIXED).fit_transform(sentences)
    objects = np.empty(len(sentences), dtype=object)
    for i, sentence in enumerate(sentences):
        objects[i] = np.array(sentence, dtype=object)
    tokens = np.array([token for sentence in sentences for token in sentence], dtype=object)
    others = [
        tuple(map(tuple, sentences)),
        objects,
        RaggedArray(tokens, expected.indptr),
        [[UserDict(token) for token in sentence] for sentence in sentences],
    ]
    for other in others:
        vectorizer = TemplateVectorizer(MIXED)
        assert_equal(vectorizer.fit_transform(other), expected)
        assert_equal(vectorizer.transform(other), expected)


# Derived fields


def first_letter(word):
    return word[:1]


def length(word):
    return len(word)


def test_derived_fields():
    calls = []

    def double(word):
        calls.append(word)
        return word * 2

    fields = {"twice": ("word", double), "length": ("twice", length)}
    vectorizer = TemplateVectorizer(["twice[0]|length[0]"], derived_fields=fields)
    vectorizer.fit([["a", "bc", "a"], ["a"]])
    assert vectorizer.get_feature_names_out().tolist() == [
        "twice[0]|length[0]=aa|2",
        "twice[0]|length[0]=bcbc|4",
    ]
    # Once for each distinct value, though two fields need it.
    assert calls == ["a", "bc"]


def test_own_value_wins():
    sentence = [{"word": "Ann", "shape": "own"}, {"word": "Bob"}, {"shape": "own"}]
    templates = ["shape[0]"]
    names = TemplateVectorizer(templates).fit([sentence]).get_feature_names_out().tolist()
    assert names == ["shape[0]=own", "shape[0]=Aa"]
    assert names == list(dict.fromkeys(row[0] for row in naive_feature_names(sentence, templates)))
    assert TemplateVectorizer(templates).fit([sentence[::2]]).n_features_out_ == 1


def test_derived_fields_replace_the_default():
    with pytest.raises(ValueError, match=r"X\[0\]\[0\] lacks the field 'shape'"):
        TemplateVectorizer(["shape[0]"], derived_fields={}).fit([["a"]])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([("first", "word", first_letter)], "must map a name"),
        ({"first": first_letter}, r"derived_fields\['first'\] must be a pair"),
        ({"first": ("word", "str")}, "must be a pair"),
        ({"first": (first_letter, "word")}, "must be a pair"),
        ({"first": ("second", str), "second": ("first", str)}, "cycle: first -> second -> first"),
        ({"first": ("form", str)}, "lacks the field 'form', which the derived field 'first' needs"),
        ({"first": ("word", float)}, "'first' failed for word='a'"),
        ({"first": ("word", list)}, r"returned \['a'\] for word='a'"),
    ],
)
def test_wrong_derived_fields(fields, message):
    with pytest.raises(ValueError, match=message):
        TemplateVectorizer(["first[0]"], derived_fields=fields).fit([["a"]])


# The hashed mode


@pytest.mark.parametrize("n_features", [len(MIXED), 100, 101])
def test_hashed_ranges(n_features):
    vectorizer = TemplateVectorizer(MIXED, n_features=n_features)
    X = vectorizer.transform(random_sentences(20))
    assert X.values.shape[1] == n_features
    assert (np.diff(X.values.indptr) == len(MIXED)).all()
    np.testing.assert_array_equal(X.groups[X.values.indices].reshape(-1, len(MIXED))[0], np.arange(len(MIXED)))
    sizes = np.bincount(X.groups)
    assert sizes.max() - sizes.min() <= 1


def test_hashed_columns_follow_the_ngrams():
    # With room enough, columns and n-grams correspond one to one.
    train = random_sentences(30)
    hashed = TemplateVectorizer(MIXED, n_features=2**24).transform(train).values.indices
    learned = TemplateVectorizer(MIXED).fit_transform(train).values.indices
    assert len(set(zip(hashed, learned))) == len(set(hashed)) == len(set(learned))


def test_hashed_mode_has_no_state():
    train, test = random_sentences(5), random_sentences(5, seed=1)
    vectorizer = TemplateVectorizer(MIXED, n_features=500)
    check_is_fitted(vectorizer)
    expected = vectorizer.transform(test)
    assert_equal(vectorizer.fit(train).transform(test), expected)
    parts = [vectorizer.transform(test[i : i + 1]).values for i in range(5)]
    assert (sparse.vstack(parts) != expected.values).nnz == 0
    assert vectorizer.get_feature_names_out()[0] == "word[0]#0"


HASHES = [
    [51, 356, 442, 767, 986, 156, 242, 567, 786, 872, 42, 367, 583, 672, 966, 167, 383, 461, 766, 983],
    [41, 162, 391, 618, 630, 671, 772, 704, 972, 5, 660, 408, 963, 365],
]


def test_hashes_are_the_same_in_every_process():
    # Python's own hashes of strings are others each time.
    words = TemplateVectorizer(n_features=1000)
    arcs = ArcVectorizer(["head.word[0]|between.word|distance|direction"], n_features=1000)
    hashes = [v.transform([["a", chr(233), "b", 3 * "c"]]).values.indices.tolist() for v in (words, arcs)]
    assert hashes == HASHES


@pytest.mark.parametrize("n_features", [0, 1, -5, 2.0, "many", True, 2**31])
def test_wrong_n_features(n_features):
    vectorizer = TemplateVectorizer(["word[0]", "word[1]"], n_features=n_features)
    for method in (vectorizer.fit, vectorizer.transform, vectorizer.fit_transform):
        with pytest.raises(ValueError, match="n_features must be None or an integer from 2"):
            method([["a"]])


def test_hashed_mode_has_no_counts():
    with pytest.raises(ValueError, match="min_count=2 needs counts"):
        TemplateVectorizer(n_features=100, min_count=2).transform([["a"]])


# As a scikit-learn estimator


def test_parameters_stay_untouched():
    templates = ["word[0]"]
    vectorizer = TemplateVectorizer(templates, min_count=2, dtype="float32")
    before = dict(vectorizer.get_params())
    vectorizer.fit([["a", "a"]])
    assert vectorizer.get_params() == before
    assert vectorizer.templates is templates
    twin = clone(vectorizer)
    assert twin.get_params() == before
    with pytest.raises(NotFittedError):
        twin.transform([["a"]])


def test_set_params_waits_for_fit():
    vectorizer = TemplateVectorizer(["word[0]"]).fit([["a", "b"]])
    vectorizer.set_params(templates=["word[1]"], derived_fields={})
    assert vectorizer.transform([["b"]]).values.toarray().tolist() == [[0.0, 1.0]]
    assert vectorizer.fit([["a"]]).template_names_ == ["word[1]"]


def test_not_fitted():
    vectorizer = TemplateVectorizer(["word[0]"])
    with pytest.raises(NotFittedError, match="call fit or fit_transform"):
        vectorizer.transform([["a"]])
    with pytest.raises(NotFittedError):
        vectorizer.get_feature_names_out()
    with pytest.raises(NotFittedError):
        check_is_fitted(vectorizer)
    assert not hasattr(vectorizer, "groups_")
    check_is_fitted(vectorizer.fit([["a"]]))
    # The hashed mode keeps no vocabulary.
    hashed = TemplateVectorizer(["word[0]"], n_features=10).fit([["a"]]).set_params(n_features=None)
    with pytest.raises(NotFittedError):
        hashed.transform([["a"]])


def test_pickle_of_derived_fields():
    vectorizer = TemplateVectorizer(ner_templates()).fit(random_sentences(5))
    copy = pickle.loads(pickle.dumps(vectorizer))
    test = random_sentences(5, seed=1)
    assert_equal(copy.transform(test), vectorizer.transform(test))


def test_pickle():
    train, test = random_sentences(40), random_sentences(10, seed=1)
    vectorizer = TemplateVectorizer(MIXED, min_count=2).fit(train)
    before = len(pickle.dumps(vectorizer))
    expected = vectorizer.transform(test)
    # The hash tables, built by now, stay behind.
    data = pickle.dumps(vectorizer)
    assert len(data) == before
    copy = pickle.loads(data)
    assert_equal(copy.transform(test), expected)
    assert copy.get_feature_names_out().tolist() == vectorizer.get_feature_names_out().tolist()


def test_tags():
    tags = get_tags(TemplateVectorizer())
    assert not tags.input_tags.two_d_array
    assert tags.requires_fit
    assert not get_tags(TemplateVectorizer(n_features=10)).requires_fit


class MostFrequentLabel(BaseEstimator):
    """Gives each column the mean of its tokens' labels, and each token the sum of its columns'."""

    def fit(self, X, y):
        labels = np.concatenate(list(y))
        self.weights_ = X.values.T @ labels / np.maximum(X.values.sum(axis=0), 1)
        return self

    def predict(self, X):
        return [np.sign(sample @ self.weights_) for sample in X]

    def score(self, X, y):
        return float(np.mean(np.concatenate(self.predict(X)) == np.concatenate(list(y))))


def test_pipeline_and_grid_search():
    X = random_sentences(40)
    y = [np.array([1.0 if token["pos"] == "N" else -1.0 for token in sentence]) for sentence in X]
    pipeline = make_pipeline(TemplateVectorizer(), MostFrequentLabel())
    grid = {
        "templatevectorizer__templates": [["word[0]"], ["pos[0]"]],
        "templatevectorizer__n_features": [None, 64],
    }
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_["templatevectorizer__templates"] == ["pos[0]"]
    assert search.best_score_ == 1.0
    assert search.predict(X[:2])[0].shape == (len(X[0]),)


# Input of users


def test_data_frames_are_tables_of_fields():
    sentences = random_sentences(20)
    tables = [pd.DataFrame(sentence) for sentence in sentences]
    tables[3].index = tables[3].index + 7
    for parameters in ({}, {"n_features": 64}):
        vectorizer = TemplateVectorizer(MIXED, **parameters)
        wanted = vectorizer.fit_transform(sentences)
        for X in (tables, tuple(tables), pd.Series(tables), [*sentences[:5], *tables[5:]]):
            assert_equal(vectorizer.fit_transform(X), wanted)
            assert_equal(vectorizer.transform(X), wanted)
    arcs = ArcVectorizer(["head.pos[0]|mod.word[0]"])
    assert_equal(arcs.fit_transform(tables), arcs.fit_transform(sentences))
    numbers = TemplateVectorizer(["n[0]"]).fit([pd.DataFrame({"n": [1, 2]})])
    assert_equal(numbers.transform([pd.DataFrame({"n": [2, 1]})]), numbers.transform([[{"n": 2}, {"n": 1}]]))
    for X, message in [
        (tables[0], r"X is one DataFrame, .* by sklearn_sparsemap.features.sentences_from_frame, .* \[table\]"),
        ([tables[1][:0]], "X has no tokens; give at least one sentence with a token"),
        ([pd.DataFrame([["a", "b"]], columns=["word", "word"])], r"X\[0\] has two columns of one name"),
        ([pd.DataFrame({"word": ["a", None], "pos": "N"})], r"the field 'word' of X\[0\]\[1\] is .* of type"),
        ([tables[0][["pos"]]], r"X\[0\]\[0\] lacks the field 'word', .*; rename a field to 'word', or leave"),
    ]:
        with pytest.raises(ValueError, match=message):
            TemplateVectorizer(["word[0]", "pos[0]"]).fit(X)


@pytest.mark.parametrize("min_count", [1, 2])
def test_names_of_columns_differ(min_count):
    rng = np.random.default_rng(0)
    values = ["|", "a", "a|", "|a", "\\", "\\|", "a\\", "<begin-1>", "\\<begin-1>", "<end+1>"]
    values += ["1", 1, "\\1", "\\\\1", -1, "-1"]
    X = [[{"f": values[i], "g": values[j]} for i, j in rng.integers(len(values), size=(9, 2))] for _ in range(80)]
    templates = ["f[0]", "g[0]", "f[0]|f[1]", "f[-1]|g[0]", "f[-1]|g[0]|f[1]"]
    names = TemplateVectorizer(templates, min_count=min_count).fit(X).get_feature_names_out().tolist()
    assert len(set(names)) == len(names) > 400
    arcs = ArcVectorizer(["head.f[0]|mod.g[0]", "between.f", "head.f[-1]|direction"], min_count=min_count)
    names = arcs.fit([[{**t, "f": "<root>"} if t["f"] == "a" else t for t in x] for x in X]).get_feature_names_out()
    assert len(set(names.tolist())) == len(names) > 100
    # Values that cannot be mistaken stay as they are.
    plain = TemplateVectorizer(["word[0]", "word[0]|word[1]"]).fit([["a|b\\", "c"]]).get_feature_names_out().tolist()
    assert plain[:2] == ["word[0]=a|b\\", "word[0]=c"]
    assert plain[2:] == ["word[0]|word[1]=a\\|b\\\\|c", "word[0]|word[1]=c|<end+1>"]


def test_derived_fields_are_functions_that_can_be_found_by_name():
    for name, (_, function) in DERIVED_FIELDS.items():
        function = getattr(function, "func", function)
        module = sys.modules[function.__module__]
        assert module.__name__.startswith("sklearn_sparsemap.") and getattr(module, function.__name__) is function, name


@pytest.mark.parametrize("parameters", [{}, {"n_features": 64}, {"derived_fields": {"first": ("word", word_case)}}])
def test_skops(parameters):
    skops = pytest.importorskip("skops.io")
    sentences = random_sentences(20)
    templates = ["first[0]"] if "derived_fields" in parameters else MIXED
    vectorizer = TemplateVectorizer(templates, **parameters).fit(sentences)
    data = skops.dumps(vectorizer)
    loaded = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    assert_equal(loaded.transform(sentences), vectorizer.transform(sentences))
    assert loaded.get_feature_names_out().tolist() == vectorizer.get_feature_names_out().tolist()
    assert_equal(clone(loaded).fit_transform(sentences), vectorizer.fit_transform(sentences))


def test_messages_quote_little():
    for X in ([["a", ["b" * 10_000]]], [[{"word": ["b" * 10_000]}]], [[{"word": "a"}, range(10**9), {"b" * 10_000}]]):
        with pytest.raises(ValueError) as raised:
            TemplateVectorizer().fit(X)
        assert len(str(raised.value)) < 250


# Wrong input


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("a sentence", "X must be a sequence of sentences; got str"),
        (3, "X must be a sequence of sentences; got int"),
        ({"word": "a"}, "X must be a sequence of sentences; got dict"),
        ([], "X has no sentences"),
        ([["a"], "a b"], r"X\[1\] must be a sequence of tokens; got a str; split it"),
        ([{"word": "a"}], r"X\[0\] must be a sequence of tokens; got a dict, which is a token; wrap"),
        ([["a"], 3], r"X\[1\] must be a sequence of tokens; got a int"),
        ([["a"], ["b", 3]], r"X\[1\]\[1\] is 3 of type int; a token must be"),
        ([["a"], [None]], r"X\[1\]\[0\] is None of type NoneType"),
        (np.zeros((2, 3)), r"X\[0\]\[0\] is .*0.0.* of type float64"),
        (
            [["a", "b"], ["c", {"pos": "N"}]],
            r"X\[1\]\[1\] lacks the field 'word', which the template 'word\[0\]' needs \(it has 'pos'\)",
        ),
        ([["a"], [{}]], r"X\[1\]\[0\] lacks the field 'word', .* \(it has no field\)"),
        ([["a", {"word": 0.5}]], r"the field 'word' of X\[0\]\[1\] is 0.5 of type float"),
        ([[{"word": None}]], r"the field 'word' of X\[0\]\[0\] is None of type NoneType; values must be"),
        ([[{"word": ["a"]}]], r"the field 'word' of X\[0\]\[0\] is \['a'\] of type list"),
    ],
)
def test_wrong_sentences(X, message):
    vectorizer = TemplateVectorizer(["word[0]", "word[1]"]).fit([["a"]])
    for method in (vectorizer.fit, vectorizer.transform, vectorizer.set_params(n_features=9).transform):
        with pytest.raises(ValueError, match=message):
            method(X)


def test_wrong_token_among_derived_fields():
    with pytest.raises(ValueError, match=r"X\[1\]\[1\] lacks the field 'word', which the derived field 'shape'"):
        TemplateVectorizer(["shape[0]"]).fit([["a"], [{"shape": "A"}, {"pos": "N"}]])
    message = (
        r"lacks .* 'word', which the derived field 'suffix3' needs \(it has 'token'\); rename a field to 'word', or"
    )
    with pytest.raises(ValueError, match=message + " leave 'suffix3' out of the templates"):
        TemplateVectorizer(["token[0]", "suffix3[0]"]).fit([[{"token": "a"}]])
    with pytest.raises(ValueError, match=r"the field 'word', .*; give every token this field, or leave 'word' out"):
        TemplateVectorizer(["word[0]"]).fit([["a", {"token": "b"}]])
    with pytest.raises(ValueError, match=r"'suffix3' failed for word=7: .*; for text: frame\['word'\].astype\(str\)"):
        TemplateVectorizer(["suffix3[0]"]).fit([[{"word": 7}]])
    with pytest.raises(ValueError, match=r"is 7.5 of type float; .* for text: frame\['word'\].astype\(str\)"):
        TemplateVectorizer(["word[0]"]).fit([[{"word": 7.5}]])


def test_words_that_pandas_reads_as_missing():
    pd = pytest.importorskip("pandas")
    text = "sentence,word\n1,the\n1,null\n"
    templates = TemplateVectorizer(["word[0]"])
    with pytest.raises(
        ValueError, match=r"X\[0\]\[1\] lacks the field 'word'.* as missing, unless keep_default_na=False"
    ):
        templates.fit(sentences_from_frame(pd.read_csv(StringIO(text))))
    templates.fit(sentences_from_frame(pd.read_csv(StringIO(text), keep_default_na=False)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"templates": []}, "templates is empty"),
        ({"templates": "word[0]"}, r"must be a list of templates; write \['word\[0\]'\]"),
        ({"templates": Template.parse("word[0]")}, "must be a list of templates"),
        ({"templates": 3}, "must be a list of templates or strings; got 3"),
        ({"templates": ["word"]}, "cannot read 'word'"),
        ({"templates": [None]}, "parsed from a string; got None"),
        ({"templates": ["word[0]", "word[+0]"]}, "given twice"),
        ({"min_count": 0}, "'min_count' parameter .* must be an int"),
        ({"min_count": 1.5}, "'min_count' parameter .* must be an int"),
        ({"min_count": True}, "'min_count' parameter .* must be an int"),
        ({"dtype": "word"}, "dtype must be"),
        ({"dtype": complex}, "dtype must be"),
        ({"dtype": np.float16}, "dtype must be"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        TemplateVectorizer(**parameters).fit([["a"]])
