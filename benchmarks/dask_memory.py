"""A frame of dask that is larger than the memory of its two workers: seconds, peak memory and accuracy.

    python benchmarks/dask_memory.py                   # 1.9 GB on two workers of 600 MB each
    python benchmarks/dask_memory.py --ways frame      # one way only

Labels are linear in a hundred features. The ways to pass the frame to `ParameterMixing.fit`:

- frame: the frame itself. Dask holds its partitions, on disk if memory is short.
- files: each worker writes its partitions by `save_partition`, and the paths are passed. Each round reads them again.

The peak is the largest memory of a worker, read from /proc a hundred times a second (Linux only). A worker whose memory
exceeds 95 % of its limit is killed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import results

N_FEATURES = 100
WAYS = ("frame", "files")


def make_part(seed, n_rows):
    """Return a partition as a frame of pandas: the features, and the label in the last column."""
    import pandas as pd

    weights, rng = np.random.default_rng(0).normal(size=(N_FEATURES, 3)), np.random.default_rng(1 + seed)
    X = rng.normal(size=(n_rows, N_FEATURES))
    return pd.DataFrame(X).rename(columns=str).assign(label=(X @ weights).argmax(axis=1))


def split(frame):
    return frame.drop(columns="label").to_numpy(), frame["label"].to_numpy()


def write(frame, path):
    from sklearn_sparsemap.datasets import save_partition

    save_partition(path, *split(frame))
    return str(path)


def peak_of(pids, peaks, is_over):
    while not is_over.wait(0.01):
        for pid in pids:
            try:
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            peaks[pid] = max(peaks.get(pid, 0), pages * 4096)


def run(way, n_parts, n_rows, memory, n_rounds):
    """Train in one way; return the seconds, the megabytes of the data and of the larger worker, and the accuracy."""
    import dask.dataframe as dd
    from dask import delayed
    from distributed import Client, LocalCluster

    from sklearn_sparsemap import StructuredSparseMAPClassifier
    from sklearn_sparsemap.distributed import ParameterMixing

    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(2, threads_per_worker=1, memory_limit=memory, dashboard_address=None, local_directory=folder) as c,
        Client(c) as client,
    ):
        started = {worker: nanny.pid for worker, nanny in c.workers.items()}
        peaks, is_over = {}, threading.Event()
        watcher = threading.Thread(target=peak_of, args=(list(started.values()), peaks, is_over))
        watcher.start()
        frame = dd.from_delayed([delayed(make_part)(k, n_rows) for k in range(n_parts)], meta=make_part(0, 1))
        began = time.perf_counter()
        mixing = ParameterMixing(
            StructuredSparseMAPClassifier(solver="adagrad"), n_shards=4, n_rounds=n_rounds, random_state=0
        )
        if way == "frame":
            mixing.fit(frame.drop(columns="label").to_dask_array(lengths=[n_rows] * n_parts), frame["label"])
        else:
            paths = [Path(folder) / f"{k}.npz" for k in range(n_parts)]
            parts = [delayed(write)(part, path) for part, path in zip(frame.to_delayed(), paths)]
            mixing.fit(client.gather(client.compute(parts)))
        seconds = time.perf_counter() - began
        is_over.set()
        watcher.join()
        killed = sum(nanny.pid != started[worker] for worker, nanny in c.workers.items())
    score = mixing.score(*split(make_part(n_parts, 20_000)))
    size = n_parts * n_rows * 8 * (N_FEATURES + 1)
    return seconds, size / 1e6, max(peaks.values()) / 1e6, score, killed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--parts", type=int, default=120)
    parser.add_argument("--rows", type=int, default=20_000, help="of a partition")
    parser.add_argument("--memory", default="600MB", help="limit of a worker")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for each way")
    parser.add_argument("--worker", choices=WAYS, help=argparse.SUPPRESS)
    arguments = results.parse(parser)
    shape = arguments.parts, arguments.rows, arguments.memory, arguments.rounds
    if arguments.worker:
        warnings.simplefilter("ignore")
        print(json.dumps(run(arguments.worker, *shape)))
        return
    print("| way | seconds | data, MB | peak of a worker, MB | accuracy | workers killed |\n|---|---|---|---|---|---|")
    for way in arguments.ways:
        command = [sys.executable, __file__, "--worker", way, "--parts", arguments.parts, "--rows", arguments.rows]
        command += ["--memory", arguments.memory, "--rounds", arguments.rounds]
        try:
            done = subprocess.run(
                list(map(str, command)), capture_output=True, text=True, timeout=arguments.timeout, check=True
            )
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
            reason = (
                f"after {arguments.timeout:.0f} s"
                if isinstance(error, subprocess.TimeoutExpired)
                else error.stderr[-200:]
            )
            print(f"| {way} | no result: {reason} | | | | |")
            continue
        seconds, size, peak, score, killed = json.loads(done.stdout.splitlines()[-1])
        print(f"| {way} | {seconds:.0f} | {size:.0f} | {peak:.0f} | {score:.3f} | {killed} |", flush=True)
        data = f"{size:.0f} MB of dask on two workers of {arguments.memory}"
        results.record("dask_memory", data, f"peak memory of a worker, {way}", peak, "MB", seeds=1)


if __name__ == "__main__":
    main()
