"""Time of SparseMAP in PyTorch's operations on a device, compared with the compiled solvers on the CPU.

    python benchmarks/devices.py                    # operations of PyTorch on the CPU
    python benchmarks/devices.py --device cuda      # on a GPU, if there is one
    python benchmarks/devices.py --operations       # number of operations, for 1,024 samples of 20 words
    python benchmarks/devices.py --moreau           # compared with Moreau; pip install moreau clarabel

Forward and backward pass of batches of random scores (float64), by structure, batch and scale of the scores. `compiled`
is the CPU with `--threads` threads. The last column counts PyTorch's operations in a forward pass: on a GPU each takes
some microseconds, however small the batch is. The device and the version are printed first.

With --moreau, the compiled solvers and Moreau, a batched solver of quadratic programs with derivatives, at its default
settings: subsets and matchings by their inequalities, chains by flows. The last column is the largest difference of a
marginal.
"""

import argparse
import platform
from time import perf_counter

import numpy as np
import results
import torch
from factor_graphs import matching
from torch.utils._python_dispatch import TorchDispatchMode

from sklearn_sparsemap._graphs import tensors as graph_tensors
from sklearn_sparsemap.factors import Budget, FactorGraph, Pair
from sklearn_sparsemap.structures import (
    Alignment,
    DependencyTree,
    LinearChain,
    Matching,
    Ranking,
    Segmentation,
    SequenceBudget,
    Simplex,
    Subset,
)
from sklearn_sparsemap.structures._base import TensorBatch
from sklearn_sparsemap.torch import lp_sparsemap, sparsemap


def labels(n):
    """Return a graph of labels: scores of all pairs, and at most a quarter of the labels."""
    graph = FactorGraph()
    u = graph.variables(n)
    first, second = np.triu_indices(n, 1)
    graph.add(Pair(u[first], u[second], name="pairs"), Budget(u, n // 4))
    return graph


# Name, structure or graph, shape of the scores, shapes of the additional scores.
PROBLEMS = (
    ("simplex of 20", Simplex(), (20,), {}),
    ("subset, at most 5 of 20", Subset(max_size=5), (20,), {}),
    ("ranking of 20", Ranking(), (20,), {}),
    ("matching 10 x 10", Matching(), (10, 10), {}),
    ("graph of a matching 5 x 6", matching(5, 6)[0], (5, 6), {}),
    ("graph of 12 labels", labels(12), (12,), {"pairs": (66,)}),
    ("chain 20 x 5, no transitions", LinearChain(), (20, 5), {}),
    ("chain 20 x 5", LinearChain(), (20, 5), {"transitions": (5, 5)}),
    ("chain 20 x 2, at most 5", SequenceBudget(5), (20, 2), {"transitions": (2, 2)}),
    ("segmentation 12 x 3", Segmentation(4), (12, 3), {"transitions": (3, 3)}),
    ("tree of 10 words", DependencyTree(), (11, 10), {}),
    ("projective tree of 10 words", DependencyTree(projective=True), (11, 10), {}),
    ("time warping 10 x 10", Alignment(), (10, 10), {}),
)


class Counter(TorchDispatchMode):
    """Counts the operations of PyTorch; those that start a kernel on a GPU, because views do not; and factorizations.

    An iterative solver has one factorization in each round.
    """

    n_operations = n_kernels = n_rounds = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.n_operations += 1
        self.n_kernels += not function.is_view
        self.n_rounds += "linalg_cholesky_ex" in str(function)
        return function(*args, **(kwargs or {}))


def time_of(what, scores, additional, repeats, **options):
    """Return the least time in seconds of a forward and a backward pass."""
    layer = lp_sparsemap if isinstance(what, FactorGraph) else sparsemap
    weights = torch.ones_like(scores).cumsum(-1)

    def both():
        u = layer(what, scores, additional=additional, **options)
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


def operations_of(what, scores, additional):
    """Return the `Counter` of a forward pass."""
    scores, given = scores.detach(), {name: tuple(values.shape) for name, values in additional.items()}
    joined = torch.cat([scores.new_zeros(0), *[values.ravel() for values in additional.values()]])
    joined = joined.expand(len(scores), -1)
    if isinstance(what, FactorGraph):
        rows = graph_tensors.rows_of(what.layout(given), scores.device)
        with Counter() as counter:
            graph_tensors.solve(rows, scores.flatten(1), joined)
        return counter
    lengths = torch.tensor([list(scores.shape[1:])], device=scores.device).expand(len(scores), -1)
    with Counter() as counter:
        what.tensor_solver()(TensorBatch(scores, lengths, joined, given, None, 1e-9))
    return counter


def print_operations(device):
    """Print the numbers of operations for a batch of 1,024 samples of 20 words."""
    print("| problem, 1,024 samples | operations | kernels | rounds | kernels in a round |")
    print("|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    for problem, structure, shape, shapes in (
        ("subset, at most 5 of 20", Subset(max_size=5), (20,), {}),
        ("ranking of 20", Ranking(), (20,), {}),
        ("chain 20 x 5, no transitions", LinearChain(), (20, 5), {}),
        ("chain 20 x 5", LinearChain(), (20, 5), {"transitions": (5, 5)}),
        ("matching 20 x 20", Matching(), (20, 20), {}),
    ):
        scores = torch.tensor(rng.normal(size=(1024, *shape)), device=device)
        given = {name: torch.tensor(rng.normal(size=own), device=device) for name, own in shapes.items()}
        count = operations_of(structure, scores, given)
        each = f"{count.n_rounds} | {count.n_kernels / count.n_rounds:.0f}" if count.n_rounds else "none | "
        print(f"| {problem} | {count.n_operations} | {count.n_kernels} | {each} |", flush=True)


def moreau_of(structure, shape, batch, device):
    """Return a function of scores, transitions and a gradient, which solves a batch by Moreau with its derivative."""
    moreau = results.peer("moreau", "moreau clarabel")
    conic = results.peer("conic", "clarabel")

    made = conic.program_of(structure, shape)
    if isinstance(structure, Matching):
        # It follows from the others, which Moreau's active set does not notice.
        made.equal.pop()
    A, bounds = made.constraints()
    A, n_scored = A.tocsr(), int(np.prod(shape))
    # Only scored variables are regularised.
    places = np.minimum(np.arange(made.n + 1), n_scored)
    cones = moreau.Cones(num_zero_cones=len(made.equal), num_nonneg_cones=len(made.less))
    settings = moreau.Settings(batch_size=batch, enable_grad=True, device=device)
    solver = moreau.CompiledSolver(
        made.n, A.shape[0], places, np.arange(n_scored), A.indptr, A.indices, cones, settings
    )
    solver.setup(np.ones(n_scored), A.data)

    def solve(scores, transitions, gradient):
        costs, slopes = np.zeros((batch, made.n)), np.zeros((batch, made.n))
        costs[:, :n_scored], slopes[:, :n_scored] = -scores.reshape(batch, -1), gradient.reshape(batch, -1)
        if transitions is not None:
            costs[:, n_scored:] = -np.tile(transitions.ravel(), shape[0] - 1)
        x = solver.solve(costs, np.tile(bounds, (batch, 1))).x
        return x[:, :n_scored].reshape(scores.shape), solver.backward(slopes)["dq"]

    return solve


def print_moreau(options):
    print("| problem | batch | compiled | Moreau | compiled / Moreau | largest difference |")
    print("|---|---|---|---|---|---|")
    names = "subset, at most 5 of 20", "matching 10 x 10", "chain 20 x 5"
    for problem, structure, shape, shapes in PROBLEMS:
        for batch in options.batches if problem in names else ():
            rng = np.random.default_rng(0)
            scores = torch.tensor(rng.normal(size=(batch, *shape)), requires_grad=True)
            given = {name: torch.tensor(rng.normal(size=own)) for name, own in shapes.items()}
            seconds = time_of(structure, scores, given, options.repeats, backend="compiled", n_jobs=options.threads)
            u = sparsemap(structure, scores.detach(), additional=given)
            solve, times = moreau_of(structure, shape, batch, options.device), []
            transitions = given["transitions"].numpy() if given else None
            # In the first call, Moreau chooses its method.
            for _ in range(options.repeats + 1):
                start = perf_counter()
                found, _ = solve(scores.detach().numpy(), transitions, np.ones((batch, *shape)).cumsum(-1))
                times.append(perf_counter() - start)
            theirs, away = min(times[1:]), np.abs(found - u.numpy()).max()
            row = f"{1e3 * seconds:.2f} | {1e3 * theirs:.2f} | {seconds / theirs:.3f} | {away:.0e}"
            print(f"| {problem} | {batch} | {row} |", flush=True)
            results.record("layers by device", f"{problem}, batch {batch}, {options.threads} threads",
                           "forward and backward", 1e3 * seconds, "ms", "Moreau", 1e3 * theirs,
                           package="moreau")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 256, 4096])
    parser.add_argument("--scales", type=float, nargs="+", default=[1.0, 0.1])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[""], help="problems whose names begin so")
    parser.add_argument("--operations", action="store_true", help="count operations instead")
    parser.add_argument("--moreau", action="store_true", help="compare with Moreau instead")
    options = results.parse(parser)
    torch.set_num_threads(options.threads)
    if options.moreau:
        return print_moreau(options)
    if options.operations:
        return print_operations(options.device)
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    print(f"device: {device.type}, {name}; PyTorch {torch.__version__}; milliseconds, forward and backward\n")
    print("| problem | scale | batch | compiled | native | native / compiled | operations |")
    print("|---|---|---|---|---|---|---|")
    for problem, what, shape, shapes in PROBLEMS:
        if not problem.startswith(tuple(options.only)):
            continue
        for scale in options.scales:
            for batch in options.batches:
                rng = np.random.default_rng(0)
                scores = torch.tensor(scale * rng.normal(size=(batch, *shape)), requires_grad=True)
                given = {name: torch.tensor(scale * rng.normal(size=own)) for name, own in shapes.items()}
                compiled = time_of(what, scores, given, options.repeats, backend="compiled", n_jobs=options.threads)
                there = scores.detach().to(device).requires_grad_()
                moved = {name: values.to(device) for name, values in given.items()}
                native = time_of(what, there, moved, options.repeats, backend="native")
                count = operations_of(what, there, moved).n_operations
                row = f"{1e3 * compiled:.2f} | {1e3 * native:.2f} | {native / compiled:.1f} | {count}"
                print(f"| {problem} | {scale:g} | {batch} | {row} |", flush=True)
                results.record("layers by device", f"{problem}, scale {scale:g}, batch {batch}, {name}",
                               "forward and backward", 1e3 * native, "ms", "compiled solver", 1e3 * compiled,
                               package="torch")  # fmt: skip


if __name__ == "__main__":
    main()
