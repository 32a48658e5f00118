"""Learning to decide: `DecisionFocusedRegressor` compared with the SPO+ loss of PyEPO and with linear regression.

PyEPO draws the problems: cheapest paths through a grid of 5 x 5 nodes, with costs that are polynomials of the features
(degrees 1, 2, 4, 6; with and without noise), and knapsacks of 16 items with 1 and 2 constraints. All models are linear.
PyEPO's solvers are those of OR-Tools. A line has the normalised regret on test samples in percent, the mean over the
seeds, and the CPU seconds of training.

    pip install pyepo ortools
    python benchmarks/decisions.py [--only path|knapsack|loss] [--seeds 3] [--epochs 20]
"""

import argparse
import warnings
from time import process_time

import numpy as np
import results
import torch
from sklearn.linear_model import LinearRegression

from sklearn_sparsemap import DecisionFocusedRegressor, map_inference
from sklearn_sparsemap.losses import SPOPlusLoss
from sklearn_sparsemap.metrics import normalized_regret
from sklearn_sparsemap.structures import LinearProgram, Path

pyepo = results.peer("pyepo", "pyepo ortools")
solvers = results.peer("pyepo.model.ort", "pyepo ortools")

N_TRAIN, N_FEATURES, CAPACITY = 100, 5, 20.0
# Numbers of test samples; a knapsack takes milliseconds.
N_TEST = {"path": 1000, "knapsack": 100}
METHODS = (
    "linear regression", "PyEPO SPO+, rate 0.01", "PyEPO SPO+, rate 0.1",
    "ours, sparsemap", "ours, spo_plus", "ours, perturbed",
)  # fmt: skip


def draw(kind, first, degree, noise, seed):
    """Return PyEPO's model, our structure, features, and values that are maximised.

    `first` is the number of constraints of a knapsack.
    """
    n = N_TRAIN + N_TEST[kind]
    if kind == "path":
        X, costs = pyepo.data.shortestpath.genData(n, N_FEATURES, (5, 5), degree, noise, seed)
        return solvers.shortestPathModel((5, 5)), Path.grid(5, 5), X, -costs.astype(float)
    weights, X, values = pyepo.data.knapsack.genData(n, N_FEATURES, 16, first, degree, noise, seed)
    capacity = [CAPACITY] * first
    return solvers.knapsackModel(weights, capacity), LinearProgram(weights, capacity), X, values.astype(float)


def by_pyepo(model, X, values, rate, n_epochs, seed):
    """Train a linear layer by PyEPO's SPO+ and Adam; return it as a function."""
    torch.manual_seed(seed)
    sign = 1.0 if model.modelSense == pyepo.EPO.MAXIMIZE else -1.0
    data = pyepo.data.dataset.optDataset(model, X.astype(np.float32), (sign * values).astype(np.float32))
    loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
    layer, loss_of = torch.nn.Linear(N_FEATURES, values.shape[1]), pyepo.func.SPOPlus(model)
    optimizer = torch.optim.Adam(layer.parameters(), rate)
    for _ in range(n_epochs):
        for x, *others in loader:
            optimizer.zero_grad()
            loss_of(layer(x), *others).backward()
            optimizer.step()
    return lambda X: sign * layer(torch.as_tensor(X, dtype=torch.float32)).detach().numpy().astype(float)


def learn(method, model, structure, X, values, options, seed):
    """Return a function that predicts values."""
    if method == "linear regression":
        return LinearRegression().fit(X, values).predict
    if method.startswith("PyEPO"):
        return by_pyepo(model, X, values, float(method.split()[-1]), options.epochs, seed)
    own = DecisionFocusedRegressor(structure, method.split()[-1], random_state=seed, n_jobs=1)
    return own.fit(X, values).predict_values


def compare(kind, first, degree, noise, options):
    """Print the regret and the seconds of all methods for one family of problems; return them."""
    table = np.zeros((len(METHODS), options.seeds, 2))
    for seed in range(options.seeds):
        model, structure, X, values = draw(kind, first, degree, noise, seed)
        test = values[N_TRAIN:]
        for row, method in zip(table, METHODS):
            begin = process_time()
            predict = learn(method, model, structure, X[:N_TRAIN], values[:N_TRAIN], options, seed)
            seconds = process_time() - begin
            decisions = np.array(list(map_inference(structure, list(predict(X[N_TRAIN:]))).structures))
            row[seed] = 100.0 * normalized_regret(test, decisions, structure), seconds
    name = f"{kind}, degree {degree}, noise {noise}" + (f", {first} constraints" if kind == "knapsack" else "")
    for method, (regret, seconds) in zip(METHODS, table.mean(axis=1)):
        print(f"{name:44} {method:20} {regret:7.2f} % {seconds:8.2f} s", flush=True)
    return table.mean(axis=1)


def record_means(kind, means, seeds):
    """Record the default loss compared with each other method."""
    for method, theirs in means.items():
        if method.startswith("ours"):
            continue
        ours, package = means["ours, sparsemap"], "pyepo" if method.startswith("PyEPO") else "scikit-learn"
        for place, (measure, unit) in enumerate((("normalised regret", "%"), ("CPU time of training", "s"))):
            results.record("decisions", f"{kind}, mean of all problems", measure, ours[place], unit, method,
                           theirs[place], seeds, package=package)  # fmt: skip


def compare_losses():
    """Print the largest difference between our SPO+ and PyEPO's, and CPU times of one epoch."""
    for kind, first in (("path", 1), ("knapsack", 1), ("knapsack", 2)):
        model, structure, X, values = draw(kind, first, 4, 0.5, 0)
        values, rng = values[:N_TRAIN], np.random.default_rng(0)
        predicted = values + rng.normal(size=values.shape)
        sign = 1.0 if model.modelSense == pyepo.EPO.MAXIMIZE else -1.0
        data = pyepo.data.dataset.optDataset(model, X[:N_TRAIN].astype(np.float32), (sign * values).astype(np.float32))
        guess = torch.tensor(sign * predicted, dtype=torch.float32, requires_grad=True)
        _, true, best, value = (torch.as_tensor(np.array(part)) for part in zip(*[data[i] for i in range(N_TRAIN)]))
        begin = process_time()
        theirs = pyepo.func.SPOPlus(model, reduction="none")(guess, true, best, value)
        theirs.sum().backward()
        seconds = process_time() - begin
        loss = SPOPlusLoss(structure)
        loss.loss_gradient(predicted[:2], values[:2])
        begin = process_time()
        ours, gradient = loss.loss_gradient(predicted, values, best.numpy())
        own = process_time() - begin
        off = np.abs(ours - theirs.detach().numpy().ravel()).max() / np.abs(ours).max()
        off_gradient = np.abs(gradient - sign * guess.grad.numpy()).max()
        print(f"{kind}, {first} constraints: losses differ by {off:.1e}, gradients by {off_gradient:.1e}")
        for name, spent in (("PyEPO", seconds), ("ours", own)):
            print(f"  {name}, ms a sample: {1e3 * spent / N_TRAIN:.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("path", "knapsack", "loss"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20, help="of PyEPO")
    options = results.parse(parser)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if options.only in (None, "loss"):
        compare_losses()
    families = {
        "path": [("path", 1, degree, noise) for degree in (1, 2, 4, 6) for noise in (0.0, 0.5)],
        "knapsack": [("knapsack", n, 4, 0.5) for n in (1, 2)],
    }
    for kind, cases in families.items():
        if options.only in (None, kind):
            means = np.mean([compare(*case, options) for case in cases], axis=0)
            record_means(kind, dict(zip(METHODS, means)), options.seeds)
            for method, (regret, seconds) in zip(METHODS, means):
                print(f"{kind}, mean {method:31} {regret:7.2f} % {seconds:8.2f} s", flush=True)


if __name__ == "__main__":
    main()
