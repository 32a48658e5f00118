"""Fitted estimators as arrays and files: to_arrays, from_arrays, skops."""

import io
import json
import pickle
import warnings
from contextlib import suppress

import numpy as np
import pytest
from internals import NAMES_IN_FILES, LinearModel
from model_files import (
    FILES,
    assert_equal_parts,
    damages,
    draw,
    edited,
    fitted,
    forged,
    models,
    predictions,
    row_graph,
    through_a_file,
)
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import (
    DecisionFocusedRegressor,
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    StructuredGroupLasso,
    StructuredSparseMAPClassifier,
    factors,
    penalties,
    structures,
)
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.datasets import load_partition, save_partition
from sklearn_sparsemap.factors import FactorGraph, Xor
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.pipeline import make_structured_pipeline
from sklearn_sparsemap.score_models import Network
from sklearn_sparsemap.structures import Alignment, CustomStructure

MODELS = sorted(models())
# Parameters that are functions, which files do not hold.
GIVEN = {"graphs": {"structure": row_graph}}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_files_predict_the_same(name):
    model, X, _ = fitted(name)
    again = type(model).from_arrays(through_a_file(model.to_arrays()), **GIVEN.get(name, {}))
    assert_equal_parts(predictions(again, X), predictions(model, X))
    # Nothing is lost: what is read is written like before.
    first, second = (each.to_arrays() for each in (model, again))
    assert first.keys() == second.keys() and all(first[key].tobytes() == second[key].tobytes() for key in first)
    public = [key for key in dir(model) if key.endswith("_") and not key.startswith("_") and hasattr(model, key)]
    assert all(repr(getattr(model, key)) == repr(getattr(again, key)) for key in public)
    assert all(repr(value) == repr(again.get_params()[key]) for key, value in model.get_params().items())


@pytest.mark.parametrize("name", MODELS)
def test_files_of_earlier_versions_are_read(name):
    model, data = models()[name]
    with np.load(FILES / f"{name}.npz") as file:
        model = type(model).from_arrays(file, **GIVEN.get(name, {}))
    with np.load(FILES / f"{name}-predicted.npz") as file:
        wanted = list(file.values())
    found = predictions(model, draw()[data][0])
    for one, other in zip(found, wanted, strict=True):
        # Another processor may round differently.
        is_number = one.dtype.kind == "f"
        assert np.allclose(one, other, rtol=0.0, atol=1e-7) if is_number else one.tolist() == other.tolist()


STREAMS = {
    "chain": (StructuredSparseMAPClassifier("chain"), {"classes": ["a", "b"]}),
    "groups": (GroupLassoPerceptron("chain", budget=2, shrink_every=4), {"classes": ["a", "b"]}),
    "sets": (MultilabelLPSparseMAP(threshold="auto", score_model=Network((3,), dropout=0.0), random_state=0), {}),
}


@pytest.mark.parametrize("name", STREAMS)
def test_training_continues_from_a_file(name):
    model, classes = STREAMS[name]
    X, y = draw()["sets" if name == "sets" else "chains"]
    model = clone(model).partial_fit(X[:4], y[:4], **classes)
    again = type(model).from_arrays(model.to_arrays())
    assert_equal_parts(predictions(again, X), predictions(model, X))
    for each in (model, again):
        each.partial_fit(X[4:], y[4:])
    for one, other in zip(predictions(model, X), predictions(again, X), strict=True):
        assert np.allclose(one, other, atol=1e-9) if one.dtype.kind == "f" else one.tolist() == other.tolist()
    if name == "groups":
        assert model.group_norms_ == pytest.approx(again.group_norms_)
        assert np.array_equal(model.memory_curve_, again.memory_curve_)


def subclasses(base):
    """Yield the classes of the package that extend a class; others are those of tests."""
    for each in base.__subclasses__():
        if each.__module__.startswith("sklearn_sparsemap."):
            yield each
        yield from subclasses(each)


def public_subclasses(module, base, but_not):
    kinds = (getattr(module, name) for name in module.__all__ if name not in but_not)
    return [each for each in kinds if isinstance(each, type) and issubclass(each, base)]


# These hold fitted estimators of scikit-learn, of which arrays hold none.
WITHOUT_FORM = {"RegressorsModel", "ClassifierModel"}


# A `CustomStructure` holds functions, and a knapsack is of variables instead of labels.
@pytest.mark.parametrize(
    "kinds",
    [
        public_subclasses(structures, structures.Structure, ["Structure", "CustomStructure"]),
        public_subclasses(factors, factors.Exclusive.__base__, ["Knapsack"]),
        [penalties.Groups, penalties.GroupOrder, penalties.GroupTree],
        [kind for kind in subclasses(LinearModel.__base__) if kind.__name__ not in WITHOUT_FORM],
    ],
    ids=["structures", "rules of labels", "groups", "score models"],
)
def test_files_may_hold_each_class_of_a_kind(kinds):
    absent = [kind.__name__ for kind in kinds if kind not in NAMES_IN_FILES]
    assert not absent, f"add {absent} to estimators/_state/plain.py"
    assert len(kinds) > 1


def test_functions_are_given_again():
    model, X, _ = fitted("graphs")
    arrays = model.to_arrays()
    with pytest.raises(ValueError, match=r"structure was <function row_graph.*pass it: .*structure=\.\.\."):
        type(model).from_arrays(arrays)
    assert type(model).from_arrays(arrays, structure=row_graph).additional_scores_.keys() == {"neighbours"}

    custom = CustomStructure(lambda scores: [int(np.argmax(scores))])
    X, _ = draw()["subsets"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = StructuredSparseMAPClassifier(custom, max_iter=2).fit(X, [[int(x[:, 0].argmax())] for x in X])
    again = StructuredSparseMAPClassifier.from_arrays(model.to_arrays(), structure=custom)
    assert_equal_parts(predictions(again, X), predictions(model, X))

    graph = FactorGraph()
    graph.add(Xor(graph.variables(4)))
    X, V = draw()["values"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = DecisionFocusedRegressor(graph, max_iter=2).fit(X, V)
    again = DecisionFocusedRegressor.from_arrays(model.to_arrays(), structure=graph)
    assert_equal_parts(predictions(again, X), predictions(model, X))


def test_other_parameters_can_be_replaced():
    model, _, _ = fitted("chain")
    assert StructuredSparseMAPClassifier.from_arrays(model.to_arrays(), n_jobs=2).n_jobs == 2


def test_what_has_no_plain_form_is_named():
    with pytest.raises(NotFittedError):
        StructuredSparseMAPClassifier().to_arrays()
    X, y = draw()["chains"]
    labels = {"a": frozenset("a"), "b": frozenset("b")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = StructuredSparseMAPClassifier("chain", max_iter=2).fit(X, [[labels[each] for each in own] for own in y])
    with pytest.raises(ValueError, match=r"fitted\.classes_\.0 is frozenset.*no plain form.*pickle it"):
        model.to_arrays()


def test_wrong_files_are_refused():
    model, _, _ = fitted("chain")
    arrays, read = model.to_arrays(), StructuredSparseMAPClassifier.from_arrays
    with pytest.raises(ValueError, match="these are no arrays of to_arrays"):
        read({"a": np.eye(2)})
    with pytest.raises(ValueError, match=r"format 2, written by version .* reads up to 1; update"):
        read(edited(arrays, lambda tree: tree.update(format=2)))
    with pytest.raises(ValueError, match="of the class 'StructuredSparseMAPClassifier'; call its from_arrays"):
        MultilabelLPSparseMAP.from_arrays(arrays)
    with pytest.raises(ValueError, match=r"'os\.system' is no class that a file may hold"):
        read(edited(arrays, lambda tree: tree["fitted"].update(_structure={"object": "os.system", "values": {}})))
    with pytest.raises(ValueError, match="were damaged or edited"):
        read({**arrays, "learned.key.model.intercept": np.zeros(2)})
    with pytest.raises(ValueError, match="were damaged or edited"):
        read({name: array for name, array in arrays.items() if name != "fitted.classes_"})
    with pytest.raises(ValueError, match="must be an array of numbers or text"):
        read(forged({**arrays, "fitted.classes_": np.empty(2, object)}))
    with pytest.raises(ValueError, match=r"classes_ has shape \(1,\)"):
        read(forged({**arrays, "fitted.classes_": np.array(["a"])}))
    file = io.BytesIO()
    np.savez(file, **arrays)
    data = bytearray(file.getvalue())
    data[len(data) // 2] ^= 255
    with pytest.raises(ValueError):
        read(np.load(io.BytesIO(bytes(data))))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["chain", "group_dict", "graphs", "rules", "network", "hierarchy", "decisions"])
def test_forged_files_crash_nothing(name):
    """Reading works or raises a ValueError; prediction may then raise any exception, but it does not crash."""
    model, X, _ = fitted(name)
    n_refused = n_read = 0
    for arrays in damages(model.to_arrays(), np.random.default_rng(0)):
        try:
            again = type(model).from_arrays(forged(arrays), **GIVEN.get(name, {}))
        except ValueError:
            n_refused += 1
            continue
        n_read += 1
        with suppress(Exception), np.errstate(all="ignore"):
            again.predict(X)
    assert n_refused > 50 and n_read > 5


# -- skops -------------------------------------------------------------------------------------------------------------


# Those that doc/troubleshooting.rst names, and the function of `model_files`.
TRUSTED = ("sklearn_sparsemap.", "scipy.sparse.", "builtins.range", "functools.partial", "model_files.")


def assert_skops(model, X):
    """Check that a file names no types but those that the documentation names, and that predictions are equal."""
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(model)
    unknown = skops.get_untrusted_types(data=data)
    assert all(name.startswith(TRUSTED) for name in unknown), unknown
    again = skops.loads(data, trusted=unknown)
    assert_equal_parts(predictions(again, X), predictions(model, X))


@pytest.mark.parametrize("name", MODELS)
def test_skops_knows_all_types(name):
    model, X, _ = fitted(name)
    assert_skops(model, X)


def test_skops_of_pipelines():
    X, y = draw()["sets"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert_skops(make_pipeline(StandardScaler(), MultilabelLPSparseMAP(max_iter=3, random_state=0)).fit(X, y), X)
        sentences, labels = [["a", "dog"], ["the", "cat", "sat"]], [["D", "N"], ["D", "N", "V"]]
        tagger = StructuredSparseMAPClassifier("chain", max_iter=3)
        assert_skops(
            make_structured_pipeline(TemplateVectorizer(["word[0]"]), tagger).fit(sentences, labels), sentences
        )


# Labels that differ only in NUL at the end, which NumPy's text omits, or in surrogates, which JSON's escapes join.
ODD = ["a\0", "a", "\ud83d\ude00", "\U0001f600"]


@pytest.mark.parametrize(
    "model",
    [
        StructuredSparseMAPClassifier(),
        MultilabelLPSparseMAP(),
        GroupLassoPerceptron(random_state=0),
        StructuredGroupLasso(alpha=1e-3),
    ],
)
def test_labels_of_any_text_are_kept(model):
    X, y = np.repeat(10 * np.eye(4), 10, axis=0), list(np.repeat(np.array(ODD, object), 10))
    for labels in (y, tuple(y), np.array(y, object)):
        fitted_model = clone(model).fit(X, labels)
        assert fitted_model.classes_.tolist() == sorted(ODD)
        assert fitted_model.predict(X).tolist() == y and fitted_model.score(X, labels) == 1.0
    again = type(model).from_arrays(through_a_file(fitted_model.to_arrays()))
    assert again.classes_.tolist() == sorted(ODD) and again.predict(X).tolist() == y
    if hasattr(model, "partial_fit"):
        assert clone(model).partial_fit(X, y, classes=ODD).classes_.tolist() == sorted(ODD)
        assert clone(model).fit_partitions([(X, y)]).classes_.tolist() == sorted(ODD)


def test_sequences_sets_and_groups_of_any_text_are_kept():
    X = [10 * np.eye(4)] * 3
    chain = StructuredSparseMAPClassifier("chain").fit(X, [ODD] * 3)
    again = StructuredSparseMAPClassifier.from_arrays(through_a_file(chain.to_arrays()))
    for own in (chain, again):
        assert own.predict(X[:1])[0].tolist() == ODD and own.score(X, [ODD] * 3) == 1.0
    flat, Y = np.repeat(np.eye(4), 10, axis=0), np.repeat(np.eye(4, dtype=int), 10, axis=0)
    sets = MultilabelLPSparseMAP(random_state=0).fit(flat, Y, classes=ODD)
    again = MultilabelLPSparseMAP.from_arrays(through_a_file(sets.to_arrays()))
    assert again.classes_.tolist() == sets.classes_.tolist() == ODD
    groups = {name: [place] for place, name in enumerate(ODD)}
    selected = GroupLassoPerceptron(groups=groups, random_state=0).fit(flat, Y.argmax(axis=1))
    again = GroupLassoPerceptron.from_arrays(through_a_file(selected.to_arrays()))
    assert again.selected_group_names_ == selected.selected_group_names_ == ODD
    conformal = ConformalStructures(StructuredSparseMAPClassifier().fit(flat, np.repeat(np.array(ODD, object), 10)))
    labels = list(np.repeat(np.array(ODD, object), 10))
    assert conformal.set_params(groups="class", confidence_level=0.5).conformalize(flat, labels).groups_ == labels
    assert conformal.covers(flat, labels).all()


def test_partitions_refuse_labels_that_files_would_change(tmp_path):
    for X, y in ((np.eye(2), ["a\0", "a"]), ([np.eye(2)], [["a\0", "a"]])):
        with pytest.raises(ValueError, match="str must not end with NUL; encode others"):
            save_partition(tmp_path / "0.npz", X, y)
    save_partition(tmp_path / "0.npz", [np.eye(3)], [ODD[1:]])
    assert load_partition(tmp_path / "0.npz")[1][0].tolist() == ODD[1:]


def test_files_with_earlier_names_of_decisions_are_read():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = (X > 0.3).astype(int)
    for old, new in (("seen", "observed_sets"), ("expected", "expected_f1")):
        model = MultilabelLPSparseMAP(decision=new).fit(X[:40], Y[:40])
        stream = MultilabelLPSparseMAP(decision=new, threshold="auto").partial_fit(X[:40], Y[:40])
        for each in (model, stream):
            # Files that were written before have the old name wherever the new one is.
            text = json.dumps(json.loads(str(each.to_arrays()["json"])))
            arrays = forged({**each.to_arrays(), "json": np.array(text.replace(json.dumps(new), json.dumps(old)))})
            again = MultilabelLPSparseMAP.from_arrays(arrays)
            assert again.decision == new and again._rule == each._rule
            again.set_params(decision="auto"), each.set_params(decision="auto")
            assert again.decision_ == each.decision_ == each._rule
            np.testing.assert_array_equal(again.predict(X), each.predict(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_files_keep_the_names_that_arguments_had():
    """Of `Alignment(mode)`, and of `TrainingState.optimizer` and `indices`."""
    X, y = [np.random.default_rng(k).normal(size=(3, 4, 2)) for k in range(4)], [np.arange(3)] * 4
    arrays = StructuredSparseMAPClassifier(Alignment("local")).partial_fit(X, y).to_arrays()
    text = str(arrays["json"])
    again = StructuredSparseMAPClassifier.from_arrays(arrays)
    assert again.structure.mode == "local" and again.get_training_state().optimizer == "online"
    for name, new in (("kind", "mode"), ("kind", "optimizer"), ("places", "indices")):
        assert f'"{name}": ' in text and f'"{new}": ' not in text
    with pytest.raises(ValueError):
        StructuredSparseMAPClassifier.from_arrays(
            forged({**arrays, "json": np.array(text.replace('"kind": "local"', '"width": "local"'))})
        )


def test_pickles_name_the_former_place_of_the_linear_model():
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = StructuredSparseMAPClassifier().fit(X, X[:, 0] > 0)
    now = type(model._learned.model).__module__
    then = now.replace("score_models", "_data")
    # This protocol has names as plain text.
    text = pickle.dumps(model, protocol=0)
    assert text.count(now.encode()) == 1
    again = pickle.loads(text.replace(now.encode(), then.encode()))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
