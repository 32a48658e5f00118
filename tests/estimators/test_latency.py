"""A few samples take few calls of Python, and the same results and errors as many samples."""

import pickle
import sys

import numpy as np
import pytest
from internals import replace
from scipy import sparse
from sklearn.exceptions import NotFittedError

from sklearn_sparsemap import GroupLassoPerceptron, RaggedArray, StructuredSparseMAPClassifier
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.features import TokenDictVectorizer
from sklearn_sparsemap.pipeline import make_structured_pipeline
from sklearn_sparsemap.structures import DependencyTree, Matching, Segmentation, Subset

# A few iterations suffice for weights that differ from zero.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

MANY = 40  # more samples than are a few


def sentences(seed=0, n=MANY):
    """Return sentences of dicts with strings, numbers and bools, and their labels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        words = [f"w{k}" for k in rng.integers(0, 30, rng.integers(1, 9))]
        X.append([
            {"bias": 1.0, "word": w, "last": w[-1], "length": len(w), "even": int(w[-1]) % 2 == 0}
            | {"x": float(rng.normal())} | ({"first": True} if i == 0 else {"before": words[i - 1]})
            for i, w in enumerate(words)
        ])  # fmt: skip
        y.append([["O", "B", "I"][int(w[1:]) % 3] for w in words])
    return X, y


def calls_of(function):
    """Return the number of calls of Python functions."""
    n = 0

    def record(frame, event, _):
        nonlocal n
        n += event == "call"

    function()
    previous = sys.getprofile()
    sys.setprofile(record)
    try:
        function()
    finally:
        sys.setprofile(previous)
    return n


def by_the_long_way(monkeypatch, function):
    """Return the result of a function, or the text of its error, without the path of a few samples."""
    with monkeypatch.context() as patch:
        replace(patch, "estimators", "predict_few", lambda *_: None)
        replace(patch, "features", "rows_of_few", lambda *_: None)
        return outcome(function)


def outcome(function):
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


def same(a, b):
    if isinstance(a, RaggedArray):
        parts = ("data", "indices", "indptr")
        alike = all(
            np.array_equal(getattr(a.values, name), getattr(b.values, name))
            and getattr(a.values, name).dtype == getattr(b.values, name).dtype
            for name in parts
        )
        return alike and a.values.shape == b.values.shape and np.array_equal(a.indptr, b.indptr)
    if isinstance(a, tuple):
        return a == b
    return type(a) is type(b) and len(a) == len(b) and all(np.array_equal(p, q) for p, q in zip(a, b))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("n_features", [None, 64])
def test_rows_of_few_sentences_are_those_of_many(monkeypatch, dtype, n_features):
    X, _ = sentences()
    vectorizer = TokenDictVectorizer(dtype=dtype, n_features=n_features, min_count=1 if n_features else 2).fit(X)
    rows = vectorizer.transform(X)
    for i in range(len(X)):
        own = vectorizer.transform(X[i : i + 1])
        assert (own.values != rows[i : i + 1].values).nnz == 0 and own.values.has_canonical_format
        assert same(own, by_the_long_way(monkeypatch, lambda i=i: vectorizer.transform(X[i : i + 1])))
        assert own.group_names == rows.group_names and np.array_equal(own.groups, rows.groups)


ODD = [
    [[]], [[], []], [[{}]], [[{}], []], [], [[{"word": "w1"}], []], [({"word": "w1"},)], ([{"word": "w1", "x": 2}],),
    [[{"word": "w1", "x": float("nan")}]], [[{"x": np.inf}]], [[{"x": -np.inf}]], [[{"x": 2**70}]], [[{"x": 10**400}]],
    [[{"word": None}]], [[{1: "a"}]], [[{None: 1.0}]], [[{("a", "b"): "a"}]], [[{"word": ["w1", "w2"]}]],
    [[{"word": {"a": 1}}]],
    [["word=w1"]], [[["word=w1", "word=w2"]]], [[3]], [["word"]], ["word"], {"word": "w1"}, "word", None,
    [{"word": "w1"}],
    [[{"word": np.str_("w1"), "x": np.float32(0.5)}]], [[{"word": "w1", "word:w1": 1.0}]],
    [[{"word": "new", "other": 2.0}]],
    [[{"x": 0.0, "word": "w1"}]], [[{"even": True, "length": False, "x": 0}]], [[{"word": b"w1"}]], [[{"x": 1j}]],
    [[{"last": "1", "word": "w1"}, {"word": "w1", "last": "1", "bias": 0.5}]], [[{"x": 1e300}]],
    np.array([[{"word": "w1"}]], object),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_sentences_have_the_same_rows_predictions_and_errors(monkeypatch, number):
    X, y = sentences()
    pipeline = make_structured_pipeline(TokenDictVectorizer(), StructuredSparseMAPClassifier("chain", max_iter=5))
    pipeline.fit(X, y)
    for call in (lambda: pipeline[0].transform(ODD[number]), lambda: pipeline.predict(ODD[number])):
        assert same(outcome(call), by_the_long_way(monkeypatch, call))


def random_problems():
    """Yield (name, structure, X, y) with a few features."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 7, MANY)
    steps = [rng.normal(size=(n, 4)) for n in lengths]
    labels = [rng.integers(0, 3, n) for n in lengths]
    yield "chain", "chain", steps, labels
    yield "segmentation", Segmentation(7), steps, labels
    yield "tree", DependencyTree(), steps_of(rng, 12), [np.array([0, 1, 2])] * MANY
    yield "subset", Subset(1, 2), steps_of(rng, 5), [np.array([True, False, False, False, False])] * MANY
    yield "matching", Matching(), [rng.normal(size=(2, 2, 3)) for _ in range(MANY)], [np.array([1, 0])] * MANY
    yield "flat", "auto", rng.normal(size=(MANY, 4)), rng.integers(0, 3, MANY)


def steps_of(rng, n):
    return [rng.normal(size=(n, 4)) for _ in range(MANY)]


PROBLEMS = {name: rest for name, *rest in random_problems()}


@pytest.mark.parametrize("form", ["dense", "sparse", "ragged", "ragged sparse", "float32", "lists"])
@pytest.mark.parametrize("loss", ["sparsemap", "perceptron", "crf"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_few_samples_have_the_predictions_of_many(monkeypatch, name, loss, form):
    structure, X, y = PROBLEMS[name]
    if loss == "crf" and name == "matching":
        pytest.skip("matchings have no marginals")
    if form != "dense" and name in ("matching", "flat"):
        pytest.skip("one form is enough")
    convert = {
        "dense": lambda x: x,
        "sparse": sparse.csr_array,
        "ragged": RaggedArray.from_list,
        "ragged sparse": lambda x: RaggedArray.from_list([sparse.csr_array(own) for own in x]),
        "float32": lambda x: x.astype(np.float32),
        "lists": lambda x: x.tolist(),
    }[form]
    X = convert(X) if form.startswith("ragged") else X if name == "flat" else [convert(x) for x in X]
    model = StructuredSparseMAPClassifier(structure, loss, max_iter=5).fit(X, y)
    whole = model.predict(X)
    for i in range(0, MANY, 7):
        for own in (X[i : i + 1], X[i : i + 5]):
            predicted = model.predict(own)
            assert same(predicted, by_the_long_way(monkeypatch, lambda own=own: model.predict(own)))
            assert all(np.array_equal(p, q) for p, q in zip(predicted, whole[i : i + len(predicted)], strict=True))


def test_odd_samples_and_parameters_have_the_same_errors(monkeypatch):
    structure, X, y = PROBLEMS["chain"]
    model = StructuredSparseMAPClassifier(structure, max_iter=5).fit(X, y)
    rows = RaggedArray.from_list([sparse.csr_array(x) for x in X[:2]])
    x = X[0]
    bad = {
        "empty": np.zeros((0, 4)), "nan": np.full((2, 4), np.nan), "inf": np.full((2, 4), np.inf),
        "large": np.full((2, 4), 1e101), "narrow": x[:, :3], "one axis": x[0], "text": np.array([["a"] * 4]),
        "strided": np.asfortranarray(x)[::-1], "objects": x.astype(object),
    }  # fmt: skip
    n_compared = 0
    for sample in bad.values():
        for own in ([sample], [x, sample], (sample,), sample):
            call = lambda own=own: model.predict(own)  # noqa: E731
            assert same(outcome(call), by_the_long_way(monkeypatch, call))
            n_compared += 1
    for part, values in (
        ("indices", np.full_like(rows.values.indices, 4)), ("indices", np.full_like(rows.values.indices, -1)),
        ("indptr", np.full_like(rows.values.indptr, 9)), ("data", np.full_like(rows.values.data, np.nan)),
        ("data", rows.values.data[:-1]), ("indices", rows.values.indices.astype(np.float64)),
        ("indices", rows.values.indices[:, None]), ("data", rows.values.data * 1e101),
    ):  # fmt: skip
        other = pickle.loads(pickle.dumps(rows))
        setattr(other.values, part, values)
        assert same(outcome(lambda: model.predict(other)), by_the_long_way(monkeypatch, lambda: model.predict(other)))
        n_compared += 1
    for indptr in ([0, 1], [0, 99], [0, 3, 2], [0.0, 1.0], [1, 2]):
        other = pickle.loads(pickle.dumps(rows))
        other.indptr = np.array(indptr)
        assert same(outcome(lambda: model.predict(other)), by_the_long_way(monkeypatch, lambda: model.predict(other)))
        n_compared += 1
    for limit in (None, 1, 0.0, -1.0, np.inf, np.nan, True, "1"):
        call = lambda limit=limit: model.predict([x], map_time_limit=limit)  # noqa: E731
        assert same(outcome(call), by_the_long_way(monkeypatch, call))
        n_compared += 1
    for name, value in (("n_jobs", 0), ("n_jobs", 1.5), ("n_jobs", "2"), ("n_jobs", 2), ("n_features_in_", 3),
                        ("classes_", np.array(["a", "b"])), ("_mask", np.zeros(2))):  # fmt: skip
        other = pickle.loads(pickle.dumps(model))
        setattr(other, name, value)
        assert same(outcome(lambda: other.predict([x])), by_the_long_way(monkeypatch, lambda: other.predict([x])))
        n_compared += 1
    assert n_compared == 64
    fresh = make_structured_pipeline(TokenDictVectorizer(), StructuredSparseMAPClassifier("chain"))
    with pytest.raises(NotFittedError, match="This StructuredPipeline instance is not fitted yet"):
        fresh.predict([[{"word": "a"}]])


def test_predictions_follow_edits_of_the_model(monkeypatch):
    X, y = sentences()
    pipeline = make_structured_pipeline(TokenDictVectorizer(), StructuredSparseMAPClassifier("chain", max_iter=20))
    pipeline.fit(X, y)
    vectorizer, model = pipeline[0], pipeline[-1]
    before = pipeline.predict(X[:1])[0]

    def check():
        own = pipeline.predict(X[:1])
        assert same(own, by_the_long_way(monkeypatch, lambda: pipeline.predict(X[:1])))
        return own[0].tolist()

    assert check() == before.tolist()
    model.coef_ = -model.coef_
    assert check() != before.tolist()
    model.intercept_[:] = [1e3, 0.0, 0.0]
    assert set(check()) == {model.classes_[0]}
    model.intercept_ = [0.0, 1e3, 0.0]
    assert set(check()) == {model.classes_[1]}
    model.classes_ = np.array(["x", "y", "z"])
    assert set(check()) == {"y"}
    model.transitions_ = np.full((3, 3), -np.inf)
    assert len(X[0]) == 1 or same(outcome(lambda: pipeline.predict(X[:1])),
                                  by_the_long_way(monkeypatch, lambda: pipeline.predict(X[:1])))  # fmt: skip
    vectorizer.set_params(separator="=")
    assert vectorizer.transform(X[:1]).values.nnz < 9 * len(X[0])
    stream = GroupLassoPerceptron("chain", random_state=0)
    rows = TokenDictVectorizer().fit_transform(X)
    for i in range(4):
        stream.partial_fit(rows[i : i + 4], y[i : i + 4], classes=["B", "I", "O"])
        own = stream.predict(rows[:2])
        assert same(own, by_the_long_way(monkeypatch, lambda: stream.predict(rows[:2])))


def test_one_sentence_takes_few_calls():
    X, y = sentences()
    pipeline = make_structured_pipeline(TokenDictVectorizer(), StructuredSparseMAPClassifier("chain", max_iter=5))
    pipeline.fit(X, y)
    assert calls_of(lambda: pipeline.predict(X[:1])) <= 150
    rows = pipeline[0].transform(X[:1])
    assert calls_of(lambda: pipeline[-1].predict(rows)) <= 90


def test_sets_of_five_samples_take_few_calls():
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(5, 4)) for _ in range(30)], [rng.integers(0, 3, 5) for _ in range(30)]
    model = StructuredSparseMAPClassifier("chain", max_iter=5).fit(X, y)
    conformal = ConformalStructures(model).conformalize(X, y)
    assert sum(map(len, conformal.predict_set(X[:5]))) > 500
    assert calls_of(lambda: conformal.predict_set(X[:5])) <= 1500
