"""Data larger than a memory, and training on several workers: CoNLL-2000, many times over.

    python benchmarks/scale.py --data DIR                        # all tables
    python benchmarks/scale.py --data DIR --only mixing

DIR holds conll2000/train.txt.gz and conll2000/test.txt.gz. The tables:

- sizes: tokens a second and peak memory of an epoch of `fit_partitions` over the training part so many times, in
  files of hashed features of 2,234 sentences each. Each size is a process of its own.
- mixing: span F1 on the test part after each round of `ParameterMixing`, compared with serial training.
- types: weights of float64 and of float32: time of `fit` and its memory, of the model and its pickle, span F1;
  of CoNLL-2000 with all its columns, and with hashed ones. Each fit is a process of its own.
- memory: megabytes that training adds to the features, and CRFsuite's training to its dicts, for 9 labels (entities),
  22 (chunks), 50 (English tags) and 145 (Spanish morphology), with the features of sklearn-crfsuite's tutorial; for 400
  labels, which are checksums of English words, and for the hashed features of chunking templates, on
  fewer sentences, because CRFsuite takes long for these.
  DIR holds conll2002/esp.train.gz, conllx_es/esp.train.gz and ud/en_ewt-r2.0, too. Each fit is a process of its own;
  Linux only.
- threads: seconds of an epoch on one and on two threads, with the features of chunking templates and with those of
  the tutorial, for mini-batches of one sentence and of 16. The machine must be quiet.
- workers: seconds a round on threads, and on workers of dask.distributed (if that is installed).
- model: the cost model of the guide (doc/guide/large_data.rst) with constants of this machine, compared with a
  simulation of the transfers and with measurements on one and two workers.
"""

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
import warnings
from copy import copy
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from time import perf_counter, process_time
from zlib import crc32

import results

ROOT = Path(__file__).resolve().parents[1]
TABLES = ("sizes", "types", "memory", "threads", "mixing", "workers", "model")
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
    parser.add_argument("--skip-peer", dest="peers", action="store_false", help="memory: run our models only")
    parser.add_argument("--limit", type=int, help="use only so many sentences of each set")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--type", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--fit", nargs=2, help=argparse.SUPPRESS)
    return results.parse(parser)


def new_model(**parameters):
    from sklearn_sparsemap import StructuredSparseMAPClassifier

    options = {"solver": "adagrad", "alpha": 1e-3, "tol": 0.0, "random_state": 0} | parameters
    return StructuredSparseMAPClassifier("chain", **options)


def load(args, n_features=None, dtype="float32"):
    """Return the features of both parts, and their labels."""
    import numpy as np

    from sklearn_sparsemap.datasets import load_conll
    from sklearn_sparsemap.features import TemplateVectorizer, chunking_templates

    sets = [load_conll(args.data / "conll2000" / f"{part}.txt.gz") for part in ("train", "test")]
    (X, y), (X_test, y_test) = ([own[: args.limit] for own in part] for part in sets)
    vectorizer = TemplateVectorizer(chunking_templates(), n_features=n_features, dtype=np.dtype(dtype))
    return vectorizer.fit_transform(X), y, vectorizer.transform(X_test), y_test


def in_process(*arguments):
    """Run this script with some arguments in a process of its own; return what it prints as JSON."""
    done = subprocess.run([sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


# -- Sizes -------------------------------------------------------------------------------------------------------------


def train_on_files(folder, size):
    """Run one epoch over files, so many times, in a process of its own.

    Prints tokens, seconds, CPU seconds and peak memory in MB as JSON.
    """
    from chunking import peak_megabytes

    from sklearn_sparsemap.datasets import load_partition

    paths = sorted(Path(folder).glob("*.npz"))
    model, classes = new_model(max_iter=1), (Path(folder) / "classes").read_text().split()
    # Compiles the kernels, or loads them.
    X, y = load_partition(paths[0])
    n_rows = sum(len(load_partition(path)[0].values.indptr) - 1 for path in paths)
    model.fit_partitions([(X[:20], y[:20])], classes=classes)
    del X, y
    start, begun = perf_counter(), process_time()
    model.fit_partitions(paths * size, classes=classes)
    seconds, used, n = perf_counter() - start, process_time() - begun, size * n_rows
    print(json.dumps([n, seconds, used, peak_megabytes()]))


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
            n, seconds, used, peak = in_process("--worker", folder, str(size))
            print(f"{size:>8}{n:>14,}{seconds:>10.1f}{used:>10.1f}{n / used:>18,.0f}{peak:>12.0f}", flush=True)
            data = f"CoNLL-2000, {size} times"
            results.record("large data", data, "throughput of fit_partitions", n / used, "tokens / CPU s")
            results.record("large data", data, "peak memory", peak, "MB")


# -- Types ------------------------------------------------------------------------------------------------------------


def train_in_type(args, dtype, columns):
    """Fit in a type of weights, in a process of its own; print columns, times, memory and F1 as JSON."""
    import numpy as np
    from chunking import peak_megabytes
    from scipy import sparse

    from sklearn_sparsemap.metrics import span_f1_score

    X, y, X_test, y_test = load(args, int(columns) or None, dtype)
    # Compiles the kernels, or loads them.
    new_model(max_iter=1).fit(X, y).predict(X_test)
    start, begun = perf_counter(), process_time()
    model = new_model(max_iter=args.serial).fit(X, y)
    wall, used = ((clock() - t) / args.serial for clock, t in ((perf_counter, start), (process_time, begun)))
    begun = process_time()
    predicted = model.predict(X_test)
    predicting, size = process_time() - begun, len(pickle.dumps(model, protocol=5)) / 2**20
    coef = model.coef_
    # Small models have dense weights.
    parts = (coef.data, coef.indices, coef.indptr) if sparse.issparse(coef) else (coef,)
    held = sum(part.nbytes for part in parts) / 2**20
    assert coef.dtype == np.dtype(dtype)
    f1 = 100 * span_f1_score(y_test, predicted)
    print(json.dumps([X.values.shape[1], wall, used, predicting, peak_megabytes(), held, size, f1]))


def measure_types(args):
    print("\nWeights of two types")
    head = f"{'type':>10}{'columns':>12}{'epoch s':>10}{'CPU s':>10}{'predict CPU':>12}{'peak MB':>10}"
    print(head + f"{'coef_ MB':>10}{'pickle MB':>10}{'F1':>8}", flush=True)
    for columns in (0, args.columns):
        for dtype in ("float64", "float32"):
            own = ["--data", str(args.data), "--serial", str(args.serial)]
            own += [] if args.limit is None else ["--limit", str(args.limit)]
            n, wall, used, predicting, peak, held, size, f1 = in_process(*own, "--type", dtype, str(columns))
            print(f"{dtype:>10}{n:>12,}{wall:>10.2f}{used:>10.2f}{predicting:>12.2f}{peak:>10.0f}"
                  f"{held:>10.0f}{size:>10.0f}{f1:>8.2f}", flush=True)  # fmt: skip
            data = f"CoNLL-2000, {n:,} columns"
            results.record("large data", data, f"CPU time of an epoch, {dtype}", used, "s")
            results.record("large data", data, f"span F1, {dtype}", f1, "%")


# -- Memory and threads -----------------------------------------------------------------------------------------------

# Tagging tasks: file, readers of the tag for the feature and of the label of a token's columns, labels.
TAGS = {
    "entities": ("conll2002/esp.train.gz", lambda token: token[1], lambda token: token[-1]),
    "chunks": ("conll2000/train.txt.gz", lambda token: token[1], lambda token: token[-1]),
    "English tags": ("ud/en_ewt-r2.0/*train*", lambda token: token[4][:2], lambda token: token[4]),
    "morphology": ("conllx_es/esp.train.gz", lambda token: token[3][:2], lambda token: token[3] + token[5]),
    "400 labels": ("ud/en_ewt-r2.0/*train*", lambda token: token[4], lambda token: str(crc32(token[1].encode()) % 400)),
}
# Maximum numbers of sentences.
LIMITS = {"400 labels": 700, "hashed": 2_000}
FITS = ("adagrad", "lbfgs", "CRFsuite")


def load_tags(args, task):
    """Return the dicts of features and the labels of a task."""
    import gzip

    from token_dicts import word2features

    pattern, tag, label = TAGS[task]
    (path,) = args.data.glob(pattern)
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        blocks = file.read().replace("\r", "").split("\n\n")
    # The word is the first column, except after the number of a token.
    is_tree = "conll20" not in pattern
    lines = ([line for line in block.split("\n") if line and line[0] != "#"] for block in blocks)
    tokens = [[line.split("\t" if is_tree else None) for line in own] for own in lines]
    tokens = [[token for token in own if token[0].isdigit() or not is_tree] for own in tokens]
    tokens = [own for own in tokens if own][: args.limit or LIMITS.get(task)]
    sentences = [[{"word": token[is_tree], "pos": tag(token)} for token in own] for own in tokens]
    X = [[word2features(sentence, i) for i in range(len(sentence))] for sentence in sentences]
    return X, [[label(token) for token in own] for own in tokens]


def megabytes(name):
    """Return the process's memory (VmRSS), or its peak (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 2**10
    return float("nan")


def fit_in_memory(args, task, name):
    """Fit a model in a process of its own; print megabytes above those before, and CPU seconds, as JSON."""
    import ctypes
    import gc

    from crf import sentences_of

    if task == "hashed":
        args.limit = args.limit or LIMITS[task]
        X, y, _, _ = load(args, args.columns, "float64")
        X = list(sentences_of(X)) if name == "CRFsuite" else X
    else:
        X, y = load_tags(args, task)
    if name == "CRFsuite":
        from sklearn_crfsuite import CRF

        def fit(X, y):
            return CRF(algorithm="lbfgs", c2=1.0, max_iterations=10).fit(X, y)
    else:
        from sklearn_sparsemap.features import TokenDictVectorizer

        loss = "crf" if name == "lbfgs" else "sparsemap"
        X = X if task == "hashed" else TokenDictVectorizer().fit_transform(X)

        def fit(X, y):
            return new_model(loss=loss, solver=name, alpha=1e-4, max_iter=10).fit(X, y)

    # Compiles the kernels, or loads them. Larger data use more of them.
    fit(X[: len(y) // 5], y[: len(y) // 5])
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    # The peak begins anew.
    Path("/proc/self/clear_refs").write_text("5")
    before, begun = megabytes("VmRSS"), process_time()
    fit(X, y)
    print(json.dumps([megabytes("VmHWM") - before, process_time() - begun]))


def measure_memory(args):
    print(f"\nMB that training adds, and CPU s\n{'':<16}" + "".join(f"{name:>22}" for name in FITS), flush=True)
    for task in (*TAGS, "hashed"):
        own = ["--data", str(args.data), *([] if args.limit is None else ["--limit", str(args.limit)])]
        found = {name: in_process(*own, "--fit", task, name) for name in FITS if args.peers or name != "CRFsuite"}
        cells = [f"{f'{added:.0f} MB, {used:.1f} s':>22}" for added, used in found.values()]
        print(f"{task:<16}" + "".join(cells), flush=True)
        peer, _ = found.get("CRFsuite", (None, None))
        for name in FITS[:2]:
            results.record("large data", task, f"memory of training, {name}", found[name][0], "MB",
                           "" if peer is None else "CRFsuite, L-BFGS", peer, package="sklearn-crfsuite")  # fmt: skip


def epoch_seconds(X, y, n_epochs, loss, batch_size, n_jobs):
    """Return the seconds of an epoch: the difference of a long and a short fit."""
    taken = []
    for n in (1, 1 + n_epochs):
        start = perf_counter()
        new_model(loss=loss, max_iter=n, batch_size=batch_size, n_jobs=n_jobs).fit(X, y)
        taken.append(perf_counter() - start)
    return (taken[1] - taken[0]) / n_epochs


def measure_threads(args):
    from sklearn_sparsemap.features import TokenDictVectorizer

    X, y = load_tags(args, "chunks")
    data = {"templates": load(args, None, "float64")[:2], "tutorial": (TokenDictVectorizer().fit_transform(X), y)}
    # Compiles the kernels, or loads them.
    for (X, y), loss in product(data.values(), ("sparsemap", "crf")):
        new_model(loss=loss, max_iter=1, n_jobs=2).fit(X, y)
    print("\nSeconds of an epoch on 1 and 2 threads")
    print(f"{'features':<12}{'loss':<12}{'batch':>6}{'1':>8}{'2':>8}{'ratio':>8}")
    for (name, (X, y)), loss, size in product(data.items(), ("sparsemap", "crf"), (1, 16)):
        # The least of several runs in turn, because other work on the machine delays both threads.
        runs = [[epoch_seconds(X, y, args.serial, loss, size, n_jobs) for n_jobs in (1, 2)] for _ in range(3)]
        one, two = map(min, zip(*runs))
        print(f"{name:<12}{loss:<12}{size:>6}{one:>8.2f}{two:>8.2f}{one / two:>8.2f}", flush=True)
        results.record("large data", f"CoNLL-2000, {name}, batches of {size}", f"time of one thread / two, {loss}",
                       one / two, "")  # fmt: skip


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
            new_model(solver="adagrad", eta0=args.eta0),
            n_shards,
            args.rounds,
            random_state=0,
            n_mixes=n_mixes,
            n_jobs=2,
        )
        variants.append((f"{n_shards} shards, {n_mixes} mixes a round", mixing))
    print(f"\nSpan F1 by epoch or round (eta0 of mixing {args.eta0})")
    for name, model in variants:
        recorder = Recorder(X_test, y_test)
        model.set_callbacks(recorder).fit(X, y)
        print(f"{name:<28}" + " ".join(f"{score:.2f}" for score in recorder.scores), flush=True)
        measure = f"span F1 after {len(recorder.scores)} epochs or rounds, {name}"
        results.record("large data", "CoNLL-2000, mixing", measure, recorder.scores[-1], "%")


# -- Workers, and the model --------------------------------------------------------------------------------------------


def seconds_a_round(X, y, n_shards, clock, n_rounds=3, **parameters):
    """Return the seconds of a round by some clocks, which are read at once: the difference of two fits."""
    from sklearn_sparsemap.distributed import ParameterMixing

    taken = []
    for rounds in (1, 1, 1 + n_rounds):
        mixing = ParameterMixing(new_model(), n_shards, rounds, random_state=0, **parameters)
        start = clock()
        mixing.fit(X, y)
        taken.append([stop - begun for begun, stop in zip(start, clock())])
    return [(long - short) / n_rounds for short, long in zip(*taken[1:])]


def measure_workers(args):
    """Print the seconds of a round by number of threads, and of workers of dask."""
    X, y, _, _ = load(args, args.columns)
    print(f"\nSeconds a round, 4 shards, {args.columns:,} columns; CPU: of the busiest worker")
    for n_jobs in (1, 2):
        wall, used = seconds_a_round(X, y, 4, lambda: (perf_counter(), process_time()), n_jobs=n_jobs)
        print(f"{n_jobs} threads{wall:>12.2f}{used / n_jobs:>10.2f} CPU", flush=True)
    for n_workers, (wall, used) in measured_workers(X, y, 4, (1, 2)).items():
        print(f"{n_workers} workers{wall:>12.2f}{used:>10.2f} CPU", flush=True)


def measured_workers(X, y, n_shards, counts):
    """Return by number of workers the seconds of a round, of the wall and of the CPU of the busiest one."""
    if find_spec("distributed") is None:
        return {}
    import distributed

    found = {}
    for n_workers in counts:
        with (
            distributed.LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
            ) as cluster,
            distributed.Client(cluster) as client,
        ):

            def clock(client=client):
                return perf_counter(), *client.run(process_time).values()

            wall, *used = seconds_a_round(X, y, n_shards, clock, client=client)
            found[n_workers] = wall, max(used)
    return found


def constants(X, y):
    """Measure the constants of the model: tokens a second, bytes of a state, and the seconds of each operation on one.

    By the functions that workers call, on one thread, in CPU seconds: the machine may have other work.
    """
    import numpy as np

    from sklearn_sparsemap.distributed._shards import Shard
    from sklearn_sparsemap.estimators._rounds import Phase, Turn, add_outcomes, begin, end_turn, learn

    shard, phase = Shard(0, [], (X, y)), Phase(0, len(X), True)
    blank, state = begin(new_model(max_iter=1), shard, sorted({label for labels in y for label in labels}))
    times, rng = [], np.random.default_rng(0)
    for number in range(5):
        turn = Turn(0, number, 0, 1, 0.5)
        started = process_time()
        outcome = learn(phase, blank, state, shard, turn)
        learned = process_time()
        # Not all pairs are in all shards.
        others, kept = copy(outcome.partial), rng.random(len(outcome.partial.indices)) < 0.9
        others.indices = others.indices[kept]
        others.pairs = {name: values[kept] for name, values in others.pairs.items()}
        others, begun = outcome._replace(partial=others), process_time()
        state = end_turn(phase, blank, outcome, state, turn)
        ended = process_time()
        add_outcomes(outcome, others)
        added = process_time()
        pickle.loads(pickle.dumps(state, protocol=5))
        sent = process_time()
        estimator = phase.restore(blank, state.without_history())
        ((task, laid_out),) = shard.samples(phase, estimator)
        estimator._configure_epoch(len(X), number)
        visit = task.epochs(estimator._learned.optimizer, laid_out, remember=False)
        visited = process_time()
        visit(np.arange(len(X)))
        visited = process_time() - visited
        times.append([visited, learned - started - visited, ended - begun, added - ended, sent - added])
    # The first ones lay out the samples, and have fewer weights.
    visited, turn, end, add, send = np.median(times[2:], axis=0)
    return {"tokens_per_s": X.values.shape[0] / visited, "bytes": state.nbytes, "turn": turn, "end": end, "add": add,
            "bandwidth": state.nbytes / send, "pairs": len(state.indices)}  # fmt: skip


def modelled(c, n_tokens, k):
    """Return seconds and bytes of a round of `k` workers, one shard each; see the guide."""
    import numpy as np

    send = c["bytes"] / c["bandwidth"]
    levels = int(np.ceil(np.log(k) / np.log(FAN_IN))) if k > 1 else 0
    seconds = n_tokens / (k * c["tokens_per_s"]) + c["turn"] + c["end"] + np.ceil(np.log2(k)) * send
    left = k
    for _ in range(levels):
        group = min(left, FAN_IN)
        seconds += (group - 1) * (send + c["add"])
        left = -(-left // FAN_IN)
    return seconds, 2 * (k - 1) * c["bytes"]


def simulated(c, n_tokens, k):
    """Return the seconds of a round: transfers one by one, where a machine sends one thing and receives one at a time.

    The state goes from any machine that has it to any that has not; the learned weights go up a tree of groups.
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
    return ready[0] + c["end"]


def measure_model(args):
    X, y, _, _ = load(args, args.columns)
    c, n_tokens = constants(X, y), X.values.shape[0]
    print(
        f"\nOne core learns {c['tokens_per_s']:,.0f} tokens a second. A state of {c['pairs']:,} pairs has "
        f"{c['bytes'] / 2**20:.0f} MB;\nto write, read and weigh it takes {c['turn']:.2f} s, to end a round "
        f"{c['end']:.2f} s, to add two {c['add']:.2f} s, to send one within this machine "
        f"{c['bytes'] / c['bandwidth']:.2f} s",
        flush=True,
    )
    measured = {k: measured_workers(X, y, k, (k,)).get(k) for k in (1, 2)}
    big, network = 100_000_000, c | {"bandwidth": 1.25e9}
    print(f"{'workers':>8}{'tokens':>14}{'model s':>10}{'simulated s':>13}{'moved GB':>10}{'wall s':>12}{'CPU s':>8}")
    for k, n, of in [(1, n_tokens, c), (2, n_tokens, c), *((k, big, network) for k in (1, 10, 100, 1000))]:
        seconds, moved = modelled(of, n, k)
        known = measured.get(k) if n == n_tokens else None
        known = "" if known is None else f"{known[0]:>12.2f}{known[1]:>8.2f}"
        print(f"{k:>8}{n:>14,}{seconds:>10.2f}{simulated(of, n, k):>13.2f}{moved / 1e9:>10.2f}{known}")


def main():
    args = parse_arguments()
    # The number of epochs is fixed.
    warnings.simplefilter("ignore")
    if args.worker:
        train_on_files(args.worker[0], int(args.worker[1]))
        return
    if args.type:
        train_in_type(args, *args.type)
        return
    if args.fit:
        fit_in_memory(args, *args.fit)
        return
    measures = {"sizes": measure_sizes, "types": measure_types, "memory": measure_memory,
                "threads": measure_threads, "mixing": measure_mixing, "workers": measure_workers,
                "model": measure_model}  # fmt: skip
    for name in args.only:
        measures[name](args)


if __name__ == "__main__":
    main()
