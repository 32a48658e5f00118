"""Time of SparseMAP in PyTorch's operations on a device, compared with the compiled solvers on the CPU.

    python benchmarks/devices.py                    # operations of PyTorch on the CPU
    python benchmarks/devices.py --device cuda      # on a GPU, if there is one

Forward and backward pass of batches of random scores (float64), by structure, batch and scale of the scores. `compiled`
is the CPU with `--threads` threads. The last column counts PyTorch's operations in a forward pass: on a GPU each takes
some microseconds, however small the batch is. The device and the version are printed first.
"""

import argparse
import platform
from time import perf_counter

import numpy as np
import results
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sklearn_sparsemap.structures import LinearChain, Matching, Ranking, Simplex, Subset
from sklearn_sparsemap.structures._base import TensorBatch
from sklearn_sparsemap.torch import sparsemap

# Name, structure, shape of the scores, shape of the transitions.
PROBLEMS = (
    ("simplex of 20", Simplex(), (20,), None),
    ("subset, at most 5 of 20", Subset(max_size=5), (20,), None),
    ("ranking of 20", Ranking(), (20,), None),
    ("matching 10 x 10", Matching(), (10, 10), None),
    ("chain 20 x 5, no transitions", LinearChain(), (20, 5), None),
    ("chain 20 x 5", LinearChain(), (20, 5), (5, 5)),
)


class Counter(TorchDispatchMode):
    """Counts the operations of PyTorch."""

    n_operations = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.n_operations += 1
        return function(*args, **(kwargs or {}))


def time_of(structure, scores, transitions, repeats, **options):
    """Return the least time in seconds of a forward and a backward pass."""
    more = {} if transitions is None else {"transitions": transitions}
    weights = torch.ones_like(scores).cumsum(-1)

    def both():
        u = sparsemap(structure, scores, **options, **more)
        (u * weights).sum().backward()
        if scores.device.type == "cuda":
            torch.cuda.synchronize()

    times = []
    # Once to load compiled code or kernels.
    for _ in range(repeats + 1):
        start = perf_counter()
        both()
        times.append(perf_counter() - start)
    return min(times[1:])


def operations_of(structure, scores, transitions):
    """Return the number of operations of a forward pass."""
    scores = scores.detach()
    lengths = torch.tensor([list(scores.shape[1:])], device=scores.device).expand(len(scores), -1)
    additional, given = scores.new_zeros(len(scores), 0), {}
    if transitions is not None:
        additional, given = transitions.reshape(1, -1).expand(len(scores), -1), {"transitions": transitions.shape}
    with Counter() as counter:
        structure.tensor_solver()(TensorBatch(scores, lengths, additional, given, None, 1e-9))
    return counter.n_operations


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 256, 4096])
    parser.add_argument("--scales", type=float, nargs="+", default=[1.0, 0.1])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[""], help="problems whose names begin so")
    options = results.parse(parser)
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    print(f"device: {device.type}, {name}; PyTorch {torch.__version__}; milliseconds, forward and backward\n")
    print("| problem | scale | batch | compiled | native | native / compiled | operations |")
    print("|---|---|---|---|---|---|---|")
    for problem, structure, shape, extra in PROBLEMS:
        if not problem.startswith(tuple(options.only)):
            continue
        for scale in options.scales:
            for batch in options.batches:
                rng = np.random.default_rng(0)
                scores = torch.tensor(scale * rng.normal(size=(batch, *shape)), requires_grad=True)
                transitions = None if extra is None else torch.tensor(scale * rng.normal(size=extra))
                compiled = time_of(
                    structure, scores, transitions, options.repeats, backend="compiled", n_jobs=options.threads
                )
                there = scores.detach().to(device).requires_grad_()
                moved = None if transitions is None else transitions.to(device)
                native = time_of(structure, there, moved, options.repeats, backend="native")
                count = operations_of(structure, there, moved)
                row = f"{1e3 * compiled:.2f} | {1e3 * native:.2f} | {native / compiled:.1f} | {count}"
                print(f"| {problem} | {scale:g} | {batch} | {row} |", flush=True)
                results.record("layers by device", f"{problem}, scale {scale:g}, batch {batch}, {name}",
                               "forward and backward", 1e3 * native, "ms", "compiled solver", 1e3 * compiled,
                               package="torch")  # fmt: skip


if __name__ == "__main__":
    main()
