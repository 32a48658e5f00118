"""Time of the PyTorch layers, forward and backward, by structure, size and scale of the scores.

    python benchmarks/layers.py

A batch of random scores (float64), one thread unless the table says otherwise. Variants of a problem are timed in turn,
and the least of their times is shown, which other programs disturb least. Beside the layer stand, in the same run,
`max_iter=10`, two threads, a loop over single calls of the core, the marginals of a CRF written in plain PyTorch
(forward algorithm and autograd, batched) for chains, and entmax's sparsemax for the simplex. The second table holds the
times against the limits that the layer has set itself; nothing is asserted.
"""

import argparse
from time import perf_counter

import numpy as np
import results
import torch

import sklearn_sparsemap
from sklearn_sparsemap.factors import AtMostOne, Budget, FactorGraph, StructureFactor, Xor
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Simplex, Subset
from sklearn_sparsemap.torch import lp_sparsemap, sparsemap

SCALES = (1.0, 0.1, 1e-3, 0.0)


def tree_with_budgets(n):
    graph = FactorGraph()
    arcs = graph.variables((n + 1, n))
    graph.add(StructureFactor(DependencyTree(), arcs), *[Budget(row, 3) for row in arcs])
    return graph


def lp_matching(n):
    graph = FactorGraph()
    links = graph.variables((n, n + 2))
    graph.add(*[Xor(row) for row in links], *[AtMostOne(column) for column in links.T])
    return graph


# Name, structure or graph, shape of the scores, shape of the transitions.
PROBLEMS = (
    ("chain 20 x 10", LinearChain(), (20, 10), (10, 10)),
    ("tree, 20 words", DependencyTree(), (21, 20), None),
    ("tree, 40 words", DependencyTree(), (41, 40), None),
    ("matching 20 x 20", Matching(), (20, 20), None),
    ("simplex of 100", Simplex(), (100,), None),
    ("subset, at most 5 of 100", Subset(max_size=5), (100,), None),
    ("graph: tree of 10 words, budgets", tree_with_budgets(10), (11, 10), None),
    ("graph: matching 8 x 10", lp_matching(8), (8, 10), None),
)


def crf_marginals(scores, transitions):
    """Marginals of a linear-chain CRF in plain PyTorch: the gradient of the log-partition."""
    scores = scores.detach().requires_grad_() if not scores.requires_grad else scores
    alpha = scores[:, 0]
    for t in range(1, scores.shape[1]):
        alpha = scores[:, t] + torch.logsumexp(alpha.unsqueeze(2) + transitions, 1)
    total = torch.logsumexp(alpha, 1).sum()
    return torch.autograd.grad(total, scores, create_graph=True)[0]


def variants(structure, scores, transitions):
    """Return functions by name, each of which returns marginals of the batch."""
    more = {} if transitions is None else {"transitions": transitions}
    if isinstance(structure, FactorGraph):
        return {
            "exact": lambda: lp_sparsemap(structure, scores),
            "ten": lambda: lp_sparsemap(structure, scores, max_iter=10),
            "two": lambda: lp_sparsemap(structure, scores, n_jobs=2),
        }
    found = {
        "exact": lambda: sparsemap(structure, scores, **more),
        "ten": lambda: sparsemap(structure, scores, max_iter=10, **more),
        "two": lambda: sparsemap(structure, scores, n_jobs=2, **more),
    }
    if isinstance(structure, Matching):
        found["native"] = lambda: sparsemap(structure, scores, backend="native")
    if isinstance(structure, LinearChain):
        found["CRF"] = lambda: crf_marginals(scores, transitions)
    if isinstance(structure, Simplex):
        try:
            from entmax import sparsemax
        except ImportError:
            pass
        else:
            found["entmax"] = lambda: sparsemax(scores, dim=-1)
    return found


def single_calls(structure, scores, transitions, weights):
    """Time a loop over single calls of the core: forward, backward."""
    more = {} if transitions is None else {"transitions": transitions.detach().numpy()}
    solve = sklearn_sparsemap.lp_sparsemap if isinstance(structure, FactorGraph) else sklearn_sparsemap.sparsemap
    arrays, upstream = scores.detach().numpy(), weights.numpy()
    start = perf_counter()
    results = [solve(structure, own, **more) for own in arrays]
    middle = perf_counter()
    for result, own in zip(results, upstream):
        result.vjp(own)
    return middle - start, perf_counter() - middle


def measure(structure, shape, transitions_shape, scale, batch, repeats, loop):
    """Return the least times (forward, backward) in milliseconds, by variant."""
    rng = np.random.default_rng(0)
    scores = torch.tensor(scale * rng.normal(size=(batch, *shape)), requires_grad=True)
    transitions = None
    if transitions_shape is not None:
        transitions = torch.tensor(scale * rng.normal(size=transitions_shape), requires_grad=True)
    weights = torch.tensor(rng.normal(size=(batch, *shape)))
    functions, times = variants(structure, scores, transitions), {}
    # Once to compile or to load, then in turn.
    for repeat in range(repeats + 1):
        for name, function in functions.items():
            start = perf_counter()
            u = function()
            middle = perf_counter()
            (u * weights).sum().backward()
            if repeat:
                times.setdefault(name, []).append((middle - start, perf_counter() - middle))
    if loop:
        single_calls(structure, scores, transitions, weights)
        times["loop"] = [single_calls(structure, scores, transitions, weights) for _ in range(2)]
    return {name: 1e3 * np.min(own, axis=0) for name, own in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", nargs="+", default=[""], help="problems whose names begin so")
    parser.add_argument("--no-loop", action="store_true", help="leave out the loop over single calls")
    options = results.parse(parser)
    torch.set_num_threads(1)
    print(f"batch of {options.batch}, milliseconds: forward + backward\n")
    print("| problem | scale | layer | two threads | max_iter=10 | single calls | peer |")
    print("|---|---|---|---|---|---|---|")
    limits = []
    for name, structure, shape, transitions_shape in PROBLEMS:
        if not name.startswith(tuple(options.only)):
            continue
        at_one = None
        for scale in SCALES:
            loop = not options.no_loop and scale in (1.0, 0.1)
            found = measure(structure, shape, transitions_shape, scale, options.batch, options.repeats, loop)
            cells = {key: f"{own[0]:.2f} + {own[1]:.2f}" for key, own in found.items()}
            names = {"CRF": "CRF in PyTorch", "entmax": "entmax", "native": "the same in operations of PyTorch"}
            for key in ("CRF", "entmax", "native"):
                if key in found:
                    results.record("layers", f"{name}, scale {scale:g}, batch of {options.batch}", "forward + backward",
                                   found["exact"].sum(), "ms", names[key], found[key].sum(),
                                   package="entmax" if key == "entmax" else "torch")  # fmt: skip
            if scale == 1.0:
                results.record("layers", f"{name}, scale {scale:g}, batch of {options.batch}", "forward + backward",
                               found["exact"].sum(), "ms", package="torch")  # fmt: skip
            peers = ", ".join(f"{key} {cells[key]}" for key in ("CRF", "entmax", "native") if key in cells)
            row = [cells["exact"], cells["two"], cells["ten"], cells.get("loop", ""), peers]
            print(f"| {name} | {scale:g} | " + " | ".join(row) + " |", flush=True)
            total = found["exact"].sum()
            at_one = total if at_one is None else at_one
            limits.append((name, scale, found["exact"], total / at_one, found))
    print("\n| problem | scale | backward / forward | total / that at scale 1 | max_iter=10 / exact | two threads |")
    print("|---|---|---|---|---|---|")
    for name, scale, exact, growth, found in limits:
        ten, two = found["ten"].sum() / exact.sum(), exact.sum() / found["two"].sum()
        print(f"| {name} | {scale:g} | {exact[1] / exact[0]:.2f} | {growth:.2f} | {ten:.2f} | {two:.2f} x |")


if __name__ == "__main__":
    main()
