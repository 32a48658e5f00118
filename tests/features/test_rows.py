"""Rows from dicts of features, from data frames, from transformers of flat data, and side by side."""

import pickle
from itertools import chain

import numpy as np
import pytest
from internals import replace
from naive_features import naive_token_dict
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from sklearn_sparsemap import GroupLassoPerceptron, RaggedArray, StructuredSparseMAPClassifier
from sklearn_sparsemap.features import (
    OnRows,
    RowUnion,
    TemplateVectorizer,
    TokenDictVectorizer,
    sentences_from_frame,
)
from sklearn_sparsemap.pipeline import make_structured_pipeline

pd = pytest.importorskip("pandas")

rng = np.random.default_rng(0)


def random_token(kind):
    """Draw a token: of a few forms, of one of many forms, of any form with nested values, or a list of strings."""
    word = str(rng.choice(["a", "b", "c:d", "e"]))
    token = {"bias": 1.0, "word": word, "up": bool(rng.random() < 0.5), "n": int(rng.integers(3)), "f": rng.random()}
    if rng.random() < 0.5:
        token["BOS"] = True
    if kind == "flags":
        names = rng.permutation([*token, *"abcdefgh"])[: rng.integers(10)].tolist()
        return {name: token.get(name, True) for name in names}
    if kind == "nested":
        order = rng.permutation(list(token)).tolist()
        token = {name: token[name] for name in order[:4]}
        token["near"] = {"word": word, "deep": {"n": 2.5, "s": word}, "all": [word, "x", word]}
        token["vector"] = [0.5, 1, 0.0]
        token["word:c"] = "d"
    return [f"word={word}", "bias"] if kind == "strings" else token


def random_sentences(kind, n=12):
    return [[random_token(kind) for _ in range(rng.integers(1, 6))] for _ in range(n)]


def rows_by_name(rows, names):
    return [
        [{str(names[j]): row[j] for j in np.flatnonzero(row)} for row in sample.toarray()] for sample in rows.tolist()
    ]


# Of 300 sentences, "flags" have more than 64 forms, and on average fewer than 100 tokens for each: these are numbered
# in other ways than few tokens.
@pytest.mark.parametrize("n_sentences", [12, 300])
@pytest.mark.parametrize("kind", ["plain", "flags", "nested", "strings", "mixed"])
def test_token_dicts_are_read_as_crfsuite_reads_them(kind, n_sentences):
    X, other = (
        [s for k in ("plain", "flags", "nested", "strings") for s in random_sentences(k, n_sentences)]
        if kind == "mixed"
        else random_sentences(kind, n_sentences)
        for _ in range(2)
    )
    vectorizer = TokenDictVectorizer()
    for vec in (vectorizer, clone(vectorizer)):
        rows = vec.fit_transform(X)
        names = vec.get_feature_names_out()
        assert len(set(names)) == len(names) == vec.n_features_out_ == rows.values.shape[1]
        for sentences in (X, other):
            known = set(names.tolist())
            expected = [
                [{n: v for n, v in naive_token_dict(t).items() if v and n in known} for t in s] for s in sentences
            ]
            made = vec.transform(sentences)
            assert made.values.has_canonical_format and np.all(made.values.data)
            found = rows_by_name(made, names)
            assert [[set(t) for t in s] for s in found] == [[set(t) for t in s] for s in expected]
            for a, b in zip((t for s in found for t in s), (t for s in expected for t in s), strict=True):
                assert all(a[name] == pytest.approx(b[name]) for name in b)
    assert abs(vec.fit_transform(X).values - vec.transform(X).values).max() == 0
    # The columns of an attribute lie side by side.
    assert (np.diff(rows.groups) >= 0).all() and np.array_equal(rows.groups, vec.groups_)
    if kind != "mixed":
        starts = {vec.template_names_[g]: str(names[rows.groups == g][0]) for g in set(rows.groups.tolist())}
        assert all(name.startswith(attribute) for attribute, name in starts.items())


@pytest.mark.parametrize(
    "value",
    [
        ("x",) * 1000, tuple("xy"), frozenset("abc"), {"n": {"m": ("x", {"y"})}}, 2**40, -(2**80), -3, 300, 70_000,
        np.float32(0.5), np.str_("x"), np.bool_(True), "é" * 300, "\ud800", "\U0001f600", "", np.arange(3.0), [], -0.0,
        type("Text", (str,), {})("x"), 1.5e300,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_values_of_any_type_are_read_as_without_pickles(value, monkeypatch):
    # Flat dicts of plain types are read from their pickles, others from the objects themselves.
    plain = [{"a": "x", "b": True}, {"b": 2, "a": "y"}, {"a": "x", "c": 1.0}]
    X = [plain, [{"a": "z"}, {"a": value, "b": 1}, {}], [{"a": value}] * 2, plain * 3]
    own = TokenDictVectorizer()
    rows = own.fit_transform(X)
    replace(monkeypatch, "features", "number_dicts", lambda tokens: None)
    other = TokenDictVectorizer()
    assert abs(other.fit_transform(X).values - rows.values).max() == 0
    assert other.get_feature_names_out().tolist() == own.get_feature_names_out().tolist()
    assert other.template_names_ == own.template_names_ and np.array_equal(other.groups_, own.groups_)


@pytest.mark.parametrize("kind", ["plain", "flags"])
def test_pieces_of_pickles_are_numbered_together(kind, monkeypatch):
    X = random_sentences(kind, 200)
    vectorizer = TokenDictVectorizer()
    rows, names = vectorizer.fit_transform(X), vectorizer.get_feature_names_out()
    for at_once in (1, 7):
        replace(monkeypatch, "features", "_AT_ONCE", at_once)
        assert abs(vectorizer.fit_transform(X).values - rows.values).max() == 0
        assert np.array_equal(vectorizer.get_feature_names_out(), names)


def test_tokens_without_features_have_empty_rows():
    vectorizer = TokenDictVectorizer().fit([[{"a": 1}]])
    for token in ({}, []):
        rows = vectorizer.transform([[token]]).values
        assert rows.shape == (1, 1) and rows.nnz == 0
        with pytest.raises(ValueError, match="give tokens features"):
            TokenDictVectorizer().fit([[token]])


def test_token_dicts_hashed_counted_and_kept():
    X = random_sentences("nested")
    hashed = TokenDictVectorizer(n_features=64)
    rows = hashed.transform(X)
    assert rows.groups is None and rows.values.shape[1] == 64 == len(hashed.get_feature_names_out())
    assert abs(hashed.fit(X).transform(X).values - rows.values).max() == 0
    total = sum(sum(naive_token_dict(t).values()) for s in X for t in s)
    assert rows.values.sum() == pytest.approx(total)
    frequent = TokenDictVectorizer(min_count=5).fit(X)
    # The hashed mode keeps nothing of an earlier fit.
    changed = TokenDictVectorizer().fit(X).set_params(n_features=64).fit(X)
    assert not hasattr(changed, "groups_") and not hasattr(changed, "template_names_")
    with pytest.raises(NotFittedError):
        changed.set_params(n_features=None).transform(X)
    counts = {}
    for s in X:
        for t in s:
            for name in naive_token_dict(t):
                counts[name] = counts.get(name, 0) + 1
    kept = set(frequent.get_feature_names_out())
    assert kept >= {name for name, n in counts.items() if n >= 10}
    assert not kept & {name for name, n in counts.items() if n < 2}
    loaded = pickle.loads(pickle.dumps(frequent))
    assert abs(loaded.transform(X).values - frequent.transform(X).values).max() == 0
    frames = TokenDictVectorizer().fit([pd.DataFrame({"word": ["a", "b"], "up": [True, False]})])
    assert frames.get_feature_names_out().tolist() == ["word:a", "word:b", "up"]
    model = GroupLassoPerceptron("chain", groups="templates", budget=2, random_state=0, shrink_every=5)
    y = [["x" if naive_token_dict(t).get("up") else "y" for t in s] for s in X]
    model.fit(TokenDictVectorizer().fit_transform(X), y)
    assert len(model.selected_groups_) <= 2


@pytest.mark.parametrize(
    "X, message",
    [
        ([[{"a": None}]], r"X\[0\]\[0\]: the feature 'a' is None of type NoneType"),
        ([[{"a": 1}], [{"a": 1}, {"a": np.nan}]], r"the feature 'a' of X\[1\]\[1\] is nan"),
        ([[{"a": 10**400}]], r"the feature 'a' of X\[0\]\[0\] is inf"),
        ([[{"a": [1, 10**400]}]], r"the feature 'a:1' of X\[0\]\[0\] is inf"),
        ([[{1: "b"}]], r"X\[0\]\[0\]: names of features are strings; got 1"),
        ([[["a", 2]]], r"X\[0\]\[0\]: a token that is a list holds strings; got 2"),
        ([[3]], r"X\[0\]\[0\]: a token is a dict of features, or a list of strings; got 3"),
        ([[], []], "X has no tokens"),
        ([{"a": 1}], r"X\[0\] must be a sequence of tokens; got a dict"),
    ],
)
def test_messages_name_the_token(X, message):
    with pytest.raises(ValueError, match=message):
        TokenDictVectorizer().fit(X)


def test_messages_of_parameters():
    with pytest.raises(NotFittedError, match="n_features for the hashed mode"):
        TokenDictVectorizer().transform([[{"a": 1}]])
    for parameters, message in (
        ({"n_features": 0}, "n_features"),
        ({"n_features": 8, "min_count": 2}, "the hashed mode keeps none"),
        ({"dtype": "int3"}, "dtype must be"),
        ({"min_count": 9}, "no feature occurs 9 times"),
    ):
        with pytest.raises(ValueError, match=message):
            TokenDictVectorizer(**parameters).fit([[{"a": 1}]])
    with pytest.raises(ValueError, match="transform='arrow' is not one of"):
        TokenDictVectorizer().set_output(transform="arrow")


def make_rows(n=6):
    return [rng.normal(size=(rng.integers(1, 5), 4)) for _ in range(n)]


def test_on_rows_knows_the_columns_of_the_last_fit():
    two = [np.arange(6.0).reshape(3, 2)]
    for transformer in (StandardScaler(), FunctionTransformer(np.log1p)):
        on_rows = OnRows(transformer).fit(two)
        assert on_rows.transform([np.zeros((0, 2))]).values.shape == (0, 2)
        on_rows.fit([two[0][:, :1]])
        assert (
            on_rows.transform([np.zeros((0, 1))]).values.shape == (0, 1) and len(on_rows.get_feature_names_out()) == 1
        )
    with pytest.raises(ValueError, match="input_features"):
        OnRows(StandardScaler()).fit(two).get_feature_names_out(["only one"])
    for samples, kind in (([[[1.0]], 5], "int"), ([["the", "dog"], "abc"], "str"), ([np.eye(2), np.int64(3)], "int64")):
        with pytest.raises(ValueError, match=rf"X\[1\] must be a sequence of rows; got {kind}"):
            OnRows(FunctionTransformer()).fit(samples)


class FirstColumn(TransformerMixin, BaseEstimator):
    """Keeps the first column of at least two rows; its columns have no names."""

    def fit(self, X, y=None):
        self.is_fitted_ = True
        return self

    partial_fit = fit

    def transform(self, X):
        if len(X) < 2:
            raise ValueError("a single row has no rank")
        return np.asarray(X)[:, :1]


def test_on_rows_fits_transformers_that_refuse_a_single_row():
    X = make_rows()
    for fitted in (OnRows(FirstColumn()).fit(X), OnRows(FirstColumn()).partial_fit(X)):
        assert fitted.get_feature_names_out().tolist() == ["x0"]
        assert fitted.transform([np.zeros((0, 4))]).values.shape == (0, 1)
        assert np.array_equal(fitted.transform(X).values[:, 0], np.vstack(X)[:, 0])


def test_frozen_transformers_of_rows_learn_nothing():
    X = make_rows()
    scaler = StandardScaler().fit(np.vstack(X))
    mean = scaler.mean_.copy()
    on_rows = OnRows(FrozenEstimator(scaler)).partial_fit([x + 9.0 for x in X])
    assert np.array_equal(scaler.mean_, mean)
    assert np.allclose(on_rows.transform(X).values, scaler.transform(np.vstack(X)))


def test_passed_samples_have_their_names_and_numbers_of_columns():
    arrays = make_rows()
    passing = RowUnion([("all", "passthrough")])
    assert not hasattr(passing, "n_features_in_")
    with pytest.raises(ValueError, match="the part 'all' has the columns of the samples, and there were none yet"):
        passing.get_feature_names_out()
    assert passing.get_feature_names_out(["p", "q"]).tolist() == ["all__p", "all__q"]
    assert passing.fit(arrays).n_features_in_ == 4 and len(passing.get_feature_names_out()) == 4
    frames = [pd.DataFrame(x, columns=list("pqrs")) for x in arrays]
    assert passing.fit(frames).get_feature_names_out().tolist() == ["all__p", "all__q", "all__r", "all__s"]
    assert not hasattr(passing.set_params(all=OnRows(StandardScaler())).fit(frames), "feature_names_in_")
    rows = TemplateVectorizer(["word[0]", "word[-1]"]).fit_transform([["the", "dog"], ["cats"]])
    joined = RowUnion([("all", "passthrough"), ("kept", OnRows(StandardScaler(with_mean=False)))]).fit(rows)
    assert joined.template_names_ == ["all__word[0]", "all__word[-1]", "kept__word[0]", "kept__word[-1]"]


def test_on_rows_is_the_transformer_on_all_rows():
    X = make_rows()
    stacked = np.vstack(X)
    for transformer in (StandardScaler(), PCA(2)):
        on_rows = OnRows(transformer)
        rows = on_rows.fit_transform(X)
        assert np.allclose(rows.values, clone(transformer).fit_transform(stacked))
        assert [len(x) for x in X] == rows.lengths.tolist()
        again = pickle.loads(pickle.dumps(clone(on_rows).fit(X))).transform(RaggedArray.from_list(X))
        assert np.allclose(again.values, rows.values)
        assert len(on_rows.get_feature_names_out()) == rows.values.shape[1]
    frames = OnRows(StandardScaler()).set_output(transform="pandas").fit(X).transform(X)
    assert clone(OnRows(PCA(2)).set_output(transform="pandas")).fit_transform(X)[0].columns.tolist() == ["pca0", "pca1"]
    assert frames[1].columns.tolist() == ["x0", "x1", "x2", "x3"] and len(frames[1]) == len(X[1])
    sparse_rows = RaggedArray.from_list([sparse.csr_array(x) for x in X])
    kept = OnRows(VarianceThreshold(0.5)).fit(RaggedArray(sparse_rows.values, sparse_rows.indptr, groups=[0, 1, 1, 2]))
    wide = RaggedArray(sparse_rows.values, sparse_rows.indptr, groups=[0, 1, 1, 2])
    assert np.array_equal(kept.transform(wide).groups, np.array([0, 1, 1, 2])[kept.transformer_.get_support()])
    assert OnRows(StandardScaler(with_mean=False)).fit_transform(wide).groups.tolist() == [0, 1, 1, 2]
    scaler = OnRows(StandardScaler()).partial_fit(X[:3]).partial_fit(X[3:])
    assert np.allclose(scaler.transform(X).values, OnRows(StandardScaler()).fit_transform(X).values)
    assert not hasattr(OnRows(PCA(2)), "partial_fit")
    y = [["ab"[int(row[2] > 0)] for row in x] for x in X]
    assert OnRows(SelectKBest(k=1)).fit(X, y).get_feature_names_out().tolist() == ["x2"]

    class Means(TransformerMixin, BaseEstimator):
        def partial_fit(self, X, y=None):
            self.labels_ = y
            return self

    assert OnRows(Means()).partial_fit(X, y).transformer_.labels_ == list(chain.from_iterable(y))


def test_on_rows_takes_words_dicts_and_frames():
    words = [["the", "dog"], ["cats"]]
    tfidf = TfidfVectorizer(analyzer="char")
    assert abs(OnRows(tfidf).fit_transform(words).values - tfidf.fit_transform(["the", "dog", "cats"])).max() == 0
    frames = [pd.DataFrame({"n": [1.0, 2.0], "c": ["x", "y"]}), pd.DataFrame({"n": [0.5], "c": ["x"]})]
    columns = make_column_transformer((StandardScaler(), ["n"]), (OneHotEncoder(), ["c"]))
    rows = OnRows(columns).fit_transform(frames)
    assert rows.lengths.tolist() == [2, 1] and rows.values.shape == (3, 3)
    with pytest.raises(ValueError, match=r"X\[1\] has other columns than X\[0\]"):
        OnRows(columns).fit([frames[0], frames[1][["n"]]])
    stateless = OnRows(FunctionTransformer(lambda words: np.array([[len(w)] for w in words])))
    assert not stateless.__sklearn_tags__().requires_fit
    assert stateless.transform(words).values.ravel().tolist() == [3, 3, 4]
    with pytest.raises(ValueError, match="one row of features for each of 3 rows"):
        OnRows(FunctionTransformer(lambda words: np.zeros((2, 1)))).transform(words)
    with pytest.raises(ValueError, match=r"X\[0\] must be a sequence of rows; got str"):
        OnRows(tfidf).fit(["the dog"])


def test_row_union_puts_columns_side_by_side():
    words = [["the", "dog"], ["cats"]]
    lengths = OnRows(FunctionTransformer(lambda words: np.array([[len(w)] for w in words])))
    union = RowUnion([("t", TemplateVectorizer(["word[0]", "word[-1]"])), ("n", lengths), ("off", "drop")])
    rows = union.fit_transform(words)
    parts = [TemplateVectorizer(["word[0]", "word[-1]"]).fit_transform(words).values.toarray(), [[3], [3], [4]]]
    assert np.array_equal(rows.values.toarray(), np.hstack(parts))
    assert np.array_equal(union.transform(words).values.toarray(), rows.values.toarray())
    assert union.template_names_ == ["t__word[0]", "t__word[-1]", "n"]
    assert rows.groups.tolist() == [0, 0, 0, 1, 1, 2] == union.groups_.tolist()
    names = union.get_feature_names_out().tolist()
    assert names[0] == "t__word[0]=the" and names[-1] == "n__x0" and len(names) == 6
    assert union.set_params(t__min_count=2).get_params()["t__min_count"] == 2
    assert clone(union).set_params(n="drop").fit([["a", "a"]]).template_names_ == ["t__word[0]", "t__word[-1]"]
    hashed = RowUnion([("h", TemplateVectorizer(["word[0]"], n_features=4)), ("n", clone(lengths))])
    assert not hashed.__sklearn_tags__().requires_fit and hashed.transform(words).values.shape == (3, 5)
    frame = RowUnion([("n", lengths)]).set_output(transform="pandas").fit_transform(words)
    assert frame[0]["n__x0"].tolist() == [3, 3]
    arrays = make_rows()
    passed = RowUnion([("all", "passthrough"), ("pca", OnRows(PCA(1)))]).fit(arrays)
    assert passed.transform(arrays).values.shape[1] == 5 and len(passed.get_feature_names_out()) == 5
    with pytest.raises(ValueError, match="'b' makes 1 rows of X\\[0\\], 'a' 2"):
        short = OnRows(FunctionTransformer(lambda words: [[1.0]]))
        short.transform = lambda X: RaggedArray(np.ones((2, 1)), [0, 1, 2])
        short.fit_transform = lambda X, y=None: short.transform(X)
        first = TemplateVectorizer(["word[0]"])
        union = RowUnion([("a", first), ("b", short)])
        union._fitted = union.transformers
        first.fit(words)
        union.transform(words)
    with pytest.raises(ValueError, match="'a' must be a transformer, 'drop' or 'passthrough'"):
        RowUnion([("a", 3)]).fit(words)
    with pytest.raises(ValueError, match="'a' must be a transformer, 'drop' or 'passthrough'; got 'keep'"):
        RowUnion([("a", "keep")]).fit(words)
    with pytest.raises(NotFittedError):
        RowUnion([("t", TemplateVectorizer())]).transform(words)


def test_sentences_from_frame():
    frame = pd.DataFrame(
        {"doc": [1, 1, 1, 2], "sentence": ["s", None, "t", "s"], "word": ["a", "b", None, "d"],
         "label": ["X", None, "Y", "X"]}
    )  # fmt: skip
    X, y = sentences_from_frame(frame, ["doc", "sentence"], "label")
    assert X == [[{"word": "a"}, {"word": "b"}], [{}], [{"word": "d"}]] and y == [["X", None], ["Y"], ["X"]]
    tables = sentences_from_frame(frame, ["doc", "sentence"], fields=["word", "label"], frames=True)
    assert [len(t) for t in tables] == [2, 1, 1] and tables[0].columns.tolist() == ["word", "label"]
    with pytest.raises(ValueError, match="the sentence 's' continues in row 3"):
        sentences_from_frame(frame)
    assert sentences_from_frame(frame[["word", "sentence"]].iloc[:3], fields="word")[0] == [
        {"word": "a"},
        {"word": "b"},
    ]
    for bad, message in (
        (frame[["sentence", "word", "word"]], "the frame has two columns 'word'; rename one"),
        (frame.assign(sentence=[None, "s", "t", "u"]), "the first row has no 'sentence'"),
        (frame.iloc[:0], "has no rows"),
        (frame.drop(columns="sentence"), "no column 'sentence'; it has 'doc', 'word', 'label'; .* by sentence="),
        ([1], "must be a DataFrame"),
    ):
        with pytest.raises(ValueError, match=message):
            sentences_from_frame(bad)
    for name, value in (("label", "tag"), ("fields", ["word", "tag"])):
        with pytest.raises(ValueError, match=f"no column 'tag'; it has .*; name the right one by {name}="):
            sentences_from_frame(frame, ["doc", "sentence"], **{name: value})


def test_lists_of_frames_train_a_model():
    X = [pd.DataFrame(x, columns=list("abcd")) for x in make_rows(10)]
    y = [["ab"[int(v > 0)] for v in x["a"]] for x in X]
    model = StructuredSparseMAPClassifier("chain", loss="crf").fit(X, y)
    assert model.score(X, y) > 0.9 and model.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.predict([x[["b", "a", "c", "d"]] for x in X])


def test_the_configured_output():
    X, words = [rng.normal(size=(n, 3)) for n in (2, 3)], [["a", "b"], ["b"]]
    union = RowUnion([("scaled", OnRows(StandardScaler())), ("same", "passthrough")])
    with config_context(transform_output="pandas"):
        scaled, joined = OnRows(StandardScaler()).fit_transform(X), union.fit_transform(X)
        assert [list(x.columns) for x in scaled] == [["x0", "x1", "x2"]] * 2
        assert list(joined[1].columns)[:4] == ["scaled__x0", "scaled__x1", "scaled__x2", "same__x0"]
        # Sparse rows may have millions of columns, so that they are frames only on request.
        vectorizer = TemplateVectorizer(["word[0]"])
        assert isinstance(vectorizer.fit_transform(words), RaggedArray)
        assert list(vectorizer.set_output(transform="pandas").transform(words)[0].columns) == ["word[0]=a", "word[0]=b"]
        own = OnRows(StandardScaler()).set_output(transform="default").fit_transform(X)
        assert isinstance(own, RaggedArray)
        model = make_structured_pipeline(OnRows(StandardScaler()), StructuredSparseMAPClassifier("chain"))
        assert model.fit(X, [[0, 1], [1, 0, 1]])[-1].feature_names_in_.tolist() == ["x0", "x1", "x2"]
    for x, y in zip(scaled, own.tolist(), strict=True):
        np.testing.assert_array_equal(x.to_numpy(), y)
    assert union.n_features_in_ == OnRows(StandardScaler()).fit(X).n_features_in_ == 3
    assert not hasattr(OnRows(StandardScaler()), "n_features_in_")


def test_parts_of_a_union_may_lack_fit_transform():
    X = random_sentences("plain")
    fitted = TokenDictVectorizer().fit(X[:3])
    union = RowUnion([("frozen", FrozenEstimator(fitted)), ("own", TokenDictVectorizer())])
    rows = union.fit_transform(X)
    wanted = sparse.hstack([fitted.transform(X).values, TokenDictVectorizer().fit_transform(X).values])
    assert abs(rows.values - wanted).max() == 0 and abs(union.transform(X).values - wanted).max() == 0
    assert union.template_names_[0] == f"frozen__{fitted.template_names_[0]}"
