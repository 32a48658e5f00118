"""Small fitted estimators and vectorizers, for tests of files; run as a script, it adds those that tests/data lacks."""

import hashlib
import io
import json
import warnings
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import (
    DecisionFocusedRegressor,
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    StructuredGroupLasso,
    StructuredSparseMAPClassifier,
)
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.factors import AtMost, FactorGraph, Hierarchy, Implies, Label, Pair
from sklearn_sparsemap.features import (
    ArcVectorizer,
    GrandparentVectorizer,
    RowUnion,
    SiblingVectorizer,
    Template,
    TemplateVectorizer,
    TokenDictVectorizer,
    WordClusters,
)
from sklearn_sparsemap.penalties import GroupOrder, GroupTree
from sklearn_sparsemap.pipeline import make_structured_pipeline
from sklearn_sparsemap.score_models import Network
from sklearn_sparsemap.structures import DependencyTree, LinearProgram, SequenceBudget, Subset

FILES = Path(__file__).parents[1] / "data" / "models"


def row_graph(features):
    """Return a graph of a row of variables, whose neighbours are tied."""
    graph = FactorGraph()
    u = graph.variables(len(features))
    graph.add(Pair(u[:-1], u[1:], name="neighbours", tied=True))
    return graph


def draw():
    """Return data by their form: flat, chains, trees, matrices of labels, values of parts."""
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(30, 3))
    steps = [rng.normal(size=(k, 3)) for k in (3, 2, 4, 3, 5, 2)]
    return {
        "flat": (flat, np.where(flat[:, 0] > 0.0, "u", "v")),
        "numbers": (flat, (flat[:, 1] > 0.0) + 3),
        "mixed": (steps, [["a" if row[0] > 0.0 else 7 for row in x] for x in steps]),
        "chains": (steps, [["a" if row[0] > 0.0 else "b" for row in x] for x in steps]),
        "tags": (steps, [["B-x" if row[0] > 0.0 else "O" for row in x] for x in steps]),
        "subsets": (steps, [x[:, 0] > 0.0 for x in steps]),
        "trees": ([rng.normal(size=((n + 1) * n, 3)) for n in (2, 3)], [np.array([0, 1]), np.array([0, 1, 1])]),
        "sets": (flat, np.stack([flat[:, 0] > 0.0, (flat[:, :2] > 0.0).all(axis=1), flat[:, 2] > 0.3], axis=1) * 1),
        "values": (flat, flat @ rng.normal(size=(3, 4))),
    }


def models():
    """Return unfitted estimators: name -> (estimator, name of the data)."""
    chain, groups, sets = StructuredSparseMAPClassifier, GroupLassoPerceptron, MultilabelLPSparseMAP
    selected = {"budget": 1, "max_iter": 2, "debias_max_iter": 1, "random_state": 0}
    return {
        "flat": (chain(max_iter=5, loss="hinge", cost=np.ones((2, 2)) - np.eye(2)), "flat"),
        "numbers": (chain(max_iter=5, class_weight={3: 2.0}), "numbers"),
        "chain": (chain("chain", max_iter=5), "chains"),
        "constraints": (chain("chain", max_iter=5, constraints="bio"), "tags"),
        "mixed": (chain("chain", max_iter=5), "mixed"),
        "adagrad": (chain("chain", solver="adagrad", max_iter=2, random_state=0), "chains"),
        "sequence_budget": (chain(SequenceBudget(5), max_iter=3), "chains"),
        "subset": (chain(Subset(0, 3), max_iter=3), "subsets"),
        "tree": (chain(DependencyTree(projective=True), max_iter=3), "trees"),
        "graphs": (chain(row_graph, max_iter=3), "subsets"),
        "groups": (groups("chain", **selected), "chains"),
        "group_dict": (groups("chain", groups={"x": [0, 1], "y": [1, 2]}, **selected), "chains"),
        "group_order": (
            groups("chain", groups=GroupOrder([(0, 1), (1, 2)], columns=[[0], [1], [2]]), **selected),
            "chains",
        ),
        "group_tree": (groups("chain", groups=GroupTree([-1, 0, 0], [[0], [1], [2]]), **selected), "chains"),
        "group_lasso": (StructuredGroupLasso("chain", alpha=0.01, max_iter=50), "chains"),
        "sets": (sets(max_iter=5, random_state=0), "sets"),
        "network": (sets(score_model=Network((4,)), label_graph="full", max_iter=5, random_state=0), "sets"),
        "rules": (sets(constraints=[AtMost(3), Implies(~Label(0), ~Label(1))], max_iter=5, random_state=0), "sets"),
        "hierarchy": (sets(constraints=Hierarchy([-1, 0, -1]), max_iter=5, random_state=0), "sets"),
        "one_label": (sets(max_iter=5, threshold="auto", random_state=0), "flat"),
        "decisions": (DecisionFocusedRegressor(Subset(1, 2), max_iter=5), "values"),
        "program": (DecisionFocusedRegressor(LinearProgram([[1.0, 2.0, 1.0, 1.0]], [3.0]), max_iter=2), "values"),
    }


def fitted(name):
    """Return a fitted estimator, and its data: copies, which may be changed."""
    return deepcopy(_fitted(name))


@cache
def _fitted(name):
    model, data = models()[name]
    X, y = draw()[data]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y), X, y


def predictions(model, X):
    """Return what a model predicts, as a flat list of arrays."""
    found = [model.predict(X)]
    for method in ("predict_marginals", "predict_proba", "decision_function", "predict_values"):
        if hasattr(model, method):
            found.append(getattr(model, method)(X))
    parts = [np.asarray(part) for each in found for part in (each if each.dtype == object else [each])]
    # Labels of several types as text, which a file can hold.
    return [np.array(list(map(repr, part))) if part.dtype == object else part for part in parts]


SENTENCES = [
    [{"word": word, "pos": word[:1], "n": len(word)} for word in text.split()]
    for text in ("the dog barks", "a | cat", "the cat \ud800 sleeps", "a dog")
]
TAGS = [["D", "N", "V"], ["D", "D", "N"], ["D", "N", "N", "V"], ["D", "N"]]


def vectorizers():
    """Return unfitted vectorizers by their names."""
    return {
        "tokens": TemplateVectorizer(["word[0]", Template([("pos", -1), ("suffix2", 0)]), "n[1]"], dtype=np.float32),
        "arcs": ArcVectorizer(["head.word[0]|mod.pos[-1]|between.pos", "direction|distance"], n_jobs=1),
        "relations": ArcVectorizer(["distance"], dtype=int),
        "dicts": TokenDictVectorizer(min_count=2, dtype=np.dtype(np.float32)),
        "hashed_tokens": TemplateVectorizer(["word[0]", "n[1]"], n_features=30),
        "hashed_dicts": TokenDictVectorizer(n_features=30),
        "siblings": SiblingVectorizer(["sib.pos[0]|mod.pos[0]"], n_features=10),
        "grandparents": GrandparentVectorizer(["grand.pos[0]|mod.pos[0]"], n_features=10),
        "clusters": WordClusters({"the": [1.0, 0.1], "a": [1.0, 0.0], "dog": [0.1, 1.0]}, (1, 2), 1, random_state=0),
        "union": RowUnion([("words", TemplateVectorizer(["word[0]"])), ("dicts", TokenDictVectorizer())]),
    }


def rows_of(vectorizer):
    """Return the rows of a vectorizer for known and unknown words, and the names of columns, as a list of arrays."""
    rows = vectorizer.transform(
        [*SENTENCES, [{"word": "new", "pos": "d", "n": 3}, {"word": "cat", "pos": "c", "n": 9}]]
    )
    groups = np.zeros(0) if rows.groups is None else rows.groups
    names = np.array([name.encode("utf-8", "surrogatepass") for name in vectorizer.get_feature_names_out()])
    return [rows.values.data, rows.values.indices, rows.values.indptr, rows.indptr, groups, names]


@cache
def conformal():
    """Return calibrated sets of structures by name, each with its samples, structures and groups."""
    pipeline = make_structured_pipeline(TemplateVectorizer(["word[0]", "pos[-1]"]), models()["chain"][0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        pipeline.fit(SENTENCES, TAGS)
    (flat, _, kinds), (sets, X, Y) = fitted("flat"), fitted("sets")
    of_sentences = ["long", "short", "long", "short"]
    cases = {
        "pipeline": (ConformalStructures(pipeline, 0.4, risk="parts"), SENTENCES, TAGS, of_sentences),
        "classes": (ConformalStructures(flat, 0.8, groups="class"), draw()["flat"][0], kinds, None),
        "label_sets": (ConformalStructures(sets, 0.8, max_size=3, score="log_loss"), X, Y, None),
    }
    return {name: (model.conformalize(*data), *data) for name, (model, *data) in cases.items()}


def covered(model, X, y, groups):
    """Return the thresholds, coverage and sets of a conformal model, as a list of arrays."""
    thresholds, sets = model.threshold_, model.predict_set(X, groups)
    thresholds = np.array(list(thresholds.values()) if isinstance(thresholds, dict) else [thresholds])
    if model.risk == "parts":
        return [thresholds, model.nonconformity(X, y), model.covers(X, y, groups), *sets]
    flat = [pair for own in sets for pair in own]
    return [
        thresholds,
        np.array([value for _, value in flat]),
        np.concatenate([np.ravel(structure) for structure, _ in flat]),
        np.array([len(own) for own in sets]),
        *(model.truncated_, model.nonconformity(X, y), model.covers(X, y, groups)),
    ]


def write_files():
    """Write a file of each model and vectorizer, with its results, unless there is one."""
    FILES.mkdir(parents=True, exist_ok=True)
    made = {name: (lambda name=name: (fitted(name)[0], predictions(*fitted(name)[:2]))) for name in models()}
    for name, vectorizer in vectorizers().items():
        made[name] = lambda vectorizer=vectorizer: (vectorizer.fit(SENTENCES), rows_of(vectorizer))
    for name, case in conformal().items():
        made[f"conformal_{name}"] = lambda case=case: (case[0], covered(*case))
    for name, make in made.items():
        if not (FILES / f"{name}.npz").exists():
            model, results = make()
            np.savez_compressed(FILES / f"{name}.npz", **model.to_arrays())
            np.savez_compressed(FILES / f"{name}-predicted.npz", *results)


if __name__ == "__main__":
    write_files()


def through_a_file(arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    return np.load(file)


def assert_equal_parts(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert one.tobytes() == other.tobytes()


def digest_of(arrays):
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(repr((name, array.dtype.str, array.shape)).encode() + array.tobytes())
    return found.hexdigest()


def forged(arrays):
    """Return arrays with a digest that fits them."""
    rest = {name: array for name, array in arrays.items() if name != "sha256"}
    return {**rest, "sha256": np.array(digest_of(rest))}


def edited(arrays, change):
    tree = json.loads(str(arrays["json"]))
    change(tree)
    return forged({**arrays, "json": np.array(json.dumps(tree))})


def damages(arrays, rng, n_texts=100):
    """Yield arrays of which one has other values, another type or shape, or whose text differs."""
    changes = (
        lambda a: a[:-1], lambda a: a[..., None], lambda a: a.astype(str), lambda a: a * 0 + 10**9, lambda a: a - 5,
        lambda a: a.astype(np.float32), lambda a: a.astype(np.int64), lambda a: a.ravel(), lambda a: a.repeat(2),
    )  # fmt: skip
    for key in arrays.keys() - {"json", "sha256"}:
        for change in changes:
            with suppress(IndexError, TypeError, ValueError, OverflowError):
                yield {**arrays, key: change(arrays[key])}
    text = str(arrays["json"])
    for _ in range(n_texts):
        first = int(rng.integers(len(text)))
        piece = rng.choice(["", "9", '"', "-", "{", "null", "]"])
        yield {**arrays, "json": np.array(text[:first] + piece + text[first + int(rng.integers(3)) :])}
