"""Cases of malformed input, run in a process of their own because a fault may end it: `python malformed.py GROUP`.

Each case writes its name before it runs and its outcome afterwards; `test_malformed.py` reads them.
"""

import copy
import pickle
import sys
import tempfile
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
from numba import njit
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    RaggedArray,
    StructuredSparseMAPClassifier,
    lp_sparsemap,
    map_inference,
    n_best,
    perceptron_path,
    sparsemap,
    stability_selection,
)
from sklearn_sparsemap.datasets import load_partition, save_partition
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.factors import FactorGraph, Pair, StructureFactor, Xor
from sklearn_sparsemap.features import InformationGainSelector, OnRows, OutOfFoldScores, RowUnion
from sklearn_sparsemap.inspection import explain, feature_table
from sklearn_sparsemap.metrics import example_f1_score
from sklearn_sparsemap.penalties import GroupLasso, GroupOrder, Groups, as_groups
from sklearn_sparsemap.pipeline import make_structured_pipeline
from sklearn_sparsemap.structures import CustomStructure, DependencyTree, LinearChain

N_ROWS, N_COLUMNS = 60, 5


def entries(name, place, value):
    """Return a fault that writes one entry of an index array."""

    def damage(matrix):
        getattr(matrix, name)[place] = value

    return damage


def replaced(name, change):
    """Return a fault that assigns another array."""

    def damage(matrix):
        setattr(matrix, name, change(getattr(matrix, name)))

    return damage


# Faults of the arrays of a compressed matrix, whose lines are rows or columns.
COMPRESSED = {
    "far index": entries("indices", 3, 10**8),
    "index at the end": entries("indices", 3, N_ROWS),
    "negative index": entries("indices", 3, -1),
    "far negative index": entries("indices", -1, -(10**8)),
    "far pointer": entries("indptr", 3, 10**8),
    "negative pointer": entries("indptr", 3, -4),
    "decreasing pointers": entries("indptr", 3, 1),
    "first pointer": entries("indptr", 0, 2),
    "last pointer": entries("indptr", -1, 10**6),
    "few pointers": replaced("indptr", lambda a: a[:-1]),
    "many pointers": replaced("indptr", lambda a: np.append(a, a[-1])),
    "few data": replaced("data", lambda a: a[:-4].copy()),
    "few indices": replaced("indices", lambda a: a[:-4].copy()),
    "floats": replaced("indices", lambda a: a + 0.5),
    "two axes": replaced("indptr", lambda a: a[:, None]),
    "a list": replaced("indices", lambda a: a.tolist()),
}
WIDE = {"index that wraps around": entries("indices", 3, 2**32 + 1)}
COORDINATES = {
    "far column": lambda m: m.coords[1].__setitem__(2, 10**8),
    "negative row": lambda m: m.coords[0].__setitem__(2, -1),
    "far row": lambda m: m.coords[0].__setitem__(2, 10**8),
    "few data": replaced("data", lambda a: a[:-4].copy()),
}


def matrix(kind="csr", index=np.int32, shape=(N_ROWS, N_COLUMNS), indicator=False):
    """Return a sparse matrix whose arrays are its own."""
    values = sparse.random_array(shape, density=0.6, rng=np.random.default_rng(0), format="csr")
    if indicator:
        values.data[:] = 1.0
    made = values.asformat(kind).copy()
    for name in ("indices", "indptr"):
        if hasattr(made, name):
            setattr(made, name, getattr(made, name).astype(index))
    return made


def blocks():
    return sparse.bsr_array(matrix(), blocksize=(2, 1)).copy()


def damaged(make, damage):
    made = make()
    damage(made)
    return made


# Faults that go to every estimator and call; `test_malformed.py` compares all of them with the check itself.
FEW = ("csr int32 far index", "csr int64 far pointer", "csr int64 index that wraps around", "csc int32 far index",
       "coo far column")  # fmt: skip


def of_formats(shape=(N_ROWS, N_COLUMNS)):
    """Return functions that make a malformed matrix, by name."""
    found = {}
    for kind in ("csr", "csc"):
        for index in (np.int32, np.int64):
            faults = COMPRESSED if index is np.int32 else COMPRESSED | WIDE
            for name, damage in faults.items():
                make = lambda kind=kind, index=index: matrix(kind, index, shape)  # noqa: E731
                found[f"{kind} {np.dtype(index)} {name}"] = lambda make=make, damage=damage: damaged(make, damage)
    for name in ("far index", "negative index", "far pointer", "last pointer", "few pointers", "few indices"):
        found[f"bsr {name}"] = lambda damage=COMPRESSED[name]: damaged(blocks, damage)
    for name, damage in COORDINATES.items():
        found[f"coo {name}"] = lambda damage=damage: damaged(lambda: matrix("coo", shape=shape), damage)
    others = {
        "lil column": ("lil", lambda m: m.rows[3].__setitem__(0, 10**8)),
        "lil lengths": ("lil", lambda m: m.data[3].append(1.0)),
        "dia offsets": ("dia", replaced("offsets", lambda a: np.append(a, 1))),
        "dia far offset": ("dia", entries("offsets", 0, 10**9)),
        "dok column": ("dok", lambda m: m._dict.__setitem__((1, 10**8), 1.0)),
    }
    for name, (kind, damage) in others.items():
        found[name] = lambda kind=kind, damage=damage: damaged(lambda: matrix(kind), damage)
    return found


class Cases:
    """Runs cases one after the other."""

    @staticmethod
    def run(name, call, legal=False):
        """Run a case; a legal one may also succeed, and only must not end the process."""
        sys.stdout.write(f"begin {name}\n")
        sys.stdout.flush()
        try:
            call()
            outcome = "legal" if legal else "silent"
        except ValueError as error:
            outcome = "ValueError" if str(error) else "no message"
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        sys.stdout.write("end " + outcome.replace("\n", " ") + "\n")
        sys.stdout.flush()


CLASSES = ["a", "b"]
FLAT_Y = np.array(CLASSES * (N_ROWS // 2))
LENGTHS = [20, 10, 30]
STARTS = np.cumsum([0, *LENGTHS])
CHAIN_Y = [FLAT_Y[a:b].tolist() for a, b in pairwise(STARTS)]
GRAPH_Y = [np.array([True] + [False] * (n - 1)) for n in LENGTHS]


def graph_of(x):
    graph = FactorGraph()
    u = graph.variables(x.shape[0])
    graph.add(Xor(u[:2]))
    return graph


def cut(rows):
    return [rows[a:b] for a, b in pairwise(STARTS)]


def run_flat(cases):
    """Every estimator of flat data, and what else takes a matrix."""
    good = matrix()
    models = {
        "adagrad": StructuredSparseMAPClassifier(solver="adagrad", max_iter=2),
        "lbfgs": StructuredSparseMAPClassifier(loss="crf", max_iter=2),
        "mira": StructuredSparseMAPClassifier(loss="hinge", solver="mira", max_iter=2),
        "early stopping": StructuredSparseMAPClassifier(early_stopping=True, max_iter=2),
        "group lasso": GroupLassoPerceptron(budget=2, max_iter=1, shrink_every=10),
        "label sets": MultilabelLPSparseMAP(max_iter=2),
        "label sets, adam": MultilabelLPSparseMAP("full", solver="adam", max_iter=2),
        "selector": InformationGainSelector(),
    }
    for model in models.values():
        model.fit(good, FLAT_Y)
    calls = ("predict", "predict_proba", "decision_function", "predict_marginals", "predict_structures", "transform")
    lasso, gibbs = models["group lasso"], models["lbfgs"]
    for fault in FEW:
        make = of_formats()[fault]
        for name, model in models.items():
            where = f"{name}, {fault}"
            cases.run(f"{where}: fit", lambda model=model: model.fit(make(), FLAT_Y))
            for call in calls:
                if hasattr(model, call):
                    cases.run(f"{where}: {call}", lambda model=model, call=call: getattr(model, call)(make()))
            if hasattr(model, "partial_fit"):
                cases.run(f"{where}: score", lambda model=model: model.score(make(), FLAT_Y))
                cases.run(f"{where}: partial_fit", lambda model=model: model.partial_fit(make(), FLAT_Y, CLASSES))
                cases.run(f"{where}: fit_partitions", lambda model=model: model.fit_partitions([(make(), FLAT_Y)] * 2))
        other = {
            "mixing": lambda: ParameterMixing(models["adagrad"], n_rounds=1).fit(make(), FLAT_Y),
            "n best": lambda: gibbs.predict_n_best(make(), 2),
            "log likelihood": lambda: gibbs.log_likelihood(make(), FLAT_Y),
            "sample": lambda: gibbs.sample(make()),
            "finalize": lambda: lasso.finalize(make(), FLAT_Y),
            "path": lambda: perceptron_path(lasso, make(), FLAT_Y, [1], cv=2),
            "stability": lambda: stability_selection(lasso, make(), FLAT_Y),
            "save": lambda: save_partition("nowhere/0.npz", make(), FLAT_Y),
            "ragged": lambda: RaggedArray(make(), STARTS),
            "rows": lambda: OnRows(MaxAbsScaler()).fit([make()]),
            "metric": lambda: example_f1_score(make(), np.ones((N_ROWS, N_COLUMNS), int)),
        }
        for name, call in other.items():
            cases.run(f"{fault}: {name}", call)


def run_structured(cases):
    """Every estimator and transformer of samples with rows, which are in a list, an object array or a RaggedArray."""
    whole = matrix()
    good = cut(whole)
    models = {
        "adagrad": (StructuredSparseMAPClassifier("chain", solver="adagrad", max_iter=2), CHAIN_Y),
        "lbfgs": (StructuredSparseMAPClassifier("chain", loss="crf", max_iter=2), CHAIN_Y),
        "group lasso": (GroupLassoPerceptron("chain", budget=2, max_iter=1, shrink_every=1), CHAIN_Y),
        "graphs": (StructuredSparseMAPClassifier(graph_of, max_iter=2), GRAPH_Y),
        "selector": (InformationGainSelector(), CHAIN_Y),
        "rows": (OnRows(MaxAbsScaler()), None),
        "scores": (OutOfFoldScores(LogisticRegression()), CHAIN_Y),
        "union": (RowUnion([("a", "passthrough"), ("b", OnRows(MaxAbsScaler()))]), None),
        "pipeline": (
            make_structured_pipeline(OnRows(MaxAbsScaler()), StructuredSparseMAPClassifier("chain", max_iter=2)),
            CHAIN_Y,
        ),
    }
    for model, y in models.values():
        model.fit(good, y)
    calls = ("predict", "decision_function", "predict_marginals", "predict_structures", "transform")

    def in_list(fault):
        return [*good[:2], of_formats((LENGTHS[2], N_COLUMNS))[fault]()]

    def in_objects(fault):
        array = np.empty(3, object)
        array[:] = in_list(fault)
        return array

    def in_ragged(fault):
        ragged = RaggedArray(whole.copy(), STARTS)
        ragged.values = of_formats()[fault]()
        return ragged

    def of_ends(ends):
        ragged = RaggedArray(whole.copy(), STARTS)
        ragged.indptr = np.array(ends)
        return ragged

    containers = {f"list, {fault}": (in_list, fault) for fault in FEW}
    containers |= {f"objects, {fault}": (in_objects, fault) for fault in FEW[:2]}
    containers |= {f"ragged, {fault}": (in_ragged, fault) for fault in FEW}
    for ends in ([0, 20, 30, 10**8], [0, 20, 10, 60], [3, 20, 30, 60], [0, -20, 30, 60], [0.0, 20, 30, 60]):
        containers[f"ragged, ends {ends}"] = (of_ends, ends)
    chain, lasso = models["adagrad"][0], models["group lasso"][0]
    for title, (hold, fault) in containers.items():

        def make():
            return hold(fault)

        for name, (model, y) in models.items():
            for call in calls:
                if hasattr(model, call) and not (name == "graphs" and call == "predict_structures"):
                    cases.run(f"{name}, {title}: {call}", lambda model=model, call=call: getattr(model, call)(make()))
            cases.run(f"{name}, {title}: fit", lambda model=model, y=y: model.fit(make(), y))
            if hasattr(model, "partial_fit") and name not in ("rows", "pipeline"):
                classes = None if name == "graphs" else CLASSES
                cases.run(f"{name}, {title}: partial_fit", lambda m=model, y=y, c=classes: m.partial_fit(make(), y, c))
                cases.run(f"{name}, {title}: parts", lambda m=model, y=y: m.fit_partitions([(make(), y)]))
            if hasattr(model, "score"):
                cases.run(f"{name}, {title}: score", lambda model=model, y=y: model.score(make(), y))
        if hold is in_list:
            cases.run(f"{title}: explain", lambda: explain(chain, make()[2]))
        cases.run(f"{title}: mixing", lambda: ParameterMixing(chain, n_rounds=1).fit(make(), CHAIN_Y))
        cases.run(f"{title}: path", lambda: perceptron_path(lasso, make(), CHAIN_Y, [1], cv=2))
        cases.run(f"{title}: save", lambda: save_partition("nowhere/0.npz", make(), CHAIN_Y))


def run_targets(cases):
    """Label sets in a sparse indicator matrix."""
    good = sparse.csr_array((np.random.default_rng(0).random((N_ROWS, N_COLUMNS)) < 0.5) * 1.0)
    X = np.random.default_rng(1).normal(size=(N_ROWS, 3))
    models = {"lbfgs": MultilabelLPSparseMAP(max_iter=2), "adam": MultilabelLPSparseMAP("full", max_iter=2)}
    for model in models.values():
        model.fit(X, good)
    for fault in FEW:

        def target():
            made = of_formats()[fault]()
            made.data[:] = 1.0
            return made

        for name, model in models.items():
            where = f"{name}, {fault}"
            cases.run(f"{where}: fit", lambda model=model: model.fit(X, target()))
            cases.run(f"{where}: partial_fit", lambda model=model: model.partial_fit(X, target()))
            cases.run(f"{where}: score", lambda model=model: model.score(X, target()))
            cases.run(f"{where}: fit_partitions", lambda model=model: model.fit_partitions([(X, target())]))
        cases.run(f"{fault}: save", lambda: save_partition("nowhere/0.npz", X, target()))
        cases.run(f"{fault}: mixing", lambda: ParameterMixing(models["adam"], n_rounds=1).fit(X, target()))
        cases.run(f"{fault}: true", lambda: example_f1_score(target(), good))
        cases.run(f"{fault}: predicted", lambda: example_f1_score(good, target()))


def run_files(cases):
    """Partitions whose arrays were edited."""
    folder = Path(tempfile.mkdtemp())
    labelled = RaggedArray(matrix(), STARTS, groups=np.arange(N_COLUMNS), shapes=np.array(LENGTHS)[:, None])
    save_partition(folder / "ragged.npz", labelled, CHAIN_Y)
    save_partition(folder / "sets.npz", matrix(), matrix(indicator=True))
    values = {
        "a far value": lambda a: _with(a, -2, 10**8),
        "a negative value": lambda a: _with(a, -2, -5),
        "a far first value": lambda a: _with(a, 0, 10**7),
        "floats": lambda a: a + 0.5,
        "two axes": lambda a: a[:, None] if a.ndim else a[None, None],
        "no axes": lambda a: np.array(3),
        "fewer": lambda a: a[:-2],
        "nothing": lambda a: a[:0],
        "more": lambda a: np.concatenate([a, a]),
        "text": lambda a: np.array(["a"] * len(a)),
        "missing": None,
    }
    whole = {name: dict(np.load(folder / f"{name}.npz")) for name in ("ragged", "sets")}
    chain = StructuredSparseMAPClassifier("chain", max_iter=1)
    for name, arrays in whole.items():
        load_partition(folder / f"{name}.npz")
        for key in arrays:
            for how, change in values.items():
                edited = {k: a for k, a in arrays.items() if k != key or change is not None}
                if change is not None:
                    if key == "format" or (key.endswith(("data", "groups", "labels")) and "value" in how):
                        continue
                    try:
                        edited[key] = change(arrays[key])
                    except (ValueError, TypeError, IndexError, OverflowError):
                        continue
                    if np.array_equal(edited[key], arrays[key]):
                        continue
                if (key, how) in LEGAL:
                    continue
                path = folder / "edited.npz"
                np.savez(path, **edited)
                cases.run(f"{name}, {key}: {how}", lambda path=path: load_partition(path))
                if name == "ragged" and how == "a far value":
                    cases.run(f"{name}, {key}: {how}, fit", lambda path=path: chain.fit_partitions([path]))
    raw = (folder / "ragged.npz").read_bytes()
    rng = np.random.default_rng(0)
    for k in range(30):
        (folder / "cut.npz").write_bytes(raw[: int(rng.integers(len(raw)))])
        cases.run(f"cut {k}", lambda: load_partition(folder / "cut.npz"))


# Entries that a complete file may omit.
LEGAL = {("y.labels", "more"), ("y.labels", "missing"), ("X.groups", "missing"), ("X.shapes", "missing"),
         ("X.groups", "floats"), ("X.groups", "text"),
         ("y.labels", "floats"), ("y.labels", "text"),
         ("X.data", "floats"), ("y.data", "floats")}  # fmt: skip


def _with(array, place, value):
    array = array.copy()
    array[place] = value
    return array


def run_weights(cases):
    """Sparse weights that are assigned, or belong to somebody else's model."""
    model = StructuredSparseMAPClassifier().fit(matrix(shape=(N_ROWS, N_ROWS)), FLAT_Y).sparsify()

    class Linear:
        classes_ = CLASSES

    for fault in FEW:
        coef, other = of_formats()[fault](), Linear()
        cases.run(f"coef_, {fault}", lambda coef=coef: setattr(model, "coef_", coef))
        other.coef_ = coef
        cases.run(f"feature_table, {fault}", lambda other=other: feature_table(other))


def run_models(cases):
    """Fitted attributes, and arrays of models and training states, that were edited."""
    X = np.random.default_rng(0).normal(size=(N_ROWS, N_COLUMNS))
    Y = (np.random.default_rng(1).random((N_ROWS, 4)) < 0.5).astype(int)
    rows, wide = cut(X), sparse.csr_array(X)
    models = {
        "flat": (StructuredSparseMAPClassifier(max_iter=2).fit(X, FLAT_Y), X, FLAT_Y),
        "sparse": (StructuredSparseMAPClassifier(max_iter=2).fit(wide, FLAT_Y).sparsify(), wide, FLAT_Y),
        "stream": (StructuredSparseMAPClassifier().partial_fit(X, FLAT_Y, CLASSES), X, FLAT_Y),
        "chain": (StructuredSparseMAPClassifier("chain", max_iter=2).fit(rows, CHAIN_Y), rows, CHAIN_Y),
        "graphs": (StructuredSparseMAPClassifier(graph_of, max_iter=2).fit(rows, GRAPH_Y), rows, GRAPH_Y),
        "lasso": (GroupLassoPerceptron(budget=2, max_iter=1, shrink_every=9).fit(X, FLAT_Y), X, FLAT_Y),
        "lasso stream": (GroupLassoPerceptron().partial_fit(X, FLAT_Y, CLASSES), X, FLAT_Y),
        "sets": (MultilabelLPSparseMAP("full", max_iter=2).fit(X, Y), X, Y),
        "one label": (MultilabelLPSparseMAP(max_iter=2).fit(X, FLAT_Y), X, FLAT_Y),
        "selector": (InformationGainSelector().fit(X, FLAT_Y), X, FLAT_Y),
    }
    assigned = {
        "fewer classes": ("classes_", lambda a: a[:1]),
        "more classes": ("classes_", lambda a: np.append(a, a)),
        "no classes": ("classes_", lambda a: None),
        "fewer features": ("n_features_in_", lambda n: n - 1),
        "more features": ("n_features_in_", lambda n: n + 1),
        "coef_ of other features": ("coef_", lambda a: a[:, 1:]),
        "coef_ of other outputs": ("coef_", lambda a: a[:-1]),
        "intercept_": ("intercept_", lambda a: a[:-1]),
        "transitions_": ("transitions_", lambda a: a[:, :-1]),
        "transitions_ of NaN": ("transitions_", lambda a: a * np.nan),
        "far selected_groups_": ("selected_groups_", lambda a: a + 10**8),
        "negative selected_groups_": ("selected_groups_", lambda a: a - 10**8),
        "far groups_": ("groups_", lambda a: a + 10**8),
        "fewer groups_": ("groups_", lambda a: a[:-1]),
        "fewer scores_": ("scores_", lambda a: a[:1]),
    }
    inside = {
        "inner coef": lambda m: setattr(m._current, "coef", m._current.coef[:-1]),
        "inner outputs": lambda m: setattr(m._current, "coef", m._current.coef[:, :-1]),
        "inner intercept": lambda m: setattr(m._current, "intercept", m._current.intercept[:-1]),
        "inner additional": lambda m: setattr(m._current, "additional", np.zeros(len(m._current.additional) + 1)),
        "layers": lambda m: m.coefs_.__setitem__(0, m.coefs_[0][:-1]),
        "outputs of layers": lambda m: m.intercepts_.__setitem__(0, m.intercepts_[0][:-1]),
        "NaN of an edge": lambda m: m.edge_scores_.__setitem__(0, np.nan),
        "group weights": lambda m: setattr(m, "group_weights_", m.group_weights_[:-1]),
        "fewer atoms": lambda m: setattr(m.groups_, "atom_of", m.groups_.atom_of[:-1]),
        "far atoms": lambda m: setattr(m.groups_, "group_atoms", m.groups_.group_atoms + 10**8),
    }
    for name, (model, X_own, y) in models.items():
        calls = {
            call: lambda m, call=call, X=X_own: getattr(m, call)(X)
            for call in ("predict", "decision_function", "predict_marginals", "predict_structures", "transform")
            if hasattr(model, call)
        }
        if hasattr(model, "partial_fit"):
            classes = None if name in ("graphs", "sets") else CLASSES
            calls["score"] = lambda m, X=X_own, y=y: m.score(X, y)
            calls["partial_fit"] = lambda m, X=X_own, y=y, classes=classes: m.partial_fit(X, y, classes)
        if name == "graphs":
            del calls["predict_structures"]
        edits = {}
        for title, (attribute, change) in assigned.items():
            if not hasattr(model, attribute) or (isinstance(model, GroupLassoPerceptron) and "groups_" in title):
                continue
            if attribute == "coef_" and hasattr(model, "coefs_"):
                # Label sets have their layers below.
                continue

            def assign(m, attribute=attribute, change=change):
                setattr(m, attribute, change(getattr(m, attribute)))

            edits[title] = assign
        if hasattr(model, "coef_") and not hasattr(model, "coefs_"):
            edits |= {title: edit for title, edit in inside.items() if title.startswith("inner")}
        if hasattr(model, "coefs_"):
            edits |= {title: inside[title] for title in ("layers", "outputs of layers")}
        if name == "sets":
            edits["NaN of an edge"] = inside["NaN of an edge"]
        for title, edit in edits.items():
            for call, use in calls.items():
                if name == "selector" and title == "fewer features":
                    continue

                def attempt(model=model, edit=edit, use=use):
                    edited = copy.deepcopy(model)
                    edit(edited)
                    use(edited)

                cases.run(f"{name}, {title}: {call}", attempt)
        for title in ("inner outputs", "inner intercept") if "inner coef" in edits else ():

            def reload(model=model, edit=inside[title]):
                edited = copy.deepcopy(model)
                edited._current  # noqa: B018
                edit(edited)
                pickle.loads(pickle.dumps(edited))

            cases.run(f"{name}, {title}: pickled", reload)
    lasso, X_own, y = models["lasso"]
    for title in ("group weights", "fewer atoms", "far atoms"):
        for call in ("partial_fit", "finalize"):

            def attempt(edit=inside[title], call=call):
                edited = copy.deepcopy(lasso)
                edit(edited)
                getattr(edited, call)(X_own, y)

            cases.run(f"lasso, {title}: {call}", attempt)
    trees, heads = [np.ones((6, 2))] * 3, [np.array([[0, 0], [1, 1]])] * 3
    labelled = StructuredSparseMAPClassifier(DependencyTree(n_labels=2), max_iter=1).fit(trees, heads)
    n_values, pairs, values = [2], [np.ones((2, 2))] * 3, [np.array([0, 1])] * 3

    def changing(x):
        graph = FactorGraph()
        graph.categorical(2, n_values[0], name="u")
        return graph

    grids = StructuredSparseMAPClassifier(changing, max_iter=1).fit(pairs, values)
    labelled._structure.n_labels, n_values[0] = 500, 300
    for name, model, own, y in (("labelled trees", labelled, trees, heads), ("other graphs", grids, pairs, values)):
        cases.run(f"{name}: predict", lambda model=model, own=own: model.predict(own))
        cases.run(f"{name}: partial_fit", lambda model=model, own=own, y=y: model.partial_fit(own, y))
    edges = models["sets"][0].edges_
    cases.run("edges_ in place", lambda: edges.__setitem__((0, 0), 10**8))
    _run_states(cases, models, {"stream", "chain", "graphs", "lasso stream", "sets"})
    _run_stores(cases)


def _run_states(cases, models, names):
    """Training states, edited before an estimator takes them."""
    edits = {
        "far indices": lambda s: setattr(s, "indices", s.indices + 10**8),
        "negative indices": lambda s: setattr(s, "indices", s.indices - 10**8),
        "indices out of order": lambda s: setattr(s, "indices", s.indices[::-1].copy()),
        "fewer pairs": lambda s: s.pairs.__setitem__("weights", s.pairs["weights"][:-1]),
        "fewer sums": lambda s: s.dense.__setitem__("sums", s.dense["sums"][:-1]),
        "fewer weights": lambda s: s.dense.__setitem__("weights", s.dense["weights"][:-1]),
        "no pairs": lambda s: s.pairs.clear(),
        "fewer features": lambda s: setattr(s, "shape", (s.shape[0] - 1, s.shape[1])),
        "more outputs": lambda s: setattr(s, "shape", (s.shape[0], s.shape[1] + 1)),
        "other features": lambda s: s.attributes.__setitem__("n_features_in_", 3),
        "other classes": lambda s: s.attributes.__setitem__("classes_", np.array(["a"])),
        "negative steps": lambda s: s.counters.__setitem__("n_steps", -5),
    }
    for name in names:
        model, X, y = models[name]
        state = model.get_training_state()
        for title, edit in edits.items():
            if len(state.indices) == 0 and title not in ("fewer weights", "other features", "negative steps"):
                continue
            if name == "graphs" and title == "other classes":
                continue

            def attempt(model=model, X=X, y=y, state=state, edit=edit):
                edited = copy.deepcopy(state)
                edit(edited)
                other = copy.deepcopy(model).set_training_state(edited)
                other.predict(X)
                other.partial_fit(X, y)

            cases.run(f"state of {name}, {title}", attempt)


def _run_stores(cases):
    """Weights of an optimiser in a file."""
    X = matrix()
    model = GroupLassoPerceptron().partial_fit(X, FLAT_Y, CLASSES)
    edits = {
        "far block": lambda s: s.features.__setitem__((0, 0), 10**6),
        "far atom": lambda s: s.features.__setitem__((0, 3), 10**6),
        "far next feature": lambda s: s.features.__setitem__((0, 2), 10**6),
        "far first feature": lambda s: s.first_active.__setitem__(0, 10**6),
    }
    for title, edit in edits.items():

        def attempt(edit=edit):
            edited = copy.deepcopy(model)
            edit(edited._learned.optimizer.store)
            pickle.loads(pickle.dumps(edited))

        cases.run(f"store, {title}", attempt)


def run_arguments(cases):
    """Oracles, groups, graphs and batches: what else holds indices."""

    @njit
    def compiled(scores):
        return np.array([int(scores[0]), int(scores[1])])

    graph = FactorGraph()
    u = graph.variables(3)
    custom = CustomStructure(compiled)
    graph.add(StructureFactor(custom, u))
    for parts in ([-1, 1], [10**8, 1], [3, 1], [1, 1], [-(10**8), 0], [2**31, 1]):
        scores = np.array([*parts, 0.5])
        cases.run(f"compiled oracle, {parts}: sparsemap", lambda scores=scores: sparsemap(custom, scores))
        cases.run(f"compiled oracle, {parts}: map", lambda scores=scores: map_inference(custom, scores))
        cases.run(f"compiled oracle, {parts}: batch", lambda scores=scores: sparsemap(custom, [scores] * 3, n_jobs=2))
        cases.run(f"compiled oracle, {parts}: graph", lambda scores=scores: lp_sparsemap(graph, scores))
    for parts in ([-1], [3], [1, 1], [0.5], [[0], [1]], "ab", [10**8], [2**63]):
        python = CustomStructure(lambda scores, parts=parts: parts)
        for name, call in (("sparsemap", sparsemap), ("map", map_inference)):
            cases.run(f"oracle, {parts}: {name}", lambda call=call, python=python: call(python, np.zeros(3)))
        cases.run(f"encode, {parts}", lambda parts=parts: StructuredSparseMAPClassifier(
            CustomStructure(lambda scores: [0]), max_iter=1
        ).fit([np.ones((3, 2))], [parts]))  # fmt: skip
    cases.run("n best", lambda: n_best(LinearChain(), np.zeros((2, 2)), -1))

    other = FactorGraph()
    v = other.variables(4)
    other.add(Pair(v[:2], v[2:], name="p"))
    given = {"additional": {"p": np.ones(2)}}
    result = lp_sparsemap(other, np.zeros(4), **given)
    cases.run("warm start of another graph", lambda: lp_sparsemap(graph, np.zeros(3), warm_start=result))
    other.add(Xor(v))
    cases.run("warm start of a smaller graph", lambda: lp_sparsemap(other, np.zeros(4), warm_start=result, **given))
    broken = FactorGraph()
    w = broken.variables(4)
    w.indices[1] = 10**8
    cases.run("variables", lambda: (broken.add(Xor(w)), lp_sparsemap(broken, np.zeros(4))))
    cases.run("variables of another graph", lambda: broken.add(Xor(v)))

    X = np.random.default_rng(0).normal(size=(N_ROWS, N_COLUMNS))
    lists = [[0, 1], [2, 3, 4]]
    for groups in (
        [[0, 1], [2, 3, 10**8]], [[0, 1], [2, 3, -4]], [[0, 1], [2, 3, 2**63]], {"a": [0, 1, 2], "b": [3, 4, 5]},
        [0, 0, 1, 1, -1], [0, 0, 1, 1], [0, 0, 1, 1, 10**8], [0.5] * 5, sparse.csr_array(np.eye(5)),
        GroupOrder([(0, 1)], columns=[[0, 1], [2, 3, 9]]),
    ):  # fmt: skip
        title = str(groups)[:40].replace("\n", " ")
        cases.run(f"groups {title}: fit", lambda g=groups: GroupLassoPerceptron(groups=g, budget=1).fit(X, FLAT_Y))
        cases.run(f"groups {title}: prox", lambda g=groups: GroupLasso(g).prox(np.ones(N_COLUMNS)))
    changes = {"far": lambda a: a + 10**8, "negative": lambda a: a - 10**8, "fewer": lambda a: a[1:]}
    for name in ("group_atoms", "group_indptr", "order", "atom_of"):
        for title, change in changes.items():
            groups = as_groups(lists, N_COLUMNS)
            setattr(groups, name, change(getattr(groups, name)))
            where = f"groups, {title} {name}"
            cases.run(f"{where}: prox", lambda g=groups: GroupLasso(g).prox(np.ones(N_COLUMNS)))
            cases.run(f"{where}: fit", lambda g=groups: GroupLassoPerceptron(groups=g, budget=1).fit(X, FLAT_Y))
    sound = ["a", "b"], [0, 1, 2], [0, 1], 2, [0, 0, 1]
    faults = (1, [0, 1, 9]), (1, [0, 2, 1]), (2, [0, 5]), (2, [0, -1]), (3, 1), (4, [0, 0, 7]), (4, [0, 0, -1])
    for k, wrong in faults:
        parts = [np.array(part) if k > 0 and isinstance(part, list) else part for k, part in enumerate(sound)]
        parts[k] = np.array(wrong) if isinstance(wrong, list) else wrong
        cases.run(f"Groups, {k}: {wrong}", lambda parts=parts: Groups(*parts))

    ragged = RaggedArray(np.zeros((N_ROWS, 2)), STARTS)
    batch = sparsemap(LinearChain(), ragged)
    for ends in ([0, 20, 30, 10**8], [0, 20, 10, 60], [0, -20, 30, 60], [0, 20, 60]):
        broken_scores = RaggedArray(np.zeros((N_ROWS, 2)), STARTS)
        broken_scores.indptr = np.array(ends)
        cases.run(f"scores of ends {ends}", lambda s=broken_scores: sparsemap(LinearChain(), s), ends == [0, 20, 60])
        cases.run(f"vjp of ends {ends}", lambda s=broken_scores: batch.vjp(s))
        cases.run(f"jvp of ends {ends}", lambda s=broken_scores: batch.jvp(s))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for group in sys.argv[1:]:
        sys.stdout.write(f"group {group}\n")
        sys.stdout.flush()
        globals()[f"run_{group}"](Cases())
