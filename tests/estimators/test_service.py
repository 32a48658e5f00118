"""A service in one process: signals, forks, the end of the interpreter, readers of a model in training, pickles."""

import pickle
import sys
import warnings

import numpy as np
import pytest
from internals import jit
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning

from sklearn_sparsemap import (
    DecisionFocusedRegressor,
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    StructuredSparseMAPClassifier,
)
from sklearn_sparsemap.features import TokenDictVectorizer

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

DATA = """
import os, pickle, signal, sys, threading, time, warnings
import numpy as np
from scipy import sparse
import sklearn_sparsemap
from sklearn_sparsemap import *
from sklearn_sparsemap.factors import AtMost, FactorGraph
from sklearn_sparsemap.features import TokenDictVectorizer
from sklearn_sparsemap.score_models import Network
from sklearn_sparsemap.structures import LinearChain, Matching, Simplex

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
hard, flat = 1e-3 * rng.normal(size=(100, 30)), 1e-5 * rng.normal(size=(30, 30))
X = [rng.normal(size=(6, 20)) for _ in range(60)]
y = [rng.choice(list("abc"), 6).tolist() for _ in X]
rows, sets = rng.normal(size=(120, 30)), rng.integers(0, 2, (120, 6))
graph = FactorGraph()
u = graph.variables((8, 8))
for i in range(8):
    graph.add(AtMost(u[i], 3)), graph.add(AtMost(u[:, i], 2))
"""

# Without searches of mixed-integer programs, whose solver writes to file descriptor 1.
WATCHED = """
import locale
chain = StructuredSparseMAPClassifier("chain", max_iter=3, random_state=0).fit(X, y)
labels = MultilabelLPSparseMAP(max_iter=3, random_state=0).fit(rows, sets)
stream = StructuredSparseMAPClassifier("chain", solver="adagrad", random_state=0)
dicts = [[{"word": str(i % 7)} for i in range(5)] for _ in range(50)]
calls = {
    "sparsemap": lambda: sparsemap(LinearChain(), hard, transitions=flat, max_iter=300, solver="active_set"),
    "map_inference": lambda: map_inference(Matching(), rng.normal(size=(60, 60))),
    "n_best": lambda: n_best(LinearChain(), hard, 50),
    "lp_sparsemap": lambda: lp_sparsemap(graph, [rng.normal(size=(8, 8)) for _ in range(20)]),
    "fit": lambda: StructuredSparseMAPClassifier("chain", max_iter=3).fit(X, y),
    "partial_fit": lambda: stream.partial_fit(X, y, classes=list("abc")),
    "fit of groups": lambda: GroupLassoPerceptron("chain", groups=np.arange(20) // 4, budget=2, max_iter=2).fit(X, y),
    "fit of label sets": lambda: MultilabelLPSparseMAP(max_iter=3, random_state=0).fit(rows, sets),
    "predict": lambda: (chain.predict(X), labels.predict(rows)),
    "predict_marginals": lambda: (chain.predict_marginals(X), labels.predict_marginals(rows)),
    "predict_proba": lambda: (chain.predict_proba(X), labels.predict_proba(rows)),
    "predict_n_best": lambda: chain.predict_n_best(X, 3),
    "predict_structures": lambda: chain.predict_structures(X),
    "decision_function": lambda: (chain.decision_function(X), labels.decision_function(rows)),
    "score": lambda: (chain.score(X, y), labels.score(rows, sets)),
    "to_arrays": lambda: StructuredSparseMAPClassifier.from_arrays(chain.to_arrays()),
    "pickle": lambda: pickle.loads(pickle.dumps(stream)),
    "get_training_state": lambda: stream.set_training_state(stream.get_training_state()),
    "vectorizer": lambda: TokenDictVectorizer().fit(dicts).transform(dicts),
}
SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGALRM


def state():
    files = [os.fstat(fd)[:3] for fd in range(3)]
    return files, dict(os.environ), [signal.getsignal(s) for s in SIGNALS], locale.setlocale(locale.LC_ALL)


def watch():
    while not is_over.is_set():
        seen.append(state() == before)


for name, call in calls.items():
    call()
    before, own, seen, is_over = state(), (np.geterr(), list(warnings.filters)), [], threading.Event()
    thread = threading.Thread(target=watch)
    thread.start()
    end = time.perf_counter() + 0.15
    while time.perf_counter() < end:
        call()
    is_over.set()
    thread.join()
    after = state() == before and own == (np.geterr(), list(warnings.filters)) and signal.set_wakeup_fd(-1) == -1
    print(name, len(seen) > 5, all(seen), after, sep="|")
"""

LONG = """
import faulthandler

# A call that no signal ends would run for ever.
faulthandler.dump_traceback_later(480, exit=True)


class Ended(Exception):
    pass


def end(*_):
    raise Ended


big = rng.normal(size=(1500, 1500))
big = np.round(1e4 * np.outer(np.sort(big[0]), np.sort(big[1]))) + np.round(big)
many = [rng.normal(size=(60, 40)) for _ in range(300)]
tags = [rng.integers(0, 30, 60) for _ in many]
hidden = Network((50,), dropout=0.0, batch_size=64)
calls = {
    "sparsemap": lambda: sparsemap(LinearChain(), hard, transitions=flat, solver="active_set", max_iter=10**9),
    "in two threads": lambda: sparsemap(
        LinearChain(), [hard, 2 * hard], transitions=flat, solver="active_set", max_iter=10**9, n_jobs=2
    ),
    "n_best": lambda: n_best(LinearChain(), hard, 10**6),
    "map_inference": lambda: [map_inference(Matching(), big) for _ in range(1000)],
    "fit": lambda: StructuredSparseMAPClassifier("chain", solver="adagrad", max_iter=10**6, tol=0.0).fit(many, tags),
    "L-BFGS": lambda: StructuredSparseMAPClassifier("chain", solver="lbfgs", max_iter=10**6, tol=0.0).fit(many, tags),
    "partial_fit": lambda: stream.partial_fit(many * 500, tags * 500, classes=range(30)),
    "label sets": lambda: MultilabelLPSparseMAP(score_model=hidden, max_iter=10**6, tol=0.0).fit(rows, sets),
}
signal.signal(signal.SIGALRM, end)
signal.signal(signal.SIGTERM, end)
for name, call in calls.items():
    stream = StructuredSparseMAPClassifier("chain", solver="adagrad")
    for number in (signal.SIGALRM, signal.SIGTERM):
        sent, has_ended = [], threading.Event()

        def send(number=number, sent=sent, has_ended=has_ended):
            # Again and again, because the exception can be lost while kernels are compiled or loaded.
            while not has_ended.wait(0.5):
                sent.append(time.perf_counter())
                os.kill(os.getpid(), number)
                has_ended.wait(20.0)

        thread = threading.Thread(target=send)
        thread.start()
        try:
            call()
            print(name, "finished", sep="|")
        except Ended:
            late = time.perf_counter() - sent[-1]
            has_ended.set()
        thread.join()
    # On an idle machine it is less than a second.
    print(name, late < 20.0, late, sep="|")
"""

RETURNS = """
from sklearn_sparsemap.losses import FenchelYoungLoss

scores = [rng.normal(size=(40, 12)) for _ in range(300)]
gold = [rng.integers(0, 12, 40) for _ in scores]
loss, transitions, seen = FenchelYoungLoss(LinearChain(), "sparsemap"), rng.normal(size=(12, 12)), []


def gradients():
    found = loss.loss_gradient(scores, gold, transitions=transitions)
    return np.concatenate([np.ravel(part) for own, parts in found for part in (own, *parts.values())])


wanted = gradients()
signal.signal(signal.SIGALRM, lambda *_: seen.append(0))
signal.setitimer(signal.ITIMER_REAL, 0.004, 0.004)
same = all(np.array_equal(gradients(), wanted) for _ in range(5))
signal.setitimer(signal.ITIMER_REAL, 0.0)
print(len(seen) > 3, same)
"""

# Numba's lock is held, as while it compiles.
FORK = """
from numba.core.compiler_lock import global_compiler_lock


def compile_long():
    with global_compiler_lock:
        is_held.set()
        time.sleep(1.0)


is_held = threading.Event()
thread = threading.Thread(target=compile_long)
thread.start()
is_held.wait()
child = os.fork()
if child == 0:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(240)
    found = sparsemap(Matching(), [[1.0, 0.8], [0.9, 0.5]]).marginals.round(2).tolist()
    os._exit(0 if found == [[0.45, 0.55], [0.55, 0.45]] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""

LATE = """
import atexit

scores = [rng.normal(size=(400, 5)) for _ in range(40)]
wanted = [found.structure for found in map_inference(LinearChain(), scores)]


def compare(when):
    for n_jobs in (None, 2):
        found = map_inference(LinearChain(), scores, n_jobs=n_jobs)
        fitted = StructuredSparseMAPClassifier("chain", solver="adagrad", max_iter=2, n_jobs=n_jobs).fit(X, y)
        right = all(np.array_equal(a.structure, b) for a, b in zip(found, wanted, strict=True))
        print(when, n_jobs, right, np.isfinite(fitted.coef_).all(), flush=True)


def late():
    threading.main_thread().join()
    time.sleep(0.1)
    compare("thread")


compare("main")
atexit.register(compare, "exit")
threading.Thread(target=late).start()
"""

# Readers beside a stream; each result is that of a model after some mini-batch.
READERS = """
kind = sys.argv[1]
n_batches = 24


def model_and_batches():
    rng = np.random.default_rng(1)
    if kind == "labels":
        X, y = rng.normal(size=(120, 50)), rng.integers(0, 2, (120, 6))
        model, options = MultilabelLPSparseMAP(random_state=0, score_model=Network((20,), dropout=0.0)), {}
    else:
        n = 6_000_000 if kind == "pairs" else 40
        X = [sparse.csr_array(rng.normal(size=(6, 40))) for _ in range(120)]
        if kind == "pairs":
            X = [sparse.random_array((6, n), density=1e-6, rng=rng, format="csr") for _ in X]
        y, options = [rng.choice(list("abcde"), 6).tolist() for _ in X], {"classes": list("abcde")}
        model = StructuredSparseMAPClassifier("chain", solver="adagrad", random_state=0)
        if kind == "groups":
            model = GroupLassoPerceptron(
                "chain", groups=np.arange(40) // 4, budget=4, shrink_every=7, random_state=0
            )
    return model, [(X[i : i + 5], y[i : i + 5]) for i in range(0, 120, 5)], options


def values(model):
    found = [model.decision_function(probe)]
    if kind == "labels":
        found += [model.predict_marginals(probe), model.threshold_, model.coefs_[0].sum()]
    return np.concatenate([np.ravel(each) for part in found for each in np.atleast_1d(part)]).round(9).tobytes()


def read():
    while not is_over.is_set():
        for way in ("itself", "pickle", "arrays"):
            try:
                chosen = model
                if way == "pickle":
                    chosen = pickle.loads(pickle.dumps(model))
                elif way == "arrays" and kind != "pairs":
                    chosen = type(model).from_arrays(model.to_arrays())
                if kind != "labels" or chosen is not model:
                    seen.append(values(chosen))
                else:
                    chosen.predict(probe), chosen.coefs_
                if kind == "groups":
                    model.selected_groups_, model.group_norms_
                model.get_training_state()
            except BaseException as error:
                errors.append(repr(error))


model, batches, options = model_and_batches()
probe = batches[0][0]
states = set()
for X_batch, y_batch in batches:
    model.partial_fit(X_batch, y_batch, **options)
    states.add(values(model))
model, batches, options = model_and_batches()
model.partial_fit(*batches[0], **options)
seen, errors, is_over = [], [], threading.Event()
threads = [threading.Thread(target=read) for _ in range(2)]
for thread in threads:
    thread.start()
for X_batch, y_batch in batches[1:]:
    model.partial_fit(X_batch, y_batch)
is_over.set()
for thread in threads:
    thread.join()
print(len(states) == n_batches, len(set(seen)) > 2, set(seen) <= states, errors[:2], sep="|")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="without these signals")
def test_no_call_touches_the_process(fresh_python):
    done = fresh_python(DATA + WATCHED)
    lines = [line.split("|") for line in done.stdout.splitlines()]
    assert len(lines) == 19, done.stderr
    for name, is_watched, during, after in lines:
        assert (is_watched, during, after) == ("True", "True", "True"), name


@pytest.mark.skipif(sys.platform == "win32", reason="without these signals")
def test_handlers_that_raise_end_every_long_call(fresh_python):
    done = fresh_python(DATA + LONG)
    lines = [line.split("|") for line in done.stdout.splitlines()]
    assert len(lines) == 8, done.stdout + done.stderr
    assert all(line[1] == "True" for line in lines), done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="without these signals")
def test_a_handler_that_returns_does_not_change_gradients(fresh_python):
    done = fresh_python(DATA + RETURNS)
    assert done.stdout.split() == ["True", "True"], done.stdout + done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="without fork")
def test_a_process_forked_during_compilation_works(fresh_python):
    done = fresh_python(DATA + FORK)
    assert done.stdout.split() == ["0"], done.stderr


def test_several_threads_are_used_until_the_interpreter_ends(fresh_python, tmp_path):
    # The processes of `fresh_python` end without the functions of `atexit`.
    import subprocess

    path = tmp_path / "late.py"
    path.write_text(DATA + LATE)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines == [f"{w} {n} True True" for w in ("main", "thread", "exit") for n in (None, 2)], done.stderr


@pytest.mark.parametrize("kind", ["dense", "pairs", "groups", "labels"])
def test_readers_see_whole_models_of_a_stream(kind, fresh_python):
    done = fresh_python(DATA + READERS, kind)
    assert done.stdout.strip() == "True|True|True|[]", done.stdout + done.stderr


def test_a_fit_publishes_all_attributes_together():
    X = np.random.default_rng(0).normal(size=(30, 4))
    model = StructuredSparseMAPClassifier(max_iter=2).fit(X, X[:, 0] > 0)
    seen = []

    class Looking(StructuredSparseMAPClassifier.monitor_class):
        def on_iteration(self, loss):
            # The estimator is still the one of the first fit.
            seen.append((model.classes_.tolist(), model.coef_.shape, len(model.predict(X))))
            return super().on_iteration(loss)

    model.monitor_class = Looking
    model.fit(np.hstack([X, X]), np.where(X[:, 0] > 0, "a", np.where(X[:, 1] > 0, "b", "c")))
    assert seen
    assert set(map(str, seen)) == {str(([False, True], (2, 4), 30))}
    assert model.classes_.tolist() == ["a", "b", "c"]


def fitted():
    X, y = np.eye(4), ["a", "b", "a", "b"]
    yield StructuredSparseMAPClassifier().fit(X, y)
    yield StructuredSparseMAPClassifier().partial_fit(X, y, classes=["a", "b"])
    yield MultilabelLPSparseMAP().partial_fit(X, np.eye(4, dtype=int))
    yield TokenDictVectorizer().fit([[{"word": "a"}]])


def test_pickles_carry_the_version_and_another_one_warns():
    for model in fitted():
        data = pickle.dumps(model)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = pickle.loads(data)
        assert vars(again).keys() == vars(model).keys()
        state = model.__getstate__()
        (name,) = state.keys() - vars(model).keys()
        with pytest.warns(InconsistentVersionWarning, match=f"{type(model).__name__} of sklearn_sparsemap 0.0.9"):
            type(model).__new__(type(model)).__setstate__(state | {name: "0.0.9"})
        with pytest.warns(InconsistentVersionWarning, match="without a version"):
            type(model).__new__(type(model)).__setstate__(vars(model))


@pytest.mark.parametrize(
    ("model", "pairs", "expected"),
    [
        (
            StructuredSparseMAPClassifier("chain"),
            {"loss": ("hinge", [[0.0, 1.0], [2.0, 0.0]]), "solver": ("mira", 0.5)},
            {"loss": "hinge", "cost": [[0.0, 1.0], [2.0, 0.0]], "solver": "mira", "eta0": 0.5},
        ),
        (StructuredSparseMAPClassifier(), {"loss": "crf"}, {"loss": "crf", "cost": None, "eta0": None}),
        (GroupLassoPerceptron(), {"budget": (7, "weights")}, {"budget": 7, "budget_unit": "weights"}),
        (GroupLassoPerceptron(), {"budget": 7}, {"budget": 7, "budget_unit": "groups", "cost": None}),
        (MultilabelLPSparseMAP(), {"alpha": ("auto", 0.5)}, {"alpha": "auto", "edge_alpha": 0.5, "edge_eta0": None}),
        (MultilabelLPSparseMAP(), {"eta0": (None, 0.1)}, {"eta0": None, "edge_eta0": 0.1, "edge_alpha": 1e-3}),
        (DecisionFocusedRegressor(None), {"solver": ("adagrad", 2.0)}, {"solver": "adagrad", "eta0": 2.0}),
    ],
)
def test_pickles_of_models_with_pairs_are_read(model, pairs, expected):
    new = {"cost", "eta0", "budget_unit", "edge_alpha", "edge_eta0"} & expected.keys() - pairs.keys()
    state = {name: value for name, value in model.__getstate__().items() if name not in new} | pairs
    again = type(model).__new__(type(model))
    again.__setstate__(state)
    assert clone(again).get_params().keys() == model.get_params().keys()
    assert {name: getattr(again, name) for name in expected} == expected


@pytest.mark.parametrize("is_stored", [True, False])
def test_the_message_says_whether_compiled_code_is_stored(is_stored, monkeypatch, caplog):
    def cannot(**options):
        raise RuntimeError("cannot cache function: no locator available")

    if not is_stored:
        monkeypatch.setattr(jit, "njit", cannot)
    monkeypatch.setattr(jit._Patience, "said", set())
    monkeypatch.setattr(jit._Patience, "is_off", False)
    jit._Patience.say("some part", jit.all_entries()[0])
    assert ("later processes load" in caplog.text) == is_stored
    assert ("NUMBA_CACHE_DIR" in caplog.text) != is_stored


def test_two_labels_with_many_columns_store_only_what_was_updated():
    X = [sparse.csr_array((np.ones(2), ([0, 1], [5, 2**24])), shape=(2, 2**24 + 1))] * 3
    y = [["a", "b"]] * 3
    model = StructuredSparseMAPClassifier("chain", solver="adagrad", max_iter=3).fit(X, y)
    assert sparse.issparse(model.coef_) and model.coef_.nnz == 4
    assert model.predict(X)[0].tolist() == ["a", "b"]
