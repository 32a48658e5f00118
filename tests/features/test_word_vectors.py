"""Vectors of words and clusters of them: rows compared with slow twins, forms of tables, copies, pickles and files."""

import copy
import pickle
from time import process_time
from types import SimpleNamespace

import numpy as np
import pytest
from naive_features import naive_cluster_names, naive_feature_names, naive_vector_rows
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

from sklearn_sparsemap import GroupLassoPerceptron, StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_word_vectors
from sklearn_sparsemap.features import (
    DERIVED_FIELDS,
    ArcVectorizer,
    RowUnion,
    TemplateVectorizer,
    WordClusters,
    WordVectors,
    ngrams,
)
from sklearn_sparsemap.pipeline import make_structured_pipeline

pd = pytest.importorskip("pandas")

WORDS = ["the", "Paris", "paris", "dog", "Éa", "éa", "a b", "", "NASA", "nasa", "zero"]
SENTENCES = [
    ["The", "dog", "unheard"],
    ["paris", "Paris", "PARIS", "éA"],
    ["", "a b", "Dog", "NASA", "Nasa", "nAsa", "zero"],
    ["x"],
    ["the", "the"],
]


def vectors_of(n_columns=3, seed=0):
    rng = np.random.default_rng(seed)
    vectors = {word: rng.normal(size=n_columns) for word in WORDS}
    vectors["zero"] = np.zeros(n_columns)
    return vectors


def large_table(n=300, n_columns=4):
    """Return a table of more vectors than are clustered all at once."""
    rng = np.random.default_rng(1)
    return [f"w{i}" for i in range(n)], rng.normal(size=(n, n_columns)).astype(np.float32)


class Strings:
    """The strings of a vocabulary as spaCy has them: each string and its hash are keys of the other."""

    def __init__(self, words):
        self._words = {hash(word): word for word in words}

    def __getitem__(self, key):
        return hash(key) if isinstance(key, str) else self._words[key]


def forms(tmp_path):
    """Return the vectors of float32 in all forms: name -> vectors."""
    vectors = {word: row.astype(np.float32) for word, row in vectors_of().items() if word}
    words, matrix = list(vectors), np.stack(list(vectors.values()))
    order = np.random.default_rng(0).permutation(len(words))
    keyed = SimpleNamespace(key_to_index={words[i]: k for k, i in enumerate(order)}, vectors=matrix[order])
    rows = {hash(word): i for i, word in enumerate(words)}
    # A hash whose string is not stored.
    vocabulary = SimpleNamespace(vectors=SimpleNamespace(key2row={7: 0, **rows}, data=matrix), strings=Strings(words))
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(repr, row.tolist()))}\n" for word, row in vectors.items()))
    return {
        "dict": vectors,
        "dict of lists": {word: row.tolist() for word, row in vectors.items()},
        "pair": (words, matrix),
        "pair of arrays": (np.array(words), matrix),
        "list": [tuple(words), matrix.tolist()],
        "keyed vectors": keyed,
        "vocabulary": vocabulary,
        "path": path,
        "name": str(path),
        "loaded": load_word_vectors(path),
    }


# -- Rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("window", [0, 1, 3])
@pytest.mark.parametrize("unknown", ["indicator", "mean"])
@pytest.mark.parametrize("normalize", [True, False])
def test_vectors_are_those_of_the_slow_twin(window, lower, unknown, normalize):
    vectors = vectors_of()
    transformer = WordVectors(vectors, window, lower, unknown=unknown, normalize=normalize)
    rows = transformer.fit_transform(SENTENCES)
    names = transformer.get_feature_names_out()
    assert rows.values.shape[1] == len(names) == len(set(names)) == transformer.n_features_out_
    for found, sentence in zip(rows, SENTENCES, strict=True):
        wanted = naive_vector_rows(sentence, vectors, window, lower, unknown, normalize)
        for row, named in zip(found, wanted, strict=True):
            assert set(named) <= set(names)
            np.testing.assert_allclose(row, [named.get(name, 0.0) for name in names], rtol=1e-12, atol=1e-14)
    # A place of the window is a group.
    assert [transformer.template_names_[g] for g in rows.groups] == [name.partition("]")[0] + "]" for name in names]


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("window", [0, 1, 3])
def test_clusters_are_those_of_the_slow_twin(window, lower):
    vectors = vectors_of()
    transformer = WordClusters(vectors, (2, 5), window, lower=lower, random_state=0)
    rows = transformer.fit_transform(SENTENCES)
    names = transformer.get_feature_names_out()
    assert sparse.issparse(rows.values) and rows.values.has_canonical_format and (rows.values.data == 1).all()
    assert rows.values.shape[1] == len(names) == len(set(names)) == transformer.n_features_out_
    units = {word: row / (np.sqrt(np.sum(row**2)) or 1.0) for word, row in vectors.items()}
    seed = np.random.RandomState(0).randint(2**31 - 1)
    labels = {}
    for n in (2, 5):
        found = KMeans(n, n_init=1, random_state=seed).fit(list(units.values())).labels_
        labels[f"cluster{n}"] = dict(zip(vectors, found.tolist()))
    for found, sentence in zip(rows, SENTENCES, strict=True):
        wanted = naive_cluster_names(sentence, labels, window, lower)
        assert [sorted(names[a.indices].tolist()) for a in found] == [sorted(own) for own in wanted]
    assert [transformer.template_names_[g] for g in rows.groups] == [name.partition("=")[0] for name in names]
    assert np.array_equal(rows.groups, transformer.groups_)


@pytest.mark.parametrize("window", [0, 2])
def test_clusters_in_templates_are_those_of_the_transformer(window):
    clusters = WordClusters(vectors_of(), (2, 4), window, random_state=0).fit()
    rows = clusters.transform(SENTENCES)
    templates = [*ngrams("cluster2", 1, window), *ngrams("cluster4", 1, window)]
    for fields in (clusters.derived_fields_, {**DERIVED_FIELDS, **clusters.derived_fields_}):
        vectorizer = TemplateVectorizer(templates, derived_fields=fields)
        for sentences in (SENTENCES, [[{"word": word} for word in sentence] for sentence in SENTENCES]):
            made = vectorizer.fit_transform(sentences)
            place = {name: column for column, name in enumerate(clusters.get_feature_names_out())}
            columns = [place[name] for name in vectorizer.get_feature_names_out()]
            assert (made.values != rows.values[:, columns]).nnz == 0
            # The others do not occur.
            assert made.values.nnz == rows.values.nnz and vectorizer.template_names_ == clusters.template_names_


def test_clusters_are_combined_in_templates():
    fields = WordClusters(vectors_of(), (2, 4), random_state=0).fit().derived_fields_
    sentences = [
        [{"word": word, **{name: function(word) for name, (_, function) in fields.items()}} for word in sentence]
        for sentence in SENTENCES
    ]
    assert {token["cluster4"] for sentence in sentences for token in sentence} > {"<unknown>", 0}
    templates = ["cluster2[-1]|cluster2[0]", "cluster4[0]|word[1]", "cluster2[0]|cluster4[0]|shape[-1]"]
    vectorizer = TemplateVectorizer(templates, derived_fields={**DERIVED_FIELDS, **fields})
    rows = vectorizer.fit_transform(SENTENCES)
    names = vectorizer.get_feature_names_out()
    for found, sentence in zip(rows, sentences, strict=True):
        wanted = naive_feature_names(sentence, templates)
        assert [names[row.indices].tolist() for row in found] == wanted
    hashed = TemplateVectorizer(templates, derived_fields={**DERIVED_FIELDS, **fields}, n_features=64)
    assert hashed.transform(SENTENCES).values.nnz == rows.values.nnz
    arcs = ArcVectorizer(["head.cluster4[0]|mod.cluster4[0]"], derived_fields=fields).fit(SENTENCES)
    assert arcs.get_feature_names_out()[0].startswith("head.cluster4[0]|mod.cluster4[0]=<root>|")


def test_the_exact_form_comes_before_the_lower_case_one():
    vectors = {"Paris": [1.0], "paris": [2.0], "rome": [3.0]}
    words = [["Paris", "PARIS", "paris", "Rome"]]
    found = {
        lower: WordVectors(vectors, lower=lower, normalize=False).fit_transform(words)[0] for lower in (True, False)
    }
    assert found[1].tolist() == [[1.0, 0.0], [2.0, 0.0], [2.0, 0.0], [3.0, 0.0]]
    assert found[0].tolist() == [[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    "transformer", [WordVectors(vectors_of(), 1), WordClusters(vectors_of(), 3, 1, random_state=0)]
)
def test_tokens_of_all_kinds(transformer):
    rows = transformer.fit_transform(SENTENCES)

    def dense(rows):
        return rows.values.toarray() if sparse.issparse(rows.values) else rows.values

    dicts = [[{"word": word, "n": 1} for word in sentence] for sentence in SENTENCES]
    for same in (dicts, [pd.DataFrame(sentence) for sentence in dicts], tuple(map(tuple, SENTENCES))):
        assert np.array_equal(dense(transformer.transform(same)), dense(rows))
    other = clone(transformer).set_params(field="form")
    renamed = [[{"form": token["word"]} for token in sentence] for sentence in dicts]
    assert np.array_equal(dense(other.fit_transform(renamed)), dense(rows))
    with pytest.raises(ValueError, match=r"X\[0\]\[0\] lacks the field 'form', .*or name another one by field=$"):
        other.transform(SENTENCES)
    # Sentences without tokens.
    some = transformer.transform([[], SENTENCES[0], []])
    assert some.lengths.tolist() == [0, 3, 0] and np.array_equal(
        dense(some), dense(transformer.transform(SENTENCES[:1]))
    )
    none = transformer.transform([[], []])
    assert none.values.shape == (0, transformer.n_features_out_) and none.lengths.tolist() == [0, 0]
    # Numbers are words without a vector.
    assert np.array_equal(dense(transformer.transform([[{"word": 7}]])), dense(transformer.transform([["unheard"]])))
    for wrong in ("the dog", [1, 2], [["a", 1.5]]):
        with pytest.raises(ValueError, match="X"):
            transformer.transform(wrong)
    frames = clone(transformer).fit().set_output(transform="pandas").transform(SENTENCES)
    assert list(frames[0].columns) == transformer.get_feature_names_out().tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_have_the_type(dtype):
    for transformer in (WordVectors(vectors_of(), dtype=dtype), WordClusters(vectors_of(), 2, dtype=dtype)):
        assert transformer.fit_transform(SENTENCES).values.dtype == dtype


# -- Tables -----------------------------------------------------------------------------------------------------------


def test_all_forms_of_a_table_give_the_same_rows(tmp_path):
    tables = forms(tmp_path)
    wanted = WordVectors(tables["dict"], 1).fit_transform(SENTENCES).values
    clusters = {}
    for name, table in tables.items():
        assert np.allclose(WordVectors(table, 1).fit_transform(SENTENCES).values, wanted, rtol=1e-6), name
        labels = WordClusters(table, 3, random_state=0).fit_transform(SENTENCES).values
        clusters[name] = labels.indices.tolist()
    # Clusters of vectors in another order are others.
    del clusters["keyed vectors"]
    assert len(clusters) == 9 and len(set(map(tuple, clusters.values()))) == 1


def test_words_may_share_a_vector():
    vocabulary = SimpleNamespace(
        vectors=SimpleNamespace(key2row={hash("a"): 1, hash("b"): 1, hash("c"): 0}, data=np.eye(3)[:2] * 2.0),
        strings=Strings("abc"),
    )
    assert WordVectors(vocabulary).fit_transform([["a", "b", "c", "d"]])[0].tolist() == [
        [0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]
    ]  # fmt: skip
    with pytest.raises(ValueError, match="n_clusters=3 exceeds the number of vectors, 2"):
        WordClusters(vocabulary, 3).fit()


def test_of_a_word_given_twice_the_first_vector_counts():
    found = WordVectors((["a", "b", "a"], np.arange(1.0, 4.0)[:, None]), normalize=False).fit_transform([["a", "b"]])
    assert found.values[:, 0].tolist() == [1.0, 2.0]


def test_arrays_are_not_copied():
    words, matrix = large_table()
    matrix.flags.writeable = False
    for table in ((words, matrix), SimpleNamespace(key_to_index={w: i for i, w in enumerate(words)}, vectors=matrix)):
        assert np.shares_memory(WordVectors(table).fit()._table.matrix, matrix)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "vectors must be a dict"),
        (3, "vectors must be a dict"),
        ([["a"], [[1.0]], []], "vectors must be a dict"),
        ({}, "vectors must have rows"),
        ({"a": 1.0}, r"the vector of 'a' has shape \(\)"),
        ({"a": [1.0], "b": [1.0, 2.0]}, r"the vector of 'b' has shape \(2,\), that of 'a' \(1,\)"),
        ({"a": [1.0], "b": [np.nan]}, "the vector of 'b' has NaN"),
        ({"a": [1.0], 2: [1.0]}, "words of vectors must be strings; got 2 of type int"),
        ({"a": ["x"]}, "vectors must hold numbers"),
        ({"a": []}, "vectors must have rows and columns"),
        (("ab", np.ones((2, 1))), "its first entry is the string 'ab'"),
        ((["a", "b"], np.ones((3, 1))), "2 words and 3 rows"),
        ((["a"], np.ones(1)), "must have rows and columns"),
        ((["a"], sparse.eye_array(1, format="csr")), "must hold numbers"),
        ((["a"], np.ma.masked_array([[1.0]], [[True]])), "masked"),
        (SimpleNamespace(key_to_index={"a": 1}, vectors=np.ones((1, 1))), "needs a row from 0 to 0"),
        (SimpleNamespace(key_to_index={"a": -1}, vectors=np.ones((1, 1))), "needs a row from 0 to 0"),
        (SimpleNamespace(vectors=SimpleNamespace(key2row={}), strings={}), "no word vectors; load a pipeline"),
    ],
    ids=str,
)
def test_wrong_tables(table, message):
    for transformer in (WordVectors(table), WordClusters(table, 1)):
        with pytest.raises(ValueError, match=message):
            transformer.fit()
    with pytest.raises(NotFittedError):
        transformer.transform(SENTENCES)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_clusters": n} for n in (0, -1, 2.5, True, "2", (), (2, 2), (2, 0), [2.0], None, 100)
    ] + [{"window": w} for w in (-1, 1.5, None, True)] + [{"lower": "yes"}, {"field": 3}, {"dtype": "text"},
    {"random_state": "x"}],
    ids=str,
)  # fmt: skip
def test_wrong_parameters_of_clusters(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        WordClusters(vectors_of(), **{"n_clusters": 2, **parameters}).fit()


@pytest.mark.parametrize("parameters", [{"unknown": "drop"}, {"normalize": 2}, {"window": -1}, {"dtype": int}], ids=str)
def test_wrong_parameters_of_vectors(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        WordVectors(vectors_of(), **parameters).fit()


# -- Clusters ---------------------------------------------------------------------------------------------------------


def test_clusters_depend_on_their_seed_and_size_alone():
    table = large_table()
    found = WordClusters(table, [3, 20], random_state=0).fit()
    for n, labels in ((3, found._labels[0]), (20, found._labels[1])):
        again = WordClusters(table, n, 0, random_state=0).fit()
        assert np.array_equal(again._labels[0], labels) and len(set(labels.tolist())) <= n
    other = WordClusters(table, 20, random_state=1).fit()
    assert not np.array_equal(other._labels[0], found._labels[1])
    drawn = np.random.RandomState(0)
    first, second = (WordClusters(table, 20, random_state=drawn).fit()._labels[0] for _ in range(2))
    assert np.array_equal(first, found._labels[1]) and not np.array_equal(first, second)


def test_clusters_join_similar_words():
    rng = np.random.default_rng(0)
    centres = 5.0 * rng.normal(size=(10, 20))
    kinds = rng.integers(10, size=600)
    # Lengths do not matter.
    matrix = (centres[kinds] + rng.normal(size=(600, 20))) * rng.uniform(0.1, 10.0, size=(600, 1))
    labels = WordClusters(([f"w{i}" for i in range(600)], matrix), 40, random_state=0).fit()._labels[0]
    n_pure = sum(len(set(kinds[labels == label].tolist())) == 1 for label in set(labels.tolist()))
    assert n_pure >= 0.9 * len(set(labels.tolist())) and len(set(labels.tolist())) >= 20


# -- Copies, pickles, files, searches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vectors", "clusters"])
def test_clones_share_the_vectors(kind):
    words, matrix = large_table()
    slow = {word: row for word, row in zip(words, matrix)}

    class Unlike(dict):
        def __deepcopy__(self, memo):
            raise AssertionError("copied")

    for table in (slow, (words, matrix), Unlike(slow)):
        transformer = WordVectors(table, 1) if kind == "vectors" else WordClusters(table, (2, 3), 1)
        transformer.set_output(transform="pandas")
        fitted = clone(transformer).fit()
        union = RowUnion([("words", TemplateVectorizer(["word[0]"])), ("vectors", fitted)])
        made = clone(make_structured_pipeline(union, StructuredSparseMAPClassifier("chain")))
        for copied in (clone(transformer), clone(fitted), made[0].transformers[1][1]):
            assert copied.vectors is table and type(copied) is type(transformer) and not hasattr(copied, "_table")
            assert copied.get_params() == {**transformer.get_params(), "vectors": table}
            assert copied._sklearn_output_config == {"transform": "pandas"}
        for copied in (copy.copy(fitted), copy.deepcopy(clone(fitted).set_params(vectors=(words, matrix)).fit())):
            assert copied._table.matrix.shape == matrix.shape
    assert copy.deepcopy(fitted._table) is fitted._table


def test_vectorizers_with_clusters_share_the_vectors():
    words, matrix = large_table(2000, 300)
    fields = WordClusters((words, matrix), 2, random_state=0).fit().derived_fields_
    vectorizer = TemplateVectorizer(["cluster2[0]"], derived_fields=fields)
    begin = process_time()
    for _ in range(100):
        copied = clone(vectorizer)
    assert process_time() - begin < 1.0
    assert copied.derived_fields["cluster2"][1] is fields["cluster2"][1]


@pytest.mark.parametrize("made", [WordVectors(vectors_of(), 1), WordClusters(vectors_of(), (2, 3), 1, random_state=0)])
def test_pickles_and_files(made, tmp_path):
    def parts(transformer):
        rows = transformer.transform(SENTENCES)
        values = rows.values.toarray() if sparse.issparse(rows.values) else rows.values
        return values.tolist(), rows.groups.tolist(), transformer.get_feature_names_out().tolist()

    fitted = clone(made).fit()
    wanted = parts(fitted)
    assert parts(pickle.loads(pickle.dumps(fitted))) == wanted
    assert parts(pickle.loads(pickle.dumps(made)).fit()) == wanted
    np.savez(tmp_path / "model.npz", **fitted.to_arrays())
    with np.load(tmp_path / "model.npz") as file:
        arrays = dict(file)
    again = type(made).from_arrays(arrays)
    assert parts(again) == wanted and parts(clone(again).fit()) == wanted
    second = again.to_arrays()
    assert second.keys() == arrays.keys() and all(second[name].tobytes() == arrays[name].tobytes() for name in arrays)
    # The vectors are written once.
    assert sum(array.nbytes == len(WORDS) * 3 * 8 for array in arrays.values()) == 1
    with pytest.raises(ValueError, match=r"clusters|unknown words|cluster from|vectors must have a cluster"):
        type(made).from_arrays(arrays, vectors={"a": [1.0, 2.0]})
    with pytest.raises(NotFittedError):
        made.to_arrays()


def test_files_hold_vectors_of_any_form(tmp_path):
    for name, table in forms(tmp_path).items():
        arrays = WordVectors(table).fit().to_arrays()
        if name in ("path", "name"):
            (tmp_path / "vectors.txt").rename(tmp_path / "moved.txt")
        again = WordVectors.from_arrays(arrays)
        if (tmp_path / "moved.txt").exists():
            (tmp_path / "moved.txt").rename(tmp_path / "vectors.txt")
        assert np.array_equal(again.transform(SENTENCES).values, WordVectors(table).fit_transform(SENTENCES).values)


def test_vectorizers_with_clusters_are_pickled_and_written():
    clusters = WordClusters(vectors_of(), (2, 4), random_state=0).fit()
    templates = ["cluster2[-1]|cluster4[0]", "word[0]"]
    own = TemplateVectorizer(templates, derived_fields=clusters.derived_fields_)
    with_others = clone(own).set_params(derived_fields={**DERIVED_FIELDS, **clusters.derived_fields_})
    wanted = own.fit_transform(SENTENCES).values
    arrays = own.to_arrays()
    assert (TemplateVectorizer.from_arrays(arrays).transform(SENTENCES).values != wanted).nnz == 0
    read = WordClusters.from_arrays(clusters.to_arrays())
    for vectorizer in (own, with_others.fit(SENTENCES)):
        assert (pickle.loads(pickle.dumps(vectorizer)).transform(SENTENCES).values != wanted).nnz == 0
        fields = {**vectorizer.derived_fields, **read.derived_fields_}
        again = TemplateVectorizer.from_arrays(vectorizer.to_arrays(), derived_fields=fields)
        assert (again.transform(SENTENCES).values != wanted).nnz == 0


def tagged(n=40, seed=0):
    """Return sentences whose labels are kinds of words, and vectors that tell the kinds."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(3, size=200)
    vectors = {f"w{i}": np.eye(3)[kind] + 0.1 * rng.normal(size=3) for i, kind in enumerate(kinds)}
    X = [[f"w{i}" for i in rng.integers(200, size=rng.integers(2, 7))] for _ in range(n)]
    y = [["abc"[kinds[int(word[1:])]] for word in sentence] for sentence in X]
    return vectors, X, y


def test_models_learn_unseen_words_from_vectors():
    vectors, X, y = tagged()
    templates = TemplateVectorizer(["word[0]"])
    scores = {}
    for name, parts in {
        "words": [("templates", templates)],
        "vectors": [("templates", templates), ("vectors", WordVectors(vectors))],
        "clusters": [("templates", templates), ("clusters", WordClusters(vectors, 6, 0, random_state=0))],
        "frozen": [("clusters", FrozenEstimator(WordClusters(vectors, 6, 0, random_state=0).fit()))],
    }.items():
        model = make_structured_pipeline(RowUnion(parts), StructuredSparseMAPClassifier("chain", alpha=1e-3))
        scores[name] = model.fit(X[:10], y[:10]).score(X[10:], y[10:])
    assert scores["words"] < 0.8 and min(scores["vectors"], scores["clusters"], scores["frozen"]) > 0.95


def test_searches_over_nested_parameters():
    vectors, X, y = tagged()
    union = RowUnion([("words", TemplateVectorizer(["word[0]"])), ("vectors", WordVectors(vectors))])
    model = make_structured_pipeline(union, StructuredSparseMAPClassifier("chain", alpha=1e-2))
    clusters = WordClusters(vectors, 6, random_state=0)
    grid = [
        {"rowunion__vectors__window": [0, 1], "rowunion__vectors__unknown": ["indicator", "mean"]},
        {"rowunion__vectors": [clusters], "rowunion__vectors__n_clusters": [2, (3, 6)]},
    ]
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
    assert len(search.cv_results_["params"]) == 6 and search.best_score_ > 0.9
    assert search.best_estimator_[0].named_transformers_["vectors"].vectors is not None


def test_groups_of_vectors_are_selected():
    vectors, X, y = tagged()
    union = RowUnion([("words", TemplateVectorizer(["shape[0]"])), ("clusters", WordClusters(vectors, (3, 6), 1))])
    rows = union.fit_transform(X)
    assert union.template_names_[:3] == ["words__shape[0]", "clusters__cluster3[-1]", "clusters__cluster3[0]"]
    model = GroupLassoPerceptron("chain", groups="templates", budget=1, random_state=0).fit(rows, y)
    (selected,) = model.selected_group_names_
    assert selected in ("clusters__cluster3[0]", "clusters__cluster6[0]")
