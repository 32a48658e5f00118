"""The work and the memory of readers, vectorizers, hierarchies and checks grow like their input.

Each case makes an input of size n, 2n and 4n. Ratios of the least of several times in one process, and of the memory
that Python traces, must not exceed `LIMIT` for a doubling; with quadratic work they are 4.
"""

import gc
import io
import sys
import time
import tracemalloc
from functools import cache

import numpy as np
import pytest
from internals import modules_with
from scipy import sparse

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier, map_inference
from sklearn_sparsemap.datasets import (
    dump_conllu,
    load_conll,
    load_conllu,
    load_hierarchical_arff,
    load_listops,
    load_multilabel_arff,
    load_partition,
    save_partition,
)
from sklearn_sparsemap.factors import Hierarchy
from sklearn_sparsemap.features import (
    ArcVectorizer,
    OnRows,
    RowUnion,
    TemplateVectorizer,
    TokenDictVectorizer,
    sentences_from_frame,
)
from sklearn_sparsemap.metrics import (
    convert_spans,
    flat_accuracy_score,
    flat_f1_score,
    sequence_accuracy_score,
    span_f1_score,
    unlabeled_attachment_score,
)
from sklearn_sparsemap.structures import LinearChain

LIMIT = 2.6  # largest ratio of time or memory for a doubling of the input
ROUNDS = 25  # rounds of measurement, after which a ratio counts; a busy machine needs more than the usual two


# The hashes of tokens, their key, and the selection of training samples.
token_hashes = modules_with("features", "number_dicts")[0]
SECRET = modules_with("features", "SECRET")[0].SECRET
LabelSequences = modules_with("estimators", "LabelSequences")[0].LabelSequences


def ratios_of(times):
    return times[1] / times[0], times[2] / times[1]


def measure(make, n):
    """Return the least CPU times of a case at n, 2n and 4n; rounds are repeated until the ratios are small."""
    calls = [make(n * factor) for factor in (1, 2, 4)]
    calls[0]()
    least = [np.inf] * 3
    gc.disable()
    # What libraries have made takes longer to look through than most calls take.
    gc.freeze()
    try:
        for number in range(ROUNDS):
            for k, call in enumerate(calls):
                start = time.thread_time()
                call()
                least[k] = min(least[k], time.thread_time() - start)
            gc.collect()
            if number and max(ratios_of(least)) <= LIMIT:
                break
    finally:
        gc.unfreeze()
        gc.enable()
    return least


def peak_of(call):
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


CASES = {}


def case(n, memory=True):
    """Register a function that maps n to a call, with its smallest n."""

    def register(make):
        CASES[make.__name__] = make, n, memory
        return make

    return register


def read(load, text, *arguments, fails=None, **options):
    """Return a call that reads a text, or fails with a message."""

    def call():
        if fails is None:
            load(io.StringIO(text), *arguments, **options)
        else:
            with pytest.raises(ValueError, match=fails):
                load(io.StringIO(text), *arguments, **options)

    return call


# -- Readers -----------------------------------------------------------------------------------------------------------


@case(3000)
def conll_of_one_long_sentence(n):
    return read(load_conll, "word N B\n" * n)


@case(2000)
def conll_of_short_sentences(n):
    return read(load_conll, "word N B\n\n\n" * n)


@case(3000)
def conll_of_words_that_are_never_twice(n):
    return read(load_conll, "".join(f"w{i} p{i} l{i}\n" for i in range(n)))


@case(300_000)
def conll_of_one_long_word(n):
    return read(load_conll, "w" * n + " N B\n")


@case(2000)
def conllu_of_a_chain(n):
    return read(load_conllu, "".join(f"{k}\tw\t_\tN\t_\t_\t{k - 1}\t_\t_\t_\n" for k in range(1, n + 1)))


@case(2000)
def conllu_of_a_cycle(n):
    lines = (f"{k}\tw\t_\tN\t_\t_\t{k % n + 1}\t_\t_\t_\n" for k in range(1, n + 1))
    return read(load_conllu, "".join(lines), fails="cycle")


@case(1000)
def conllu_with_comments_and_multiword_tokens(n):
    text = "# c\n1-2\tww\t_\t_\t_\t_\t_\t_\t_\t_\n1\tw\t_\tN\t_\t_\t0\t_\t_\t_\n2\tv\t_\tN\t_\t_\t1\t_\t_\t_\n\n"
    return read(load_conllu, text * n, keep=True)


@case(1000)
def conllu_that_is_written(n):
    return lambda: dump_conllu([["a", "b"]] * n, [[2, 0]] * n, [["x", "y"]] * n, io.StringIO())


HEAD = "@relation r\n@attribute x numeric\n@attribute a {0,1}\n@data\n"


@case(50_000)
def arff_of_quotes_before_a_comment(n):
    return read(load_multilabel_arff, HEAD + "'a" * n + "%\n", 1, fails="has 1 values")


@case(50_000)
def arff_of_one_long_quoted_value(n):
    return read(load_multilabel_arff, HEAD + "'" + "a" * n + "',0\n", 1, fails="is not a number")


@case(50_000)
def arff_of_escapes(n):
    return read(load_multilabel_arff, HEAD + "'" + "\\a" * n + "',0 % c\n", 1, fails="is not a number")


@case(8000)
def arff_of_open_quotes(n):
    return read(load_multilabel_arff, HEAD + "\"'\\'" * n + "%\n", 1, fails="has 1 values")


@case(50_000)
def arff_of_a_long_name(n):
    return read(load_multilabel_arff, "@attribute '" + "a" * n + "' numeric\n" + HEAD[12:] + "1,2,0\n", 1)


@case(50_000)
def arff_of_commas_and_spaces(n):
    return read(load_multilabel_arff, HEAD + "1, " + "{ ," * n + "}\n", 1, fails="values for 2 attributes")


@case(3000)
def arff_of_dense_rows(n):
    return read(load_multilabel_arff, HEAD + "1.5,1 % c\n" * n, 1)


@case(3000)
def arff_of_sparse_rows(n):
    return read(load_multilabel_arff, HEAD + "{0 2.5,1 1}\n" * n, 1)


@case(1500)
def arff_of_labels_by_number(n):
    labels = "".join(f"@attribute l{i} {{0,1}}\n" for i in range(n))
    return read(load_multilabel_arff, HEAD.replace("@data\n", labels + "@data\n{0 1}\n"), n)


@case(1500)
def arff_of_labels_by_name(n):
    labels = "".join(f"@attribute l{i} {{0,1}}\n" for i in range(n))
    text = HEAD.replace("@data\n", labels + "@data\n{0 1}\n")
    return read(load_multilabel_arff, text, label_names=[f"l{i}" for i in range(n)])


@case(1000)
def arff_of_labels_by_xml(n):
    labels = "".join(f"@attribute l{i} {{0,1}}\n" for i in range(n))
    text = HEAD.replace("@data\n", labels + "@data\n{0 1}\n")
    xml = "<labels>" + "".join(f'<label name="l{i}"/>' for i in range(n)) + "</labels>"
    return lambda: load_multilabel_arff(io.StringIO(text), label_names=io.StringIO(xml))


@case(2000)
def arff_of_a_value_that_is_twice(n):
    values = ",".join([*map(str, range(n)), f"{n - 1}"])
    return read(load_multilabel_arff, f"@attribute c {{{values}}}\n" + HEAD[12:], 1, fails="twice")


@case(1000)
def arff_of_nominal_codes(n):
    values = ",".join(map(str, range(n)))
    return read(load_multilabel_arff, HEAD.replace("x numeric", f"x {{{values}}}") + f"{n - 1},1\n", 1)


@case(40)
def arff_of_nominal_attributes_between_numbers(n):
    attributes = "".join(f"@attribute x{i} real\n@attribute c{i} {{a,b,c}}\n" for i in range(n))
    rows = "{0 1,1 b}\n" * 5
    return read(load_multilabel_arff, HEAD.replace("@attribute x numeric\n", attributes) + rows, 1)


def hierarchical(classes, rows):
    return f"@relation r\n@attribute f numeric\n@attribute class hierarchical {classes}\n@data\n{rows}"


@case(500)
def hierarchy_of_a_chain_of_edges(n):
    edges = ",".join(["root/c0", *(f"c{i}/c{i + 1}" for i in range(n - 1))])
    return read(load_hierarchical_arff, hierarchical(edges, f"1,c{n - 1}\n"))


@case(1000)
def hierarchy_of_wide_paths(n):
    return read(load_hierarchical_arff, hierarchical(",".join(f"a/b{i}" for i in range(n)), "1,a/b0\n"))


@case(1000)
def hierarchy_of_edges_that_are_repeated(n):
    return read(load_hierarchical_arff, hierarchical(",".join(["root/a"] + ["a/b"] * n), "1,a\n"))


@case(300)
def listops_of_nested_brackets(n):
    return read(load_listops, "3\t" + "( " * n + "[MAX 1" + " )" * n + "\n", fails="is not a value, a tab")


@case(300)
def listops_of_many_lines(n):
    return read(load_listops, "3\t( ( ( [MAX 1 ) 3 ) ] )\n" * n)


@case(2000)
def partitions(n):
    X, y = [np.ones((2, 2))] * n, [["a", "b"]] * n

    def call():
        save_partition(PATH, X, y)
        load_partition(PATH)

    return call


# -- Vectorizers -------------------------------------------------------------------------------------------------------


def texts(n, seed=0):
    letters = np.random.default_rng(seed).integers(33, 92, (n, 8))
    return ["".join(map(chr, row)) for row in letters.tolist()]


SPREAD = np.uint64(0xBF58476D1CE4E5B9)
INVERSE = np.uint64(pow(int(SPREAD), -1, 1 << 64))


def crafted_bits(n, basis, seed=0):
    """Return integers whose hashes in `features/_rows/pickled.py` share their low 24 bits, for a known basis."""
    keys = np.random.default_rng(seed).integers(0, 1 << 40, n, dtype=np.uint64) << np.uint64(24)
    mixed = (keys ^ (keys >> np.uint64(29)) ^ (keys >> np.uint64(58))) * INVERSE
    return mixed ^ (mixed >> np.uint64(32)) ^ np.uint64(basis % (1 << 64))


@cache
def crafted_words(n, basis):
    found, seed = [], 0
    while len(found) < n:
        # The hash of a text begins with its length.
        letters = crafted_bits(1_000_000, basis + 8, seed).view(np.uint8).reshape(-1, 8)
        good = ((letters >= 33) & (letters < 127) & (letters != 92)).all(axis=1)
        found += [row.tobytes().decode() for row in letters[good]]
        seed += 1
    return found[:n]


def crafted_floats(n, basis):
    values = crafted_bits(2 * n, basis).view(np.float64)
    return values[np.isfinite(values) & (abs(values) < 1e200)][:n].tolist()


def transform_dicts(tokens):
    vectorizer = TokenDictVectorizer().fit([[{"w": "a"}, {"w": "b"}]])
    return lambda: vectorizer.transform([tokens])


@case(2000)
def dicts_of_random_words(n):
    return transform_dicts([{"w": word} for word in texts(n)])


@case(1500)
def dicts_of_words_crafted_for_the_constant_basis(n):
    return transform_dicts([{"w": word} for word in crafted_words(6000, 0xCBF29CE484222325)[:n]])


@case(4000)
def dicts_of_numbers_crafted_for_the_basis_of_this_process(n):
    # Even if the key became known, the work would be bounded.
    return transform_dicts([{"w": value} for value in crafted_floats(n, token_hashes._BASIS)])


@case(200)
def dicts_of_names_crafted_for_the_basis_of_this_process(n):
    return transform_dicts([dict.fromkeys(crafted_words(800, token_hashes._BASIS)[:n], "x")])


@case(2000)
def dicts_of_integers_with_equal_hashes(n):
    return transform_dicts([{"w": k * sys.hash_info.modulus} for k in range(n)])


@case(1000)
def nested_dicts_of_integers_with_equal_hashes(n):
    return transform_dicts([{"w": {"v": k * sys.hash_info.modulus}} for k in range(n)])


@case(500)
def dicts_of_distinct_attributes(n):
    tokens = [{f"a{k}": "x", f"b{k}": 1.0} for k in range(n)]
    return lambda: TokenDictVectorizer().fit_transform([tokens])


@case(500)
def dicts_of_sets(n):
    tokens = [{"s": {f"a{k}", "b", "c"}} for k in range(n)]
    return lambda: TokenDictVectorizer().fit_transform([tokens])


@case(500)
def dict_of_one_large_set(n):
    return lambda: TokenDictVectorizer().fit_transform([[{"s": set(texts(n))}]])


@case(1000)
def lists_of_strings(n):
    tokens = [[f"a={k}", "b"] for k in range(n)]
    return lambda: TokenDictVectorizer().fit_transform([tokens])


@case(1000)
def hashed_dicts(n):
    vectorizer = TokenDictVectorizer(n_features=2**10)
    tokens = [{"w": word} for word in texts(n)]
    return lambda: vectorizer.transform([tokens])


@case(500)
def templates_of_one_sentence(n):
    tokens = [{"word": word} for word in texts(n)]
    return lambda: TemplateVectorizer(["word[-1]|word[0]", "word[0]"]).fit_transform([tokens])


@case(500)
def templates_of_integers_near_the_limit(n):
    tokens = [{"word": 2**62 + k} for k in range(n)]
    return lambda: TemplateVectorizer(["word[0]"]).fit_transform([tokens])


@case(50)
def arcs_of_many_sentences(n):
    X = [[{"word": word, "pos": "N"} for word in texts(5, seed)] for seed in range(n)]
    return lambda: ArcVectorizer(["head.word[0]|mod.word[0]", "head.pos[0]"]).fit_transform(X)


@case(500)
def rows_of_sentences(n):
    from sklearn.feature_extraction import FeatureHasher

    X = [[{"a": 1.0}]] * n
    union = RowUnion([("hash", OnRows(FeatureHasher(8))), ("dicts", TokenDictVectorizer(n_features=8))])
    return lambda: union.fit(X).transform(X)


@case(2000)
def frames(n):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"s": np.repeat(np.arange(n // 2), 2), "word": "w", "label": "a"})
    return lambda: sentences_from_frame(table, "s", label="label")


# -- Hierarchies -------------------------------------------------------------------------------------------------------


@case(1000)
def hierarchy_from_wide_paths(n):
    paths = ["r", *(f"r/n{i}" for i in range(n))]

    def call():
        hierarchy = Hierarchy(paths)
        hierarchy.binarize([["r/n1"], "n2", "r/n3"])

    return call


@case(1000)
def hierarchy_of_equal_last_parts(n):
    # Paths from an ancestor in the middle down, whose last part ends many paths.
    paths = ["r", *(f"r/n{i}" for i in range(n)), *(f"r/n{i}/x" for i in range(n))]
    samples = [[f"n{i}/x" for i in range(n)]]

    def call():
        with pytest.raises(ValueError, match="no label of the hierarchy"):
            Hierarchy(paths).binarize(samples)

    return call


@case(500)
def hierarchy_of_a_chain(n):
    hierarchy = Hierarchy.from_edges([(f"c{i + 1}", f"c{i}") for i in range(n)])
    return lambda: hierarchy.binarize([[f"c{n}"], ["c0"]])


@case(500)
def hierarchy_that_is_made_from_a_chain(n):
    edges = [(f"c{i + 1}", f"c{i}") for i in range(n)]
    return lambda: Hierarchy.from_edges(edges)


@case(500)
def hierarchy_of_many_parents(n):
    edges = [("leaf", f"c{i}") for i in range(n)]
    return lambda: Hierarchy.from_edges(edges).binarize(["leaf"])


@case(500)
def hierarchy_of_levels(n):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": [f"a{i}" for i in range(n)], "b": [f"b{i}" for i in range(n)]})
    return lambda: Hierarchy(table).binarize(table[:2])


def chain_model():
    return StructuredSparseMAPClassifier("chain").fit([np.eye(2)] * 4, [["A", "B"]] * 4)


# -- Checks ------------------------------------------------------------------------------------------------------------


@case(2000)
def training_samples_of_which_one_is_empty(n):
    X = RaggedArray(np.zeros((n - 1, 2)), indptr=np.r_[0, np.arange(n)])
    y = [[]] + [["A"]] * (n - 1)

    def call():
        with pytest.warns(UserWarning, match="samples without steps are left out: 1"):
            LabelSequences().without_empty(X, y)

    return call


@case(500)
def samples_to_predict(n):
    model = chain_model()
    X = [np.eye(2)] * n
    return lambda: model.predict(X)


@case(1000)
def scores_of_samples(n):
    scores = [np.eye(2)] * n
    return lambda: map_inference(LinearChain(), scores)


@case(1000)
def sparse_samples_with_repeated_columns(n):
    rows = sparse.csr_array((np.ones(n), np.zeros(n, int), [0, n]), shape=(1, 2))
    model = chain_model()
    return lambda: model.predict([rows])


@case(2000)
def metrics_of_labels(n):
    y = [["B-A", "I-A", "O"]] * n

    def call():
        for metric in (flat_accuracy_score, flat_f1_score, sequence_accuracy_score, span_f1_score):
            metric(y, y)
        convert_spans(y, "iob2", "bioes")

    return call


@case(2000)
def metrics_of_one_long_sequence(n):
    y = [["B-A", "I-A", "O"] * n]

    def call():
        span_f1_score(y, y)
        span_f1_score([["I-A"] * n], [["I-A"] * n], scheme="iob2")

    return call


@case(500)
def metrics_of_distinct_types(n):
    y = [[f"B-t{i}" for i in range(n)]]
    return lambda: span_f1_score(y, y)


@case(2000)
def metrics_of_heads(n):
    y = [np.arange(n)]
    return lambda: unlabeled_attachment_score(y, y)


PATH = None


@pytest.mark.parametrize("name", CASES)
def test_work_and_memory_grow_like_the_input(tmp_path, monkeypatch, name):
    monkeypatch.setitem(globals(), "PATH", tmp_path / "0.npz")
    make, n, has_memory = CASES[name]
    times = measure(make, n)
    assert max(ratios_of(times)) <= LIMIT, f"{name}: {times} s"
    if has_memory:
        # From n / 2 to 2n, because tables grow by jumps. Tracing takes several times as long as the call.
        small, large = (peak_of(make(size)) for size in (n // 2, 2 * n))
        assert large <= LIMIT**2 * small, f"{name}: {small} and {large} bytes"


@pytest.mark.parametrize("text", ["'a" * 20_000 + "%\n", "'" + "a" * 40_000 + "',0\n", "'" + "\\a" * 20_000 + "',1\n"])
def test_memory_of_quoted_text(text):
    peak = peak_of(read(load_multilabel_arff, HEAD + text, 1, fails="line 5"))
    assert peak < 30 * len(text)


def test_the_key_of_hashes_is_random(fresh_python):
    assert len(SECRET) == 16
    module = modules_with("features", "SECRET")[0].__name__
    code = f"from {module} import SECRET; print(SECRET.hex())"
    assert len({fresh_python(code).stdout.strip() for _ in range(2)} | {SECRET.hex()}) == 3


@pytest.mark.parametrize("kind", ["words", "names", "numbers"])
def test_tokens_whose_hashes_collide_are_numbered_like_others(kind):
    words = crafted_words(800, token_hashes._BASIS)
    if kind == "words":
        tokens = [{"w": word} for word in words + words[::-7]]
    elif kind == "names":
        tokens = [{word: "x", "y": "z"} for word in words + words[::-7]]
    else:
        numbers = crafted_floats(800, token_hashes._BASIS)
        tokens = [{"w": number} for number in numbers + numbers[::-7]]
    # They are left to Python.
    assert token_hashes.number_dicts(tokens) is None
    names = {}
    rows = []
    for token in tokens:
        row = {}
        for attribute, value in token.items():
            name = f"{attribute}:{value}" if isinstance(value, str) else attribute
            row[names.setdefault(name, len(names))] = 1.0 if isinstance(value, str) else float(value)
        rows.append(row)
    vectorizer = TokenDictVectorizer()
    found = vectorizer.fit_transform([tokens])[0].tocoo()
    columns = vectorizer.get_feature_names_out()
    got = [{} for _ in tokens]
    for row, column, value in zip(found.row.tolist(), found.col.tolist(), found.data.tolist(), strict=True):
        got[row][names[columns[column]]] = value
    assert got == [{column: value for column, value in row.items() if value} for row in rows]
