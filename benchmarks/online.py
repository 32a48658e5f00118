"""Online training on CoNLL-2000 with all 72 chunking templates: time to a given F1 by threads, and where the time goes.

    python benchmarks/online.py --data DIR

DIR holds conll2000/train.txt.gz and conll2000/test.txt.gz. Each fit stops by the score on a held-out tenth of the
training sentences; the test part is read at the end only. Runs with different settings take turns. Then one epoch on
one thread is taken apart: updates, inference, scores, and the memory traffic of these alone, which reads once what they
are made of, in the order of the samples.
"""

import argparse
import warnings
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
import results
from numba import njit
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap._training._columns import DuplicateColumns
from sklearn_sparsemap._training._data import LinearModel
from sklearn_sparsemap._training._online.pairs import COUNT, HEAD
from sklearn_sparsemap.datasets import load_conll
from sklearn_sparsemap.estimators._learners.epochs import new_optimizer
from sklearn_sparsemap.estimators._strengths import relative
from sklearn_sparsemap.features import TemplateVectorizer, chunking_templates
from sklearn_sparsemap.metrics import span_f1_score


def new_model(**parameters):
    return StructuredSparseMAPClassifier("chain", solver="adagrad", alpha=1e-3, **parameters)


def time_to_f1(train, test, settings, n_rounds, seed):
    """Fit with each of the settings in turn; print time and F1."""
    (X, y), (X_test, y_test) = train, test
    seconds, cpu, notes = {name: [] for name in settings}, {name: [] for name in settings}, {}
    for _ in range(n_rounds):
        for name, own in settings.items():
            model = new_model(early_stopping=True, n_iter_no_change=3, tol=0.0, random_state=seed, **own)
            started, started_cpu = perf_counter(), process_time()
            model.fit(X, y)
            seconds[name].append(perf_counter() - started)
            cpu[name].append(process_time() - started_cpu)
            f1 = 100 * span_f1_score(y_test, model.predict(X_test))
            notes[name] = f"{model.n_iter_:3} epochs, F1 {f1:.2f}, held out {100 * max(model.validation_scores_):.2f}"
            results.record("online training", "CoNLL-2000, 72 templates", f"span F1, {name}", f1, "%")
            print(f"  {name:34}{seconds[name][-1]:7.1f} s, CPU {cpu[name][-1]:7.1f} s, {notes[name]}", flush=True)
    first = median(next(iter(seconds.values())))
    print("median, and relative to the first:")
    for name, times in seconds.items():
        for kind, values in (("wall time", times), ("CPU time", cpu[name])):
            measure = f"{kind} of fit, stopped by the held-out F1, {name}"
            results.record("online training", "CoNLL-2000, 72 templates", measure, median(values), "s")
        print(f"  {name:34}{median(times):7.1f} s {median(times) / first:6.2f}   {notes[name]}")


@njit
def read_once(features, values, outputs, indices, indptr, row_ptr, order, width):
    """Read the weights of all entries of the features, a number of each cache line."""
    total = 0.0
    for i in order:
        for at in range(indptr[row_ptr[i]], indptr[row_ptr[i + 1]]):
            start, count = features[indices[at], HEAD], features[indices[at], COUNT]
            if count < 0:
                for place in range(start, start + width, 8):
                    total += values[place]
            elif count > 0:
                total += values[start] + outputs[start]
    return total


def take_apart(X, y, n_epochs):
    """Print the CPU time of the parts of an epoch on one thread, after some epochs."""
    estimator = new_model()
    structure = estimator._check_params()
    X, _, classes, task = estimator._training_data(structure, X, y)
    task.weights = relative(task.weights)
    started = process_time()
    columns = DuplicateColumns(X.values)
    seconds = {"equal columns, once": process_time() - started}
    sizes = len(columns.multiplicity), len(classes), task.n_additional
    model = LinearModel.zeros(*sizes, sparse_coef=True, dtype=X.values.dtype)
    estimator._begin(structure, classes)
    optimizer = new_optimizer(estimator, model, columns)
    rng, order = np.random.default_rng(0), np.arange(len(X))
    targets, memory, _ = task._of_all_samples

    def run(targets):
        started = process_time()
        optimizer.epoch(task.inference, task.form, columns.rows, targets, order, memory)
        return process_time() - started

    for _ in range(n_epochs):
        rng.shuffle(order)
        seconds["epoch"] = run(targets)
    # A sample of weight zero moves nothing.
    still = np.zeros(len(X))
    still.flags.writeable = False
    without = min(run(targets._replace(weights=still)) for _ in range(2))
    rows = columns.rows
    features = csr_array((np.ones(len(rows.indices)), rows.indices, rows.indptr))
    features.resize(len(rows.indptr) - 1, model.coef.shape[0])
    scores = optimizer.model().scores(features, 1)
    for _ in range(2):
        started = process_time()
        task.loss_gradient(scores, optimizer.model().additional, 1)
        inference = process_time() - started
    seconds |= {"  update": seconds["epoch"] - without, "  inference": inference, "  scores": without - inference}
    store = optimizer.store
    arguments = store.features, store.values, store.outputs, rows.indices, rows.indptr, targets.row_ptr, order
    for _ in range(2):
        started = process_time()
        read_once(*arguments, store.n_outputs)
        seconds["  traffic of the scores alone"] = process_time() - started
    print(f"{X.values.shape[1]} columns, {len(columns.multiplicity)} different; {X.values.nnz} entries, ", end="")
    print(f"{len(rows.indices)} of different columns; {optimizer.n_held} weights exist")
    for name, time in seconds.items():
        results.record("online training", "CoNLL-2000, 72 templates", f"CPU time: {name.strip()}", time, "s")
        print(f"  {name:34}{time:7.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--rounds", type=int, default=1, help="how often each setting takes its turn")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[2, 4, 8], help="on two threads")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="use only so many sentences of each set")
    arguments = results.parse(parser)
    warnings.simplefilter("ignore", ConvergenceWarning)
    parts = [load_conll(arguments.data / "conll2000" / f"{part}.txt.gz") for part in ("train", "test")]
    (X, y), (X_test, y_test) = ([part[: arguments.limit] for part in both] for both in parts)
    vectorizer = TemplateVectorizer(chunking_templates(), dtype=np.float32)
    X, X_test = vectorizer.fit_transform(X), vectorizer.transform(X_test)
    # Compiles, or loads.
    new_model(max_iter=1, early_stopping=True).fit(X[:500], y[:500])
    settings = {"1 thread": {}, "2 threads": {"n_jobs": 2}}
    settings |= {f"2 threads, batch_size={b}": {"n_jobs": 2, "batch_size": b} for b in arguments.batch_sizes}
    time_to_f1((X, y), (X_test, y_test), settings, arguments.rounds, arguments.seed)
    take_apart(X, y, 5)


if __name__ == "__main__":
    main()
