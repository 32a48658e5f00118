"""A stream of hashed features through partial_fit: throughput and memory along the way.

    python benchmarks/stream.py --examples 10000000
    python benchmarks/stream.py --examples 1600000 --shards 1 4

Each example has one of 2**15 hashed features in each of 32 templates; the label depends on eight of the templates. The
data are made on the fly, and nothing is kept.

With `--shards` the same examples are partitions, of which so many shards are made, and learned by `ParameterMixing`:
prints which templates are left after each round.
"""

import argparse
import resource
import sys
from functools import partial
from time import perf_counter

import numpy as np
import results
from scipy import sparse

from sklearn_sparsemap import GroupLassoPerceptron
from sklearn_sparsemap.distributed import ParameterMixing

N_TEMPLATES, N_BUCKETS, N_TELLING = 32, 2**15, 8


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--examples", type=int, default=10_000_000)
    parser.add_argument("--batch", type=int, default=20_000)
    parser.add_argument("--reports", type=int, default=10)
    parser.add_argument("--budget", type=int, default=N_TELLING)
    parser.add_argument("--shrink-every", type=int, default=100_000, help="long enough to distinguish groups")
    parser.add_argument("--shards", type=int, nargs="+", help="learn by parameter mixing")
    parser.add_argument("--rounds", type=int, default=3, help="of parameter mixing")
    return results.parse(parser)


def draw(rng, n, meaning):
    """Draw examples; frequent n-grams are frequent, as in text."""
    buckets = (N_BUCKETS * rng.random((n, N_TEMPLATES)) ** 10).astype(np.int64)
    score = meaning[np.arange(N_TELLING), buckets[:, :N_TELLING]].sum(axis=1)
    columns = (buckets + N_BUCKETS * np.arange(N_TEMPLATES)).ravel()
    indptr = np.arange(n + 1) * N_TEMPLATES
    X = sparse.csr_array((np.ones(len(columns)), columns, indptr), shape=(n, N_TEMPLATES * N_BUCKETS))
    return X, (score + rng.normal(size=n) > 0).astype(int)


class Selections:
    """A callback of scikit-learn's: prints the selected groups after each round, and the accuracy."""

    def __init__(self, data):
        self.data = data

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.parent is not None:
            model = fitted_estimator.to_local()
            print(f"  {100 * model.score(*self.data):.1f}% by {model.selected_groups_.tolist()}", flush=True)

    def teardown(self, estimator, context):
        pass


def mix(args, model, meaning, test):
    """Learn partitions that are drawn when they are visited, by parameter mixing."""
    size = min(args.batch, args.examples)
    parts = [partial(lambda seed: draw(np.random.default_rng([2, seed]), size, meaning), seed)
             for seed in range(args.examples // size)]  # fmt: skip
    print(f"accuracy by the groups left after each round; the informative ones are 0 to {N_TELLING - 1}")
    for n_shards in args.shards:
        print(f"{n_shards} shards of {args.examples // n_shards:,} examples")
        started = perf_counter()
        mixing = ParameterMixing(model, n_shards, args.rounds, random_state=0).set_callbacks(Selections(test))
        mixing.fit(parts, classes=[0, 1])
        print(f"  {perf_counter() - started:.0f} s", flush=True)


def main():
    args = parse_arguments()
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(N_TELLING, N_BUCKETS))
    groups = np.repeat(np.arange(N_TEMPLATES), N_BUCKETS)
    model = GroupLassoPerceptron(groups=groups, budget=args.budget, shrink_every=args.shrink_every)
    X_test, y_test = draw(np.random.default_rng(1), 20_000, meaning)
    if args.shards:
        mix(args, model.set_params(debias=None), meaning, (X_test, y_test))
        return
    print(f"{'examples':>12}{'examples/s':>12}{'weights':>10}{'accuracy':>10}{'peak memory':>13}")
    n_batches, learning, done = args.examples // args.batch, 0.0, 0
    for batch in range(n_batches):
        X, y = draw(rng, args.batch, meaning)
        start = perf_counter()
        model.partial_fit(X, y, classes=[0, 1])
        learning += perf_counter() - start
        done += args.batch
        if (batch + 1) % max(1, n_batches // args.reports) == 0:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
            accuracy = 100 * model.score(X_test, y_test)
            held = model.memory_curve_[-1]
            print(f"{(batch + 1) * args.batch:12,}{done / learning:12,.0f}{held:10,}{accuracy:9.1f}%{peak:10.0f} MB")
            data = f"{args.examples:,} hashed examples"
            results.record("stream", data, "throughput", done / learning, "examples / s")
            results.record("stream", data, "peak memory", peak, "MB")
            results.record("stream", data, "accuracy", accuracy, "%")
            learning, done = 0.0, 0
    print(f"selected: {model.selected_groups_.tolist()}; the informative ones are 0 to {N_TELLING - 1}")


if __name__ == "__main__":
    main()
