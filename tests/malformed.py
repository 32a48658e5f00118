"""Cases of malformed input, run in a process of their own because a fault may end it: `python malformed.py GROUP`.

Each case prints its name before it runs and what came of it afterwards.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    RaggedArray,
    StructuredSparseMAPClassifier,
    group_path,
    stability_selection,
)
from sklearn_sparsemap.datasets import load_partition, save_partition
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.factors import FactorGraph, Xor
from sklearn_sparsemap.features import InformationGainSelector, OnRows, RowUnion
from sklearn_sparsemap.inspection import explain, feature_table
from sklearn_sparsemap.metrics import example_f1_score
from sklearn_sparsemap.pipeline import make_structured_pipeline

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


# What may be wrong with the arrays of a compressed matrix, whose lines are rows or columns.
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


def of_formats():
    """Return functions that make a malformed matrix, by name."""
    found = {}
    for kind in ("csr", "csc"):
        for index in (np.int32, np.int64):
            faults = COMPRESSED if index is np.int32 else COMPRESSED | WIDE
            for name, damage in faults.items():
                make = lambda kind=kind, index=index: matrix(kind, index)  # noqa: E731
                found[f"{kind} {np.dtype(index)} {name}"] = lambda make=make, damage=damage: damaged(make, damage)
    for name in ("far index", "negative index", "far pointer", "last pointer", "few pointers", "few indices"):
        found[f"bsr {name}"] = lambda damage=COMPRESSED[name]: damaged(blocks, damage)
    for name, damage in COORDINATES.items():
        found[f"coo {name}"] = lambda damage=damage: damaged(lambda: matrix("coo"), damage)
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
    """Runs cases one after the other; what has no ValueError is not right."""

    def run(self, name, call):
        print(f"begin {name}", flush=True)
        try:
            call()
            outcome = "silent"
        except ValueError as error:
            outcome = f"ValueError {error}"
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
        print(f"end {outcome}", flush=True)


CLASSES = ["a", "b"]
FLAT_Y = np.array(CLASSES * (N_ROWS // 2))
LENGTHS = [20, 10, 30]
STARTS = np.cumsum([0, *LENGTHS])
CHAIN_Y = [FLAT_Y[a:b].tolist() for a, b in zip(STARTS, STARTS[1:])]


def graph_of(x):
    graph = FactorGraph()
    u = graph.variables(x.shape[0])
    graph.add(Xor(u[:2]))
    return graph


GRAPH_Y = [np.array([True] + [False] * (n - 1)) for n in LENGTHS]


def samples_of(made):
    """Return the rows of a matrix as samples, cut where nothing reads its index arrays out of bounds; None if not."""
    if made.format != "csr":
        return None
    whole = matrix()
    found = [whole[a:b] for a, b in zip(STARTS, STARTS[1:])]
    # The damaged one stands for the last sample, and has as many rows.
    return [*found[:2], made]


def run_flat(cases):
    good = matrix()
    models = {
        "adagrad": StructuredSparseMAPClassifier(solver="adagrad", max_iter=2),
        "lbfgs": StructuredSparseMAPClassifier(loss="crf", max_iter=2),
        "mira": StructuredSparseMAPClassifier(loss="hinge", solver="mira", max_iter=2),
        "float32": StructuredSparseMAPClassifier(dtype=np.float32, max_iter=2),
        "early stopping": StructuredSparseMAPClassifier(early_stopping=True, max_iter=2),
        "group lasso": GroupLassoPerceptron(budget=2, max_iter=1, shrink_every=10),
        "label sets": MultilabelLPSparseMAP(max_iter=2),
        "label sets, adam": MultilabelLPSparseMAP("full", solver="adam", max_iter=2),
        "selector": InformationGainSelector(),
    }
    fitted = {name: model.fit(good, FLAT_Y) for name, model in models.items()}
    calls = ("predict", "predict_proba", "decision_function", "predict_marginals", "predict_structures", "transform")
    faults = of_formats()
    for fault, make in faults.items():
        for name, model in fitted.items():
            # All faults go to one estimator in full, and to the others in a few.
            if name != "adagrad" and not fault.startswith(("csr int64", "csc int32 far", "coo")):
                continue
            where = f"{name}, {fault}"
            cases.run(f"{where}: fit", lambda: model.fit(make(), FLAT_Y))
            for call in calls:
                if hasattr(model, call):
                    cases.run(f"{where}: {call}", lambda call=call: getattr(model, call)(make()))
            if hasattr(model, "score"):
                cases.run(f"{where}: score", lambda: model.score(make(), FLAT_Y))
            if hasattr(model, "partial_fit"):
                cases.run(f"{where}: partial_fit", lambda: model.partial_fit(make(), FLAT_Y, CLASSES))
                cases.run(f"{where}: fit_partitions", lambda: model.fit_partitions([(make(), FLAT_Y)]))
        # Once each, what is beside the estimators.
        forest = fitted["adagrad"]
        cases.run(f"{fault}: mixing", lambda: ParameterMixing(models["adagrad"], n_rounds=1).fit(make(), FLAT_Y))
        cases.run(f"{fault}: n best", lambda: forest.predict_n_best(make(), 2))
        cases.run(f"{fault}: log likelihood", lambda: fitted["lbfgs"].log_likelihood(make(), FLAT_Y))
        cases.run(f"{fault}: sample", lambda: fitted["lbfgs"].sample(make()))
        cases.run(f"{fault}: path", lambda: group_path(fitted["group lasso"], make(), FLAT_Y, [1], cv=2))
        cases.run(f"{fault}: stability", lambda: stability_selection(fitted["group lasso"], make(), FLAT_Y))
        cases.run(f"{fault}: save", lambda: save_partition("nowhere/0.npz", make(), FLAT_Y))
        cases.run(f"{fault}: ragged", lambda: RaggedArray(make(), STARTS))
        cases.run(f"{fault}: rows", lambda: OnRows(MaxAbsScaler()).fit([make()]))
        cases.run(f"{fault}: metric", lambda: example_f1_score(make(), np.ones((N_ROWS, N_COLUMNS), int)))


def run_structured(cases):
    whole = matrix()
    good = [whole[a:b] for a, b in zip(STARTS, STARTS[1:])]
    models = {
        "adagrad": (StructuredSparseMAPClassifier("chain", solver="adagrad", max_iter=2), CHAIN_Y),
        "lbfgs": (StructuredSparseMAPClassifier("chain", loss="crf", max_iter=2), CHAIN_Y),
        "group lasso": (GroupLassoPerceptron("chain", budget=2, max_iter=1, shrink_every=1), CHAIN_Y),
        "graphs": (StructuredSparseMAPClassifier(graph_of, max_iter=2), GRAPH_Y),
        "selector": (InformationGainSelector(), CHAIN_Y),
        "rows": (OnRows(MaxAbsScaler()), None),
        "union": (RowUnion([("a", "passthrough"), ("b", OnRows(MaxAbsScaler()))]), None),
        "pipeline": (
            make_structured_pipeline(OnRows(MaxAbsScaler()), StructuredSparseMAPClassifier("chain", max_iter=2)), CHAIN_Y
        ),
    }
    fitted = {name: (model.fit(good, y), y) for name, (model, y) in models.items()}
    calls = (
        "predict", "decision_function", "predict_marginals", "predict_structures", "transform", "sample",
        "fit_transform",
    )  # fmt: skip

    def in_list(make):
        made = make()
        return [*good[:2], made[:0] if made is None else made]

    def in_objects(make):
        array = np.empty(3, object)
        array[:] = in_list(make)
        return array

    def in_ragged(make):
        ragged = RaggedArray(whole.copy(), STARTS)
        made = make()
        ragged.values = made
        return ragged

    def make_small(kind, index, damage):
        def make():
            return damaged(lambda: matrix(kind, index, (LENGTHS[2], N_COLUMNS)), damage)

        return make

    faults = {}
    for kind in ("csr", "csc"):
        for index in (np.int32, np.int64):
            for name, damage in (COMPRESSED if index is np.int32 else COMPRESSED | WIDE).items():
                faults[f"{kind} {np.dtype(index)} {name}"] = make_small(kind, index, damage)
    for name, damage in COORDINATES.items():
        faults[f"coo {name}"] = make_small("coo", np.int32, damage)
    containers = {f"list, {name}": (in_list, make) for name, make in faults.items()}
    containers |= {f"objects, {name}": (in_objects, make) for name, make in faults.items() if "csr int32" in name}
    containers |= {f"ragged, {name}": (in_ragged, make) for name, make in of_formats().items() if "csr" in name}

    def broken_ends(ends):
        def make():
            ragged = RaggedArray(whole.copy(), STARTS)
            ragged.indptr = np.array(ends)
            return ragged

        return make

    for ends in ([0, 20, 30, 10**8], [0, 20, 10, 60], [3, 20, 30, 60], [0, -20, 30, 60], [0.0, 20, 30, 60]):
        containers[f"ragged, ends {ends}"] = (lambda make: make(), broken_ends(ends))
    for fault, (hold, make) in containers.items():
        for name, (model, y) in fitted.items():
            if name not in ("adagrad", "rows") and "int32" in fault and "objects" not in fault and "far" not in fault:
                continue
            where = f"{name}, {fault}"
            for call in calls:
                if hasattr(model, call) and not (call == "sample" and name != "lbfgs"):
                    arguments = (y,) if call == "fit_transform" else ()
                    cases.run(f"{where}: {call}", lambda call=call, a=arguments: getattr(model, call)(hold(make), *a))
            cases.run(f"{where}: fit", lambda: model.fit(hold(make), y))
            if hasattr(model, "score"):
                cases.run(f"{where}: score", lambda: model.score(hold(make), y))
            if hasattr(model, "fit_partitions"):
                cases.run(f"{where}: partial_fit", lambda: model.partial_fit(hold(make), y, classes=CLASSES))
                cases.run(f"{where}: fit_partitions", lambda: model.fit_partitions([(hold(make), y)]))
        chain = fitted["adagrad"][0]
        if hold is in_list:
            cases.run(f"{fault}: explain", lambda: explain(chain, hold(make)[2]))
        cases.run(f"{fault}: mixing", lambda: ParameterMixing(chain, n_rounds=1).fit(hold(make), CHAIN_Y))
        cases.run(f"{fault}: path", lambda: group_path(fitted["group lasso"][0], hold(make), CHAIN_Y, [1], cv=2))
        cases.run(f"{fault}: save", lambda: save_partition("nowhere/0.npz", hold(make), CHAIN_Y))


def run_targets(cases):
    """Label sets, in a sparse indicator matrix."""
    good = sparse.csr_array((np.random.default_rng(0).random((N_ROWS, N_COLUMNS)) < 0.5) * 1.0)
    X = np.random.default_rng(1).normal(size=(N_ROWS, 3))
    models = {"lbfgs": MultilabelLPSparseMAP(max_iter=2), "adam": MultilabelLPSparseMAP("full", max_iter=2)}
    fitted = {name: model.fit(X, good) for name, model in models.items()}
    for fault, make in of_formats().items():

        def target():
            made = make()  # noqa: B023
            if made.format != "dok" and made.data.dtype != object:
                made.data[:] = 1.0
            return made

        for name, model in fitted.items():
            where = f"{name}, {fault}"
            cases.run(f"{where}: fit", lambda: model.fit(X, target()))
            cases.run(f"{where}: partial_fit", lambda: model.partial_fit(X, target()))
            cases.run(f"{where}: score", lambda: model.score(X, target()))
            cases.run(f"{where}: fit_partitions", lambda: model.fit_partitions([(X, target())]))
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
                if name == "ragged":
                    cases.run(f"{name}, {key}: {how}, fit", lambda path=path: chain.fit_partitions([path]))
    raw = (folder / "ragged.npz").read_bytes()
    rng = np.random.default_rng(0)
    for k in range(30):
        (folder / "cut.npz").write_bytes(raw[: int(rng.integers(len(raw)))])
        cases.run(f"cut {k}", lambda: load_partition(folder / "cut.npz"))


# What a file may leave out, and still be whole.
LEGAL = {("y.labels", "more"), ("y.labels", "missing"), ("X.groups", "missing"), ("X.shapes", "missing"), ("X.groups", "floats"), ("X.groups", "text"),
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

    for fault, damage in COMPRESSED.items():
        for kind in ("csr", "csc"):
            shape = (2, N_ROWS) if kind == "csc" else (N_ROWS, 2)
            coef = damaged(lambda kind=kind, shape=shape: matrix(kind, shape=shape), damage)
            cases.run(f"coef_, {kind} {fault}", lambda coef=coef: setattr(model, "coef_", coef))
            other = Linear()
            other.coef_ = coef
            cases.run(f"feature_table, {kind} {fault}", lambda other=other: feature_table(other))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    globals()[f"run_{sys.argv[1]}"](Cases())
