"""Vectorizers and conformal sets as arrays and files: to_arrays, from_arrays."""

import io
from contextlib import suppress
from itertools import islice

import numpy as np
import pytest
from internals import replace
from model_files import (
    FILES,
    SENTENCES,
    TAGS,
    assert_equal_parts,
    conformal,
    covered,
    damages,
    edited,
    fitted,
    forged,
    rows_of,
    through_a_file,
    vectorizers,
)
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import GroupLassoPerceptron
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.features import (
    ArcVectorizer,
    OnRows,
    RowUnion,
    Template,
    TemplateVectorizer,
    TokenDictVectorizer,
)

VECTORIZERS = sorted(vectorizers())
CONFORMAL = ["classes", "label_sets", "pipeline"]


def vectorizer_of(name):
    return vectorizers()[name].fit(SENTENCES)


def read(name):
    """Return the class of an object of `model_files`, and its arrays."""
    made = vectorizer_of(name) if name in VECTORIZERS else conformal()[name][0]
    return type(made), made.to_arrays()


def assert_read_as_written(model, again):
    """Check that nothing is lost: what is read is written like before."""
    first, second = model.to_arrays(), again.to_arrays()
    assert first.keys() == second.keys() and all(first[key].tobytes() == second[key].tobytes() for key in first)
    # Vectors of words are a table once they are read, in whatever form they were given.
    assert repr(model) == repr(again) or "vectors" in again.get_params()


@pytest.mark.parametrize("name", VECTORIZERS)
def test_vectorizers_of_files_make_the_same_rows(name):
    vectorizer = vectorizer_of(name)
    again = type(vectorizer).from_arrays(through_a_file(vectorizer.to_arrays()))
    assert_equal_parts(rows_of(again), rows_of(vectorizer))
    assert_read_as_written(vectorizer, again)
    assert_equal_parts(rows_of(again.fit(SENTENCES)), rows_of(vectorizer))


# Two code points that JSON's escapes would merge into one, a lone one, and NUL, which NumPy omits at the end of text.
ODD = ["\ud83d\ude00", "\U0001f600", "\ude00\ud83d", "a\ud83d", "a\0", "a"]


@pytest.mark.parametrize("name", VECTORIZERS)
def test_any_text_survives_a_file(name):
    sentences = [[{"word": word, "pos": word, "n": 1} for word in (first, second)] for first in ODD for second in ODD]
    vectorizer = vectorizers()[name].fit(sentences)
    again = type(vectorizer).from_arrays(through_a_file(vectorizer.to_arrays()))
    for found, wanted in zip(again.transform(sentences), vectorizer.transform(sentences), strict=True):
        assert_equal_parts([found.data, found.indices, found.indptr], [wanted.data, wanted.indices, wanted.indptr])
    assert again.get_feature_names_out().tolist() == vectorizer.get_feature_names_out().tolist()
    assert_read_as_written(vectorizer, again)
    if vectorizer.get_params().get("n_features") is None and name not in ("relations", "clusters"):
        # Each word has a feature of its own.
        rows = {repr(row.toarray()) for row in vectorizer.transform([[{"word": w, "pos": w, "n": 1}] * 2 for w in ODD])}
        assert len(rows) == len(ODD)


def test_templates_and_attributes_of_any_text_survive_a_file():
    fields = [f"w{text}" for text in ODD]
    sentences = [[dict.fromkeys(fields, "x") for _ in range(2)]]
    templates = TemplateVectorizer([Template([(field, 0)]) for field in fields], derived_fields={}).fit(sentences)
    union = RowUnion([(field, TokenDictVectorizer(separator=ODD[0])) for field in fields]).fit(sentences)
    for vectorizer in (templates, TokenDictVectorizer(separator=ODD[0]).fit(sentences), union):
        again = type(vectorizer).from_arrays(through_a_file(vectorizer.to_arrays()))
        assert list(again.template_names_) == list(vectorizer.template_names_)
        assert again.transform(sentences)[0].toarray().tolist() == vectorizer.transform(sentences)[0].toarray().tolist()
        assert_read_as_written(vectorizer, again)


def test_conformal_sets_of_files_are_the_same():
    for model, *data in conformal().values():
        again = ConformalStructures.from_arrays(through_a_file(model.to_arrays()))
        assert_equal_parts(covered(again, *data), covered(model, *data))
        assert again.groups_ == model.groups_ and repr(again.threshold_) == repr(model.threshold_)
        assert_read_as_written(model, again)
        if model.risk == "parts":
            assert_equal_parts(again.part_nonconformity_, model.part_nonconformity_)
            assert_equal_parts([again.missed(*data)], [model.missed(*data)])


@pytest.mark.parametrize("name", [*VECTORIZERS, *(f"conformal_{name}" for name in CONFORMAL)])
def test_files_of_earlier_versions_are_read(name):
    kind, case = (type(vectorizers()[name]), None) if name in VECTORIZERS else (ConformalStructures, name[10:])
    with np.load(FILES / f"{name}.npz") as file:
        model = kind.from_arrays(file)
    found = rows_of(model) if case is None else covered(model, *conformal()[case][1:])
    with np.load(FILES / f"{name}-predicted.npz") as file:
        expected = list(file.values())
    if case == "pipeline":
        # Sets of parts were lists of structures then. The thresholds, nonconformity and coverage are the same.
        found, expected = found[:3], [expected[0], *expected[-2:]]
    for one, other in zip(found, expected, strict=True):
        # Another processor may round differently.
        is_number = one.dtype.kind == "f"
        assert np.allclose(one, other, rtol=0.0, atol=1e-7) if is_number else one.tolist() == other.tolist()


def test_functions_are_given_again():
    fields = {"length": ("word", len)}
    vectorizer = TemplateVectorizer(["length[0]"], derived_fields=fields).fit(SENTENCES)
    arrays = vectorizer.to_arrays()
    with pytest.raises(ValueError, match=r"derived_fields was .*len.*pass it: .*derived_fields=\.\.\."):
        TemplateVectorizer.from_arrays(arrays)
    again = TemplateVectorizer.from_arrays(arrays, derived_fields=fields)
    assert_equal_parts(rows_of(again), rows_of(vectorizer))
    with pytest.raises(ValueError, match="must be a pair"):
        TemplateVectorizer.from_arrays(arrays, derived_fields={"length": len})
    # The fitted columns are of the earlier functions.
    vectorizer.set_params(derived_fields=None)
    with pytest.raises(ValueError, match=r"derived_fields.* no plain form"):
        vectorizer.to_arrays()

    model, X, y = fitted("chain")

    def size_of(x):
        return "size", len(x)

    by_size = ConformalStructures(model, 0.4, groups=size_of).conformalize(X, y)
    again = ConformalStructures.from_arrays(by_size.to_arrays(), groups=size_of)
    assert again.threshold_ == by_size.threshold_ and again.groups_[0] == ("size", 3)
    # A model without a plain form is given again, and its calibration is kept.
    model, X, y = fitted("flat")
    pipeline = make_pipeline(StandardScaler().fit(X), model)
    scaled = ConformalStructures(pipeline).conformalize(X, y)
    arrays = scaled.to_arrays()
    with pytest.raises(ValueError, match=r"(?s)fitted_estimator was Pipeline.*fitted_estimator=\.\.\."):
        ConformalStructures.from_arrays(arrays)
    again = ConformalStructures.from_arrays(arrays, fitted_estimator=pipeline)
    assert_equal_parts(covered(again, X, y, None), covered(scaled, X, y, None))


def test_no_arrays_are_left_of_a_parameter_without_a_plain_form():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = GroupLassoPerceptron(budget=1).partial_fit(X, X[:, 0] > 0.0, classes=[False, True])
    arrays = model.to_arrays()
    changed = model.set_params(group_weights=[np.zeros(2), object()]).to_arrays()
    assert changed.keys() == arrays.keys() and "absent" in str(changed["json"])


def test_what_has_no_plain_form_or_no_fit_is_named():
    for unfitted in (TemplateVectorizer(), TokenDictVectorizer(), ConformalStructures(fitted("flat")[0])):
        with pytest.raises(NotFittedError):
            unfitted.to_arrays()
    union = RowUnion([("scaled", OnRows(StandardScaler()))]).fit([np.eye(2)])
    with pytest.raises(ValueError, match=r"OnRows.* no plain form"):
        union.to_arrays()

    class Own(TemplateVectorizer):
        pass

    own = Own(["word[0]"]).fit(SENTENCES)
    assert_equal_parts(rows_of(Own.from_arrays(own.to_arrays())), rows_of(own))
    with pytest.raises(ValueError, match=r"fitted\._fitted.* no plain form"):
        RowUnion([("own", Own(["word[0]"]))]).fit(SENTENCES).to_arrays()


def test_subpackages_that_a_file_needs_are_imported(monkeypatch):
    arrays, imported = conformal()["pipeline"][0].to_arrays(), set()
    replace(monkeypatch, "_core", "import_module", lambda name, package: imported.add(name))
    ConformalStructures.from_arrays(arrays)
    assert imported == {"..estimators", "..features", "..pipeline"}


def at(place, change):
    """Return a change of one array."""

    def changed(arrays):
        return forged({**arrays, place: change(arrays[place].copy())})

    return changed


def entry(index, value):
    """Return a change of one entry of an array."""

    def changed(array):
        array[index] = value
        return array

    return changed


def of_tree(change):
    return lambda arrays: edited(arrays, change)


def without(place):
    return lambda arrays: forged({name: array for name, array in arrays.items() if name != place})


def learned(tree):
    return dict(tree["learned"]["dict"])


FIRSTS, CODES, COLUMNS = "learned.firsts", "learned.codes.0", "learned.column_ptr"
MALFORMED = [
    ("tokens", at(FIRSTS, lambda a: a + 10**6), "the places of first occurrences must be from 1 to"),
    ("tokens", at(FIRSTS, entry(0, -1)), "the places of first occurrences must be from 1 to"),
    ("tokens", at(FIRSTS, lambda a: a.astype(np.int64)), "C-contiguous int32"),
    ("tokens", at(FIRSTS, lambda a: a[:, None]), "C-contiguous int32"),
    ("tokens", at(FIRSTS, lambda a: np.concatenate([a[:1], a[:1], a[2:]])), "two columns have the same n-gram"),
    ("tokens", at(CODES, lambda a: a[:-1]), "codes must be unsigned integers, one for each place"),
    ("tokens", at(CODES, lambda a: a.astype(float)), "codes must be unsigned integers"),
    ("tokens", at(CODES, entry(3, 99)), "codes must be places in the padding and the values"),
    ("tokens", at(COLUMNS, lambda a: a[::-1]), "column_ptr must be int64, and rise"),
    ("tokens", at(COLUMNS, lambda a: a.astype(np.int32)), "column_ptr must be int64, and rise"),
    ("tokens", at(COLUMNS, lambda a: a.astype(object)), "must be an array of numbers or text"),
    ("tokens", without(FIRSTS), "no TemplateVectorizer can be made of the arrays: KeyError"),
    ("tokens", of_tree(lambda tree: tree.pop("learned")), "not fitted"),
    ("tokens", of_tree(lambda tree: learned(tree)["values"][0].append("the")), "integers, each once"),
    ("tokens", of_tree(lambda tree: learned(tree)["values"][0].append(1.5)), "integers, each once"),
    ("tokens", of_tree(lambda tree: learned(tree)["values"].pop()), "must be those of the fields"),
    ("tokens", of_tree(lambda tree: learned(tree)["templates"].append("word[0]")), "is given twice"),
    ("tokens", of_tree(lambda tree: tree["parameters"].update(dtype={"type": "object_"})), "dtype must be"),
    ("tokens", of_tree(lambda tree: tree["parameters"].update(n_jobs="two")), "n_jobs"),
    ("tokens", of_tree(lambda tree: tree.update(format=2)), r"format 2, .* reads up to 1; update the package"),
    ("arcs", at(FIRSTS, lambda a: a[:, :2]), "not enough values"),
    ("arcs", at(FIRSTS, lambda a: np.asfortranarray(a)), "C-contiguous int32"),
    ("arcs", at(FIRSTS, entry((0, 0), 10**6)), "the places of first occurrences must be from"),
    ("arcs", at(FIRSTS, entry((0, 1), 0)), "different heads and modifiers|the places of first"),
    ("arcs", at(FIRSTS, entry((0, 2), -1)), "a place between"),
    ("relations", at(FIRSTS, lambda a: a - 10), "the places of first occurrences must be from|a place between"),
    ("dicts", at("fitted.groups_", lambda a: a + 9), "groups_ must hold the number of an attribute"),
    ("dicts", at("fitted.groups_", lambda a: a[1:]), "groups_ must hold the number of an attribute"),
    ("dicts", of_tree(lambda tree: tree["fitted"]["_vocabulary"]["dict"].append(["word:a", 1])), "each name once"),
    ("dicts", of_tree(lambda tree: tree["fitted"]["_vocabulary"]["dict"][0].__setitem__(1, 7)), "each name once"),
    ("dicts", of_tree(lambda tree: tree["fitted"]["_vocabulary"]["dict"][0].__setitem__(0, 7)), "must be strings"),
    ("hashed_tokens", of_tree(lambda tree: tree["parameters"].update(n_features=1)), "n_features must be"),
    ("union", of_tree(lambda tree: tree["fitted"].update(_fitted=[])), "transformers is empty"),
    ("union", of_tree(lambda tree: tree["fitted"].update(_fitted=[{"tuple": ["a", 1]}])), "must be a transformer"),
    ("classes", at("fitted.nonconformity_", entry(0, np.nan)), "without NaN"),
    ("classes", at("fitted.nonconformity_", lambda a: a[:, None]), "with one axis"),
    ("classes", at("fitted.nonconformity_", lambda a: a.astype(np.float32)), "arrays of float64"),
    ("classes", at("fitted.nonconformity_", lambda a: a[1:]), "a group of each of 29 calibration samples"),
    ("classes", of_tree(lambda tree: tree["fitted"].update(groups_=[])), "a group of each of 30 calibration samples"),
    ("classes", of_tree(lambda tree: tree["fitted"]["groups_"].__setitem__(0, [1])), r"the group of X\[0\]"),
    ("classes", of_tree(lambda tree: tree["fitted"].pop("nonconformity_")), "not calibrated yet"),
    ("classes", of_tree(lambda tree: tree["parameters"].update(confidence_level=2.0)), "confidence_level"),
    ("classes", at("parameters.fitted_estimator.learned.model.coef", lambda a: a[:, 1:]), "coef_ has shape"),
    ("classes", at("parameters.fitted_estimator.learned.model.coef", lambda a: a.astype(int)), "weights must be"),
    ("pipeline", of_tree(lambda tree: tree["fitted"]["part_nonconformity_"].pop()), "an array of its parts"),
]


@pytest.fixture(scope="module")
def written():
    return {name: read(name) for name in [*VECTORIZERS, *CONFORMAL]}


@pytest.mark.parametrize(("name", "change", "message"), MALFORMED)
def test_malformed_files_are_refused(written, name, change, message):
    kind, arrays = written[name]
    with pytest.raises(ValueError, match=message):
        kind.from_arrays(change(arrays))


def test_wrong_files_are_refused(written):
    kind, arrays = written["tokens"]
    with pytest.raises(ValueError, match="were damaged or edited"):
        kind.from_arrays({**arrays, FIRSTS: arrays[FIRSTS] + 1})
    with pytest.raises(ValueError, match="of the class 'TemplateVectorizer'; call its from_arrays"):
        ArcVectorizer.from_arrays(arrays)
    kind, arrays = written["classes"]
    renamed = str(arrays["json"]).replace("estimators.StructuredSparseMAPClassifier", "os.system")
    with pytest.raises(ValueError, match=r"'os\.system' is no class that a file may hold"):
        kind.from_arrays(forged({**arrays, "json": np.array(renamed)}))
    file = io.BytesIO()
    np.savez(file, **arrays)
    data = bytearray(file.getvalue())
    data[len(data) // 2] ^= 255
    with pytest.raises(ValueError):
        kind.from_arrays(np.load(io.BytesIO(bytes(data))))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["tokens", "arcs", "dicts", "pipeline"])
def test_forged_files_crash_nothing(written, name):
    """Reading works or raises a ValueError; later calls may then raise any exception, but they do not crash."""
    kind, arrays = written[name]
    n_refused = n_read = 0
    # A pipeline has many arrays, which are like those of its steps.
    for damaged in islice(damages(arrays, np.random.default_rng(0), 40), 0, None, 3 if name == "pipeline" else 1):
        try:
            again = kind.from_arrays(forged(damaged))
        except ValueError:
            n_refused += 1
            continue
        n_read += 1
        with suppress(Exception), np.errstate(all="ignore"):
            again.covers(SENTENCES, TAGS, ["long", "short"] * 2) if name == "pipeline" else rows_of(again)
    assert n_refused > 20 and n_read > 1
