"""Many Python threads that compile, fit and predict at once: the results of one thread alone."""

from internals import with_modules

# In a process of its own, whose kernels nothing has loaded yet: the threads meet in the compiler and its caches.
MANY_THREADS = with_modules("""
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn_sparsemap import StructuredSparseMAPClassifier, map_inference, sparsemap
from {jit} import _entries, compile_statistics
from sklearn_sparsemap.structures import CustomStructure, Matching, Simplex

N_THREADS, N_ROUNDS = 12, 4
sys.setswitchinterval(1e-5)
rng = np.random.default_rng(0)
X = [rng.normal(size=(n, 3)) for n in (2, 3, 4, 5)]
y = [rng.integers(2, size=len(x)).tolist() for x in X]
square = rng.normal(size=(4, 4))


def fit():
    model = StructuredSparseMAPClassifier("chain", solver="adagrad", max_iter=3, random_state=0, n_jobs=2).fit(X, y)
    return np.concatenate([model.coef_.ravel(), *model.predict_marginals(X)], axis=None)


def infer():
    found = sparsemap(Matching(), square)
    return np.concatenate([found.marginals.ravel(), found.vjp(square)["scores"].ravel()])


def ask_python():
    # The errors of Python oracles are kept for each thread.
    def fail(scores):
        raise KeyError(threading.get_ident())

    try:
        map_inference(CustomStructure(fail), np.ones(3))
    except KeyError as error:
        assert error.args == (threading.get_ident(),)
    else:
        raise AssertionError("the error of the oracle was lost")
    return sparsemap(CustomStructure(lambda scores: [int(np.argmax(scores))]), square[0]).marginals


def infer_batch():
    return np.concatenate([found.marginals for found in sparsemap(Simplex(), [*square] * 8, n_jobs=2)])


WORK = [fit, infer, ask_python, infer_batch]
start = threading.Barrier(N_THREADS)


def use(number):
    start.wait()
    # Neighbours begin with the same work, to compile it at once.
    chosen = [(number // 3 + k) % len(WORK) for k in range(N_ROUNDS * len(WORK))]
    return [(k, WORK[k]()) for k in chosen]


with ThreadPoolExecutor(N_THREADS) as pool:
    found = [pair for pairs in pool.map(use, range(N_THREADS)) for pair in pairs]
expected = [work() for work in WORK]
assert all((values == expected[k]).all() for k, values in found)
# No entry was compiled or loaded twice.
used = sum(entry._dispatcher is not None for entry in _entries)
assert sum(compile_statistics().values()) == used > 5, (compile_statistics(), used)
print(len(found))
""")


def test_many_threads_compile_fit_and_predict_at_once(fresh_python):
    done = fresh_python(MANY_THREADS)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["192"]
