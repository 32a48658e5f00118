"""Learning to decide: `LinearProgram` beside the SPO+ loss of PyEPO, on knapsacks as in the example of the gallery.

Values of 16 things depend on six features in a way that is not linear; 100 samples to learn from, 200 to test. The
score of a thing is linear in its features in both; PyEPO is given the same integer programmes, by the same solver
(HiGHS), and may keep solutions, too (``solve_ratio``).

    pip install pyepo torch
    python benchmarks/decisions.py
"""

import argparse
from importlib.util import find_spec
from time import perf_counter

import numpy as np

from sklearn_sparsemap import StructuredSparseMAPClassifier, map_inference
from sklearn_sparsemap.structures import LinearProgram

N_THINGS, N_FEATURES = 16, 6


def draw(knapsack, n, rng):
    """Return features of all things, their values, and the best choices; see the example."""
    X = rng.uniform(-1, 1, size=(n, N_THINGS, N_FEATURES))
    apart = X[:, :, 0] = rng.uniform(size=X.shape[:2]) < 0.2
    values = np.where(apart, 25 + 10 * X[:, :, 1], 3 - 1.5 * X[:, :, 1] + 0.5 * X[:, :, 2])
    values *= rng.uniform(0.9, 1.1, size=values.shape)
    return X, values, np.array(map_inference(knapsack, list(values)).structures)


def regret(knapsack, scores, values, best):
    """Return the share of the best value that is lost by deciding by scores."""
    chosen = np.array(map_inference(knapsack, list(scores)).structures)
    return ((best - 1.0 * chosen) * values).sum() / (best * values).sum()


def ours(knapsack, X, best):
    model = StructuredSparseMAPClassifier(knapsack, "margin_sparsemap", alpha=1e-3, max_iter=60, tol=1e-2, n_jobs=1)
    return model.fit(list(X), best).decision_function


def by_pyepo(knapsack, X, values, n_epochs, solve_ratio):
    import pyepo
    import torch
    from pyepo.data.dataset import optDataset
    from pyepo.func import SPOPlus
    from pyepo.model.opt import optModel

    class Model(optModel):
        modelSense = pyepo.EPO.MAXIMIZE

        def _getModel(self):
            return None, list(range(N_THINGS))

        def setObj(self, c):
            self.scores = np.asarray(c, dtype=np.float64)

        def solve(self):
            chosen, value = map_inference(knapsack, self.scores)
            return chosen.astype(np.float32), float(value)

    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = optDataset(Model(), X.astype(np.float32), values.astype(np.float32))
    loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    layer = torch.nn.Linear(N_FEATURES, 1)
    loss_of = SPOPlus(Model(), solve_ratio=solve_ratio, dataset=data)
    optimizer = torch.optim.Adam(layer.parameters(), 0.3)
    for _ in range(n_epochs):
        for x, *others in loader:
            optimizer.zero_grad()
            loss_of(layer(x)[..., 0], *others).backward()
            optimizer.step()
    return lambda X: layer(torch.as_tensor(np.array(X), dtype=torch.float32))[..., 0].detach().numpy().astype(float)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20, help="of PyEPO")
    options, rng = parser.parse_args(), np.random.default_rng(0)
    sizes = rng.integers(2, 7, size=N_THINGS)
    knapsack = LinearProgram([sizes], [sizes.sum() // 2])
    X, values, best = draw(knapsack, 100, rng)
    test = draw(knapsack, 200, rng)
    exact = LinearProgram([sizes], [sizes.sum() // 2], train_on_pool=False)
    ways = {
        "LinearProgram, over the pool": lambda: ours(knapsack, X, best),
        "LinearProgram, train_on_pool=False": lambda: ours(exact, X, best),
    }
    if find_spec("pyepo"):
        for ratio in (1.0, 0.1):
            ways[f"PyEPO, SPO+, solve_ratio={ratio}"] = lambda ratio=ratio: by_pyepo(
                knapsack, X, values, options.epochs, ratio
            )
    for name, learn in ways.items():
        learn() if name.endswith("the pool") else None
        begin = perf_counter()
        scores_of = learn()
        seconds = perf_counter() - begin
        lost = regret(knapsack, scores_of(list(test[0])), *test[1:])
        print(f"{name:34} {seconds:8.2f} s, regret {lost:.2%}", flush=True)


if __name__ == "__main__":
    main()
