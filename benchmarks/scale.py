"""Data larger than a memory, and training on several workers: CoNLL-2000, many times over.

    python benchmarks/scale.py --data DIR                        # all tables
    python benchmarks/scale.py --data DIR --only mixing

DIR holds conll2000/train.txt.gz and conll2000/test.txt.gz. The tables:

- sizes: tokens a second and peak memory of an epoch of `fit_partitions` over the training part so many times, in
  files of hashed features of 2,234 sentences each. Each size is a process of its own.
- mixing: span F1 on the test part after each round of `ParameterMixing`, beside that of serial training.
- workers: seconds a round on threads, and on workers of dask.distributed (if that is installed).
- model: the cost model of the guide (doc/guide/large_data.rst) with constants of this machine, beside a simulation of
  the transfers and what is measured on one and two workers.
"""

import argparse
import pickle
import subprocess
import sys
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time

ROOT = Path(__file__).resolve().parents[1]
TABLES = ("sizes", "mixing", "workers", "model")
N_PARTS = 4
FAN_IN = 8


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with conll2000/")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 20], help="how many times the training part")
    parser.add_argument("--columns", type=int, default=2**20, help="of the hashed features")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--serial", type=int, default=10, help="epochs of serial training")
    parser.add_argument("--variants", nargs="+", default=["4,1", "4,4"], help="shards, and mixes a round")
    parser.add_argument("--eta0", type=float, default=0.1)
    parser.add_argument("--limit", type=int, help="use only so many sentences of each set")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def new_model(**parameters):
    from sklearn_sparsemap import StructuredSparseMAPClassifier

    options = {"solver": "adagrad", "alpha": 1e-3, "tol": 0.0, "random_state": 0} | parameters
    return StructuredSparseMAPClassifier("chain", **options)


def load(args, n_features=None):
    """Return the features of both parts, and their labels."""
    import numpy as np

    from sklearn_sparsemap.datasets import load_conll
    from sklearn_sparsemap.features import TemplateVectorizer, chunking_templates

    sets = [load_conll(args.data / "conll2000" / f"{part}.txt.gz") for part in ("train", "test")]
    (X, y), (X_test, y_test) = ([own[: args.limit] for own in part] for part in sets)
    vectorizer = TemplateVectorizer(chunking_templates(), n_features=n_features, dtype=np.float32)
    return vectorizer.fit_transform(X), y, vectorizer.transform(X_test), y_test


# -- Sizes -------------------------------------------------------------------------------------------------------------


def train_on_files(folder, size):
    """Run one epoch over files, so many times; print tokens a second and the peak memory. In a process of its own."""
    from chunking import peak_megabytes

    from sklearn_sparsemap.datasets import load_partition

    paths = sorted(Path(folder).glob("*.npz"))
    model, classes = new_model(max_iter=1), (Path(folder) / "classes").read_text().split()
    # Compiles what there is to compile.
    X, y = load_partition(paths[0])
    n_rows = sum(len(load_partition(path)[0].values.indptr) - 1 for path in paths)
    model.fit_partitions([(X[:20], y[:20])], classes=classes)
    del X, y
    start, begun = perf_counter(), process_time()
    model.fit_partitions(paths * size, classes=classes)
    seconds, used, n = perf_counter() - start, process_time() - begun, size * n_rows
    print(f"{size:>8}{n:>14,}{seconds:>10.1f}{used:>10.1f}{n / used:>18,.0f}{peak_megabytes():>12.0f}")


def measure_sizes(args):
    from sklearn_sparsemap.datasets import save_partition

    X, y, _, _ = load(args, args.columns)
    with tempfile.TemporaryDirectory() as folder:
        n = -(-len(X) // N_PARTS)
        for part in range(N_PARTS):
            rows = slice(part * n, (part + 1) * n)
            save_partition(Path(folder) / f"{part}.npz", X[rows], y[rows])
        (Path(folder) / "classes").write_text("\n".join(sorted({label for labels in y for label in labels})))
        largest = max(path.stat().st_size for path in Path(folder).glob("*.npz")) / 2**20
        print(f"\nEpochs over files of {largest:.0f} MB, {args.columns:,} columns")
        head = f"{'times':>8}{'tokens':>14}{'seconds':>10}{'CPU s':>10}{'tokens / CPU s':>18}{'peak MB':>12}"
        print(head, flush=True)
        for size in args.sizes:
            command = [sys.executable, __file__, "--worker", folder, str(size)]
            subprocess.run(command, check=True)


# -- Mixing ------------------------------------------------------------------------------------------------------------


class Recorder:
    """A callback of scikit-learn's: the span F1 on the test part after each epoch or round."""

    def __init__(self, X, y):
        self.data, self.scores = (X, y), []

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        from sklearn_sparsemap.metrics import span_f1_score

        if context.parent is not None:
            X, y = self.data
            self.scores.append(100 * span_f1_score(y, fitted_estimator.predict(X)))

    def teardown(self, estimator, context):
        pass


def measure_mixing(args):
    from sklearn_sparsemap.distributed import ParameterMixing

    X, y, X_test, y_test = load(args)
    variants = [("serial", new_model(max_iter=args.serial))]
    for variant in args.variants:
        n_shards, n_mixes = map(int, variant.split(","))
        mixing = ParameterMixing(
            new_model(eta0=args.eta0), n_shards, args.rounds, random_state=0, n_mixes=n_mixes, n_jobs=2
        )
        variants.append((f"{n_shards} shards, {n_mixes} mixes a round", mixing))
    print(f"\nSpan F1 by epoch or round (eta0 of mixing {args.eta0})")
    for name, model in variants:
        recorder = Recorder(X_test, y_test)
        model.set_callbacks(recorder).fit(X, y)
        print(f"{name:<28}" + " ".join(f"{score:.2f}" for score in recorder.scores), flush=True)


# -- Workers, and the model --------------------------------------------------------------------------------------------


def seconds_a_round(X, y, n_shards, n_rounds=3, **parameters):
    """Return the seconds of a round: the difference of two fits."""
    from sklearn_sparsemap.distributed import ParameterMixing

    taken = []
    for rounds in (1, 1, 1 + n_rounds):
        mixing = ParameterMixing(new_model(), n_shards, rounds, random_state=0, **parameters)
        start = perf_counter()
        mixing.fit(X, y)
        taken.append(perf_counter() - start)
    return (taken[2] - taken[1]) / n_rounds


def measure_workers(args):
    """Return the seconds of a round by number of workers of dask, None without it."""
    X, y, _, _ = load(args, args.columns)
    print(f"\nSeconds a round, 4 shards, {args.columns:,} columns")
    for n_jobs in (1, 2):
        print(f"{n_jobs} threads{seconds_a_round(X, y, 4, n_jobs=n_jobs):>12.2f}", flush=True)
    for n_workers, seconds in measured_workers(X, y, 4, (1, 2)).items():
        print(f"{n_workers} workers{seconds:>12.2f}", flush=True)


def measured_workers(X, y, n_shards, counts):
    if find_spec("distributed") is None:
        return {}
    import distributed

    found = {}
    for n_workers in counts:
        with distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster, distributed.Client(cluster) as client:
            found[n_workers] = seconds_a_round(X, y, n_shards, client=client)
    return found


def constants(X, y):
    """Measure what the model needs: tokens a second, bytes of a state, seconds to write, read, add and send one."""
    import numpy as np

    from sklearn_sparsemap.estimators import average_states

    model = new_model(max_iter=1)
    classes = sorted({label for labels in y for label in labels})
    model.partial_fit(X[:20], y[:20], classes=classes).partial_fit(X, y)
    times = []
    for _ in range(3):
        # Of one thread, on a machine that may have other work.
        start = process_time()
        task, laid_out = model._take_in(X, y)
        visit = task.epochs(model._optimizer, laid_out, remember=False)
        begun = process_time()
        visit(np.arange(len(X)))
        learned = process_time()
        state = model.get_training_state()
        read = process_time()
        model.set_training_state(state)
        written = process_time()
        average_states([state, state])
        added = process_time()
        pickle.loads(pickle.dumps(state, protocol=5))
        times.append([begun - start, learned - begun, read - learned, written - read, added - written,
                      process_time() - added])  # fmt: skip
    _, learn, read, write, add, send = np.median(times, axis=0)
    return {"tokens_per_s": X.values.shape[0] / learn, "bytes": state.nbytes, "turn": read + write, "add": add,
            "bandwidth": state.nbytes / send, "pairs": len(state.places)}  # fmt: skip


def modelled(c, n_tokens, k):
    """Return seconds and bytes of a round of `k` workers, one shard each; see the guide."""
    import numpy as np

    send = c["bytes"] / c["bandwidth"]
    levels = int(np.ceil(np.log(k) / np.log(FAN_IN))) if k > 1 else 0
    seconds = n_tokens / (k * c["tokens_per_s"]) + c["turn"] + np.ceil(np.log2(k)) * send
    left = k
    for _ in range(levels):
        group = min(left, FAN_IN)
        seconds += (group - 1) * (send + c["add"])
        left = -(-left // FAN_IN)
    return seconds, 2 * (k - 1) * c["bytes"]


def simulated(c, n_tokens, k):
    """Return the seconds of a round: transfers one by one, where a machine sends one thing and receives one at a time.

    The state goes from any machine that has it to any that has not; what was learned goes up a tree of groups.
    """
    import heapq

    send = c["bytes"] / c["bandwidth"]
    # When each machine is free to send the state on, beginning with the one that made it.
    free, has = [0.0], [0.0] * k
    for machine in range(1, k):
        start = heapq.heappop(free)
        has[machine] = start + send
        heapq.heappush(free, start + send)
        heapq.heappush(free, start + send)
    ready = [time + c["turn"] + n_tokens / (k * c["tokens_per_s"]) for time in has]
    while len(ready) > 1:
        groups = [ready[start : start + FAN_IN] for start in range(0, len(ready), FAN_IN)]
        ready = []
        for first, *others in groups:
            now = first
            for arrives in sorted(others):
                now = max(now, arrives) + send + c["add"]
            ready.append(now)
    return ready[0]


def measure_model(args):
    X, y, _, _ = load(args, args.columns)
    c, n_tokens = constants(X, y), X.values.shape[0]
    print(
        f"\nOne core learns {c['tokens_per_s']:,.0f} tokens a second. A state of {c['pairs']:,} pairs has "
        f"{c['bytes'] / 2**20:.0f} MB;\nto write and read it takes {c['turn']:.2f} s, to add two {c['add']:.2f} s, to "
        f"send one within this machine {c['bytes'] / c['bandwidth']:.2f} s"
    )
    measured = {1: None, 2: None} | {k: measured_workers(X, y, k, (k,)).get(k) for k in (1, 2)}
    big, network = 100_000_000, c | {"bandwidth": 1.25e9}
    print(f"{'workers':>8}{'tokens':>14}{'model s':>10}{'simulated s':>13}{'measured s':>12}{'moved GB':>10}")
    for k, n, of in [(1, n_tokens, c), (2, n_tokens, c), *((k, big, network) for k in (1, 10, 100, 1000))]:
        seconds, moved = modelled(of, n, k)
        known = measured.get(k) if n == n_tokens else None
        known = "" if known is None else f"{known:.2f}"
        print(f"{k:>8}{n:>14,}{seconds:>10.2f}{simulated(of, n, k):>13.2f}{known:>12}{moved / 1e9:>10.2f}")


def main():
    args = parse_arguments()
    # The number of epochs is fixed.
    warnings.simplefilter("ignore")
    if args.worker:
        train_on_files(args.worker[0], int(args.worker[1]))
        return
    measures = {"sizes": measure_sizes, "mixing": measure_mixing, "workers": measure_workers, "model": measure_model}
    for name in args.only:
        measures[name](args)


if __name__ == "__main__":
    main()
