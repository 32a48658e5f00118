"""The same data give the same results in every process, whatever its hashes of strings and its threads of BLAS."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]

# Prints results that hold labels, columns and weights, from input with sets and with labels that cannot be sorted.
RESULTS = """
import os, sys, tempfile, warnings
import numpy as np
from sklearn_sparsemap import GroupLassoPerceptron, MultilabelLPSparseMAP, StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_partition, save_partition
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.features import RowUnion, TemplateVectorizer, TokenDictVectorizer

warnings.simplefilter("ignore")
words = [f"w{k}" for k in range(12)]


def show(*values):
    for value in values:
        value = value.toarray() if hasattr(value, "toarray") else value
        print(value.tolist() if hasattr(value, "tolist") else value)


# Labels that cannot be sorted.
rng = np.random.default_rng(0)
labels = ["a", 7, "c", ("x", 1), "b", None]
samples = [rng.normal(size=(6, 3)) for _ in range(8)]
y = [[labels[(k + i) % 5] for k in range(6)] for i in range(8)]
options = {"solver": "adagrad", "loss": "sparsemap", "max_iter": 2, "random_state": 0}
model = StructuredSparseMAPClassifier("chain", **options)
parts = [(samples[:4], y[:4]), (samples[4:], y[4:])]
if "dask" in sys.argv:
    from distributed import Client

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        fitted = ParameterMixing(model, n_shards=2, n_rounds=2, random_state=0, client=client).fit(parts)
        show(fitted.estimator_.classes_, fitted.estimator_.coef_)
    sys.exit()

# Vectorizers: sets as values, within others, and as tokens.
X = [
    [{"lists": {w, "x" + w, w.upper()}, "word": w, "in": {"set": frozenset(words[:k])}} for k, w in enumerate(words)],
    [{"several": [{"b", "a", "c"}, ("d", "e")], "numbers": {1.5, 2.5, 0.5}, "mixed": {"z", 2, "y"}}],
]
for tokens in (X, [[set(words[k : k + 4]) for k in range(8)]], [[{"w": w, "x": 1.0} for w in words]]):
    vectorizer = TokenDictVectorizer().fit(tokens)
    show(vectorizer.get_feature_names_out(), vectorizer.groups_, vectorizer.transform(tokens).values)
    show(TokenDictVectorizer(n_features=16).transform(tokens).values)
sentences = [[{"word": w, "shape": "x"} for w in words]]
templates = TemplateVectorizer(["word[0]", "word[-1]|shape[0]"])
union = RowUnion([("templates", templates), ("dicts", TokenDictVectorizer())])
show(union.fit_transform(sentences).values, union.get_feature_names_out())

# Fits: in memory, in partitions, and in shards.
for fitted in (
    model.fit(samples, y),
    StructuredSparseMAPClassifier("chain", **options).fit_partitions(parts),
    StructuredSparseMAPClassifier("chain", **options).partial_fit(samples, y, classes=set(labels[:5])),
    ParameterMixing(model, n_shards=2, n_rounds=2, random_state=0).fit(samples, y).estimator_,
    ParameterMixing(model, n_shards=2, n_rounds=2, random_state=0).fit(parts).estimator_,
    GroupLassoPerceptron("chain", budget=2, max_iter=1, random_state=0).fit_partitions(parts),
):
    show(fitted.classes_, fitted.coef_, fitted.transitions_)
table = rng.normal(size=(30, 3))
sets = [{w for k, w in enumerate(words[:4]) if x[k % 3] > 0} | ({5} if x[0] > 1 else set()) for x in table]
for names in (sets, [{str(w) for w in own} for own in sets]):
    for fitted in (
        MultilabelLPSparseMAP(max_iter=5, random_state=0).fit(table, names),
        MultilabelLPSparseMAP(max_iter=2, random_state=0).fit_partitions(
            [(table[:15], names[:15]), (table[15:], names[15:])]
        ),
    ):
        show(fitted.classes_, fitted.coef_, fitted.predict(table))

# Files of partitions.
path = os.path.join(tempfile.mkdtemp(), "0.npz")
save_partition(path, samples, [[str(label) for label in own] for own in y])
show(load_partition(path)[1][0])
print(len(open(path, "rb").read()))
"""

# Dense features: products large enough for several threads of BLAS.
DENSE = """
import json, warnings
import numpy as np
from sklearn_sparsemap import MultilabelLPSparseMAP, StructuredSparseMAPClassifier

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = [rng.normal(size=(300, 1000)) for _ in range(12)]
y = [rng.integers(0, 7, 300) for _ in X]
found = {}
for solver in ("lbfgs", "adagrad"):
    model = StructuredSparseMAPClassifier("chain", solver=solver, max_iter=2, random_state=0).fit(X, y)
    found[solver] = [model.coef_[0].tolist(), model.transitions_.tolist()]
    found[solver + " scores"] = model.decision_function(X)[0].tolist()
    found[solver + " labels"] = model.predict(X)[0].tolist()
table = np.concatenate(X)
model = MultilabelLPSparseMAP(score_model="linear", max_iter=3).fit(table, (table[:, :7] > 0).astype(int))
found["sets scores"] = [model.coef_[0].tolist(), model.predict_proba(table)[:9].tolist()]
found["sets labels"] = model.predict(table).tolist()
print(json.dumps(found))
"""


def run(code, *arguments, **environment):
    """Return what a process prints with these environment variables; a fork has the hashes of its parent."""
    found = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env={**os.environ, **environment}, capture_output=True,
        text=True, timeout=600, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_no_order_of_hashes_reaches_a_result():
    first = run(RESULTS, PYTHONHASHSEED="1")
    assert len(first) > 10_000
    for seed in ("2", "3"):
        assert run(RESULTS, PYTHONHASHSEED=seed) == first


def test_no_order_of_hashes_reaches_a_result_of_dask():
    pytest.importorskip("distributed")
    assert len({run(RESULTS, "dask", PYTHONHASHSEED=seed) for seed in ("1", "2")}) == 1


def test_threads_of_blas_change_the_last_digits_of_dense_scores_only():
    one, two = (json.loads(run(DENSE, OPENBLAS_NUM_THREADS=n)) for n in "12")
    assert len(one) == 8
    for name, values in one.items():
        if "scores" in name:
            for first, second in zip(values, two[name], strict=True):
                np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-12)
        else:
            # Weights that L-BFGS and AdaGrad learn, and predictions.
            assert values == two[name], name
