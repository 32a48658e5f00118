"""Time and memory of MultilabelLPSparseMAP as labels grow, compared with one-vs-rest logistic regression.

    python benchmarks/label_growth.py
    python benchmarks/label_growth.py --graphs full --labels 100 300 --iterations 5

Synthetic label sets: 2,000 samples of 200 binary features, 40 of them on, and 5 labels each, which depend on the
features through 8 hidden numbers. For each number of labels a process of its own fits with one iteration and with the
given number, and prints CPU milliseconds for each further iteration of L-BFGS (without edges) or epoch of Adam (with
edges), each with its part of the cross-validation, CPU seconds of the first one, and by how much the fit raised the
largest memory of the process. The peer is ``OneVsRestClassifier(LogisticRegression())``: CPU seconds of its fit,
compared with those of ours with the defaults. One thread. The exponents are those of the best power law between
neighbouring numbers of labels.
"""

import argparse
import json
import resource
import subprocess
import sys
import warnings
from itertools import pairwise
from time import process_time

import numpy as np
import results
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from sklearn_sparsemap import MultilabelLPSparseMAP

N_SAMPLES, N_FEATURES, N_ON, N_HIDDEN, N_LABELS_ON = 2000, 200, 40, 8, 5


def make_label_sets(n_labels, n_samples=N_SAMPLES):
    """Draw features and label sets."""
    rng = np.random.default_rng(0)
    X = sparse.random(n_samples, N_FEATURES, density=N_ON / N_FEATURES, random_state=0, format="csr")
    X.data[:] = 1.0
    hidden = np.tanh(X @ rng.normal(size=(N_FEATURES, N_HIDDEN)))
    scores = hidden @ rng.normal(size=(N_HIDDEN, n_labels)) + rng.normal(size=(n_samples, n_labels))
    lowest = -np.sort(-scores, axis=1)[:, N_LABELS_ON - 1]
    return X, sparse.csr_matrix((scores >= lowest[:, None]).astype(float))


def cpu(function):
    began = process_time()
    result = function()
    return process_time() - began, result


def measure(graph, n_labels, iterations, peer):
    """Measure one fit, in this process."""
    # The number of iterations is set.
    warnings.simplefilter("ignore")

    def fit(data, most=None):
        return cpu(lambda: MultilabelLPSparseMAP(graph, max_iter=most, random_state=0, n_jobs=1).fit(*data))

    # Compiles the kernels, or loads them.
    fit(make_label_sets(10, 50), 2)
    data = make_label_sets(n_labels)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, model = fit(data, iterations)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    first, _ = fit(data, 1)
    found = {"iteration": 1e3 * (seconds - first) / (model.n_iter_ - 1), "first": first, "memory": memory}
    if peer:
        found["ours"] = fit(data)[0]
        found["peer"] = cpu(lambda: OneVsRestClassifier(LogisticRegression(max_iter=1000)).fit(*data))[0]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 300, 1000, 3000])
    parser.add_argument("--graphs", nargs="+", default=["none"], choices=["none", "tree", "full"])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--peer", action="store_true", help="also fit to the end, and the peer")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = results.parse(parser)
    if arguments.child:
        graph = None if arguments.graphs[0] == "none" else arguments.graphs[0]
        print(json.dumps(measure(graph, arguments.labels[0], arguments.iterations, arguments.peer)))
        return
    print("| graph | labels | iteration | first | memory | whole fit | one-vs-rest |\n|---|---|---|---|---|---|---|")
    for graph in arguments.graphs:
        times = []
        for n_labels in arguments.labels:
            options = ["--graphs", graph, "--labels", str(n_labels), "--iterations", str(arguments.iterations)]
            options += ["--child", *(["--peer"] if arguments.peer else [])]
            done = subprocess.run([sys.executable, __file__, *options], check=True, capture_output=True, text=True)
            found = json.loads(done.stdout)
            times.append(found["iteration"])
            data = f"{n_labels:,} labels, graph {graph}"
            results.record("growth, label sets", data, "CPU time of an iteration", found["iteration"], "ms")
            results.record("growth, label sets", data, "memory", found["memory"], "MB")
            if arguments.peer:
                results.record("growth, label sets", data, "CPU time of a fit", found["ours"], "s",
                               "one-vs-rest logistic regression", found["peer"], package="scikit-learn")  # fmt: skip
            whole = f"{found['ours']:.1f} s | {found['peer']:.1f} s" if arguments.peer else "- | -"
            numbers = f"{found['iteration']:.1f} ms | {found['first']:.2f} s | {found['memory']:.0f} MB"
            print(f"| {graph} | {n_labels:,} | {numbers} | {whole} |", flush=True)
        steps = zip(pairwise(times), pairwise(arguments.labels))
        exponents = [f"{np.log(b / a) / np.log(n / m):.2f}" for (a, b), (m, n) in steps]
        print(f"exponents of the time of an iteration: {', '.join(exponents)}")


if __name__ == "__main__":
    main()
