"""Grids of variables of several values: inference by size and labels, an epoch of training, and snakes.

Snakes are paths of cells in a grid: each cell of a path shows where the next one is, its label is its place along the
path, and it sees its eight neighbours only.

    python benchmarks/grids.py
    python benchmarks/grids.py --only snakes
    python benchmarks/grids.py --only conic      # needs clarabel: marginals against those of a conic solver
"""

import argparse
from functools import cache
from time import perf_counter, process_time

import numpy as np
import results

from sklearn_sparsemap import StructuredSparseMAPClassifier, lp_sparsemap
from sklearn_sparsemap.factors import FactorGraph, PairTable, grid_graph

grid = cache(grid_graph)
STEPS = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])
LENGTH = 10


def make_pictures(n, n_labels, sizes, rng, noise=1.0):
    """Rectangles of all labels on a ground, seen through noise."""
    X, y = [], []
    for _ in range(n):
        labels = np.zeros(rng.integers(sizes[0], sizes[1] + 1, 2), int)
        for label in rng.permutation(np.arange(1, n_labels)):
            top, left = (rng.integers(0, size - 2) for size in labels.shape)
            height, width = rng.integers(2, 1 + np.array(labels.shape) // 2)
            labels[top : top + height, left : left + width] = label
        X.append(np.eye(n_labels)[labels] + noise * rng.normal(size=(*labels.shape, n_labels)))
        y.append(labels)
    return X, y


def make_snake(rng):
    """Return the directions that cells of a snake show (1 to 4; 0: none), and the labels of the cells."""
    while True:
        path = [np.zeros(2, int)]
        while len(path) < LENGTH:
            free = [path[-1] + step for step in STEPS if not any((path[-1] + step == cell).all() for cell in path)]
            if not free:
                break
            path.append(free[rng.integers(len(free))])
        if len(path) == LENGTH:
            break
    path = np.array(path)
    path -= path.min(axis=0) - 1
    seen, labels = (np.zeros(path.max(axis=0) + 2, int) for _ in range(2))
    for k, (row, column) in enumerate(path):
        labels[row, column] = k + 1
        step = path[min(k + 1, LENGTH - 1)] - path[min(k, LENGTH - 2)]
        seen[row, column] = 1 + int(np.flatnonzero((step == STEPS).all(axis=1))[0])
    return seen, labels


def look_around(seen):
    """Return the features of all cells: indicators of what the cell and its eight neighbours show."""
    padded = np.pad(seen, 1)
    height, width = seen.shape
    around = [padded[i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return np.eye(5)[np.stack(around, axis=-1)].reshape(height, width, -1)


def snake_graph(x, seen):
    """Return the graph of a snake: neighbours have tables for where each of them points."""
    graph = FactorGraph()
    u = graph.categorical(x.shape[:2], LENGTH + 1, name="places")
    for (first, second), (a, b), (there, back) in (
        ((u[:, :-1], u[:, 1:]), (seen[:, :-1], seen[:, 1:]), (1, 3)),
        ((u[:-1], u[1:]), (seen[:-1], seen[1:]), (2, 4)),
    ):
        points = np.stack([np.ones(a.shape), a == there, b == back], axis=-1)
        graph.add(PairTable(first, second, name="neighbours", features=points))
    return graph


def inference():
    """Time one sample forward and backward, by size and labels, under scores as a trained model has them."""
    rng = np.random.default_rng(0)
    print(f"{'grid':>9}{'labels':>8}{'ms a sample':>13}{'ms vjp':>8}{'steps':>7}{'gap':>10}{'in use':>8}")
    for height, width in ((5, 8), (10, 10), (20, 20), (30, 30)):
        for n_labels in (4, 11):
            X, _ = make_pictures(6, n_labels, (height, height), rng)
            scores = [3.0 * np.resize(x, (height, width, n_labels)) for x in X]
            table = 1.5 * np.eye(n_labels)
            tables, graph = {"horizontal": table, "vertical": table}, grid(height, width, n_labels)
            lp_sparsemap(graph, scores[:1], additional=tables)
            times, backward = [], []
            for _ in range(3):
                begin = process_time()
                found = lp_sparsemap(graph, scores, additional=tables, n_jobs=1)
                times.append((process_time() - begin) / len(scores))
                direction, result = rng.normal(size=scores[0].shape), found[0]
                begin = process_time()
                result.vjp(direction)
                backward.append(process_time() - begin)
            data = f"{height} x {width}, {n_labels} labels"
            results.record("grids", data, "CPU time forward", 1e3 * min(times), "ms")
            results.record("grids", data, "CPU time of vjp", 1e3 * min(backward), "ms")
            in_use = (found.marginals.values > 0).sum() / (len(scores) * height * width)
            print(
                f"{height:>5} x{width:>3}{n_labels:8}{1e3 * min(times):13.1f}{1e3 * min(backward):8.1f}"
                f"{found.n_iter.mean():7.0f}{found.gap.max():10.0e}{in_use:8.2f}",
                flush=True,
            )


def epochs(n, n_epochs):
    """Time epochs of training on grids of 6 x 6 to 30 x 30 pixels and 11 labels."""
    X, y = make_pictures(n, 11, (6, 30), np.random.default_rng(1))
    model = StructuredSparseMAPClassifier(
        lambda x: grid(*x.shape[:2], 11), solver="adagrad", alpha=1e-3, max_iter=1, n_jobs=-1, average=False
    )
    model.fit(X[:2], y[:2])
    for epoch in range(n_epochs):
        begin, cpu = perf_counter(), process_time()
        if epoch == 0:
            model.fit(X, y)
        else:
            model.partial_fit(X, y)
        took, cpu = perf_counter() - begin, process_time() - cpu
        results.record("grids", f"{n} pictures, 11 labels", f"CPU time of epoch {epoch + 1}", cpu, "s")
        print(f"epoch {epoch + 1}: {took:.1f} s, {cpu:.1f} CPU s, loss {model.loss_curve_[-1]:.1f}", flush=True)
    few = slice(0, 20)
    alone = np.concatenate([(x.argmax(axis=-1) == own).ravel() for x, own in zip(X[few], y[few])]).mean()
    print(f"pixels right: {model.score(X[few], y[few]):.3f}; one by one {alone:.3f}")


def conic():
    """Hold marginals against those of a conic solver."""
    from conic import project_grid

    rng, differences = np.random.default_rng(0), []
    for height, width, k in ((3, 4, 3), (4, 4, 4), (5, 8, 4), (5, 8, 11)):
        for scale in np.repeat([0.1, 1.0, 4.0], 3 if k < 11 else 1):
            scores = scale * rng.normal(size=(height, width, k))
            horizontal, vertical = scale * rng.normal(size=(2, k, k))
            tables = {"horizontal": horizontal, "vertical": vertical}
            ours = lp_sparsemap(grid(height, width, k), scores, additional=tables)
            theirs = project_grid(scores, horizontal, vertical)
            if theirs is not None:
                differences.append(abs(ours.marginals - theirs).max())
    results.record("grids", f"{len(differences)} grids", "largest difference to clarabel", max(differences), "")
    print(f"{len(differences)} grids differ by at most {max(differences):.1e} (median {np.median(differences):.1e})")


def snakes(n_train, n_epochs):
    """Learn snakes."""
    rng = np.random.default_rng(0)
    drawn = [make_snake(rng) for _ in range(n_train + 100)]
    X, y = [(look_around(seen), seen) for seen, _ in drawn], [labels for _, labels in drawn]
    model = StructuredSparseMAPClassifier(snake_graph, solver="adagrad", alpha=1e-4, max_iter=n_epochs, n_jobs=-1)
    model.fit(X[:2], y[:2])
    begin = perf_counter()
    model.fit(X[:n_train], y[:n_train])
    seconds = perf_counter() - begin
    begin = perf_counter()
    predicted = model.predict(X[n_train:])
    took = perf_counter() - begin
    right = np.concatenate([(own == found).ravel() for own, found in zip(y[n_train:], predicted)])
    on_path = np.concatenate([own.ravel() > 0 for own in y[n_train:]])
    results.record("grids", "snakes", "cells right", 100 * right.mean(), "%")
    print(
        f"snakes, {n_train} to learn from, {np.mean([own.size for own in y]):.0f} cells each: {right.mean():.4f} of "
        f"cells right, {right[on_path].mean():.4f} on paths; {n_epochs} epochs {seconds:.1f} s, prediction {took:.1f} s"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["inference", "epochs", "snakes", "conic"])
    parser.add_argument("--pictures", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--snakes", type=int, default=200)
    parser.add_argument("--snake-epochs", type=int, default=10)
    options = results.parse(parser)
    if options.only in (None, "inference"):
        inference()
    if options.only == "conic":
        conic()
    if options.only in (None, "snakes"):
        snakes(options.snakes, options.snake_epochs)
    if options.only in (None, "epochs"):
        epochs(options.pictures, options.epochs)


if __name__ == "__main__":
    main()
