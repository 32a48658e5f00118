"""Slow, obvious twins of the online learner with groups: dense weights, every step written out."""

import numpy as np
from internals import GroupOptimizer, Inference, StructureTask, loss_form, make_rows, new_memory
from scipy import sparse

from sklearn_sparsemap import RaggedArray
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Simplex


class DenseLearner:
    """Proximal gradient, or MIRA, on dense weights; groups are shrunk one after another, as listed.

    Parameters
    ----------
    structure : Structure
    loss : str
    n_features, n_outputs : int
    groups : list of (features, weight)
    """

    def __init__(
        self, structure, loss, n_features, n_outputs, groups, *, eta0, period, shrink_every, budget, alpha,
        budget_weights=None,
    ):  # fmt: skip
        self.loss = FenchelYoungLoss(structure, loss)
        self.groups, self.eta0, self.period = groups, eta0, period
        self.shrink_every, self.budget, self.alpha = shrink_every, budget, alpha
        self.coef, self.intercept = np.zeros((n_features, n_outputs)), np.zeros(n_outputs)
        self.additional = {name: np.zeros(s) for name, s in structure.learned_shapes(n_outputs).items()}
        self.sums = np.zeros_like(self.coef)
        self.step, self.since = 0, 0
        # Which weights were ever moved since their group died, and the most that a group has had of them.
        self.budget_weights, self.exists = budget_weights, np.zeros(self.coef.shape, bool)
        self.most = np.zeros(len(groups), int)

    def gradient(self, X, gold):
        scores = X @ self.score_coef() + self.intercept
        structure = self.loss.structure
        if structure.score_ndim == 1:
            scores = scores[0]
        elif not structure.labelled:
            # The arcs of a tree, head by head.
            n = int(np.sqrt(len(X)))
            scores = scores.reshape(n + 1, n)
        loss, gradient = self.loss.loss_gradient(scores, gold, **self.additional)
        residual = gradient.pop("scores").reshape(len(X), -1)
        self.exists |= (X != 0).T.astype(int) @ (abs(residual) > 1e-12).astype(int) > 0
        return loss, X.T @ residual, residual.sum(axis=0), gradient

    def score_coef(self):
        """The weights with which scores are computed, and which are averaged."""
        return self.coef

    def eta(self):
        return self.eta0 / np.sqrt(np.ceil(self.step / self.period))

    def visit(self, X, gold, mira=None):
        self.step += 1
        self.since += 1
        loss, coef, intercept, additional = self.gradient(X, gold)
        length = self.eta()
        if mira is not None:
            squares = (coef**2).sum() + (intercept**2).sum() + sum((g**2).sum() for g in additional.values())
            length = min(mira, loss / squares) if squares > 1e-12 else 0.0
        self.coef -= length * coef
        self.intercept -= length * intercept
        for name, g in additional.items():
            self.additional[name] -= length * g
        shrinks = self.budget is not None or self.budget_weights is not None or self.alpha
        if self.since == self.shrink_every and shrinks:
            self.shrink()
        self.sums += self.score_coef()

    def shrink(self):
        rate, self.since = self.eta() * self.since, 0
        strength = self.alpha * rate
        if self.budget is not None:
            norms = np.array([np.linalg.norm(self.coef[f]) for f, _ in self.groups])
            weights = np.array([d for _, d in self.groups])
            ratios = np.sort(norms / weights)[::-1]
            alive = (ratios > 0).sum()
            strength = 0.5 * (ratios[self.budget - 1] + ratios[self.budget]) if alive > self.budget else 0.0
        if self.budget_weights is not None:
            counts = [self.exists[f].sum() for f, _ in self.groups]
            self.most = np.maximum(self.most, counts)
            norms = [np.linalg.norm(self.coef[f]) for f, _ in self.groups]
            strength, kept = greedy_knapsack(norms, [d for _, d in self.groups], self.most, self.budget_weights)
            for g, (features, _) in enumerate(self.groups):
                if g not in kept:
                    self.coef[features] = 0.0
        for features, weight in self.groups:
            norm = np.linalg.norm(self.coef[features])
            if norm > 0:
                self.coef[features] *= max(0.0, 1.0 - strength * weight / norm)
            if not self.coef[features].any():
                self.exists[features] = False


class DualAverager(DenseLearner):
    """The same with shrinkages that are deferred: weights only accumulate gradients, and scores are shrunk."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.factors = np.ones((len(self.coef), 1))

    def score_coef(self):
        return self.coef * self.factors

    def shrink(self):
        coef, exists = self.coef.copy(), self.exists.copy()
        super().shrink()
        norms, shrunk = np.linalg.norm(coef, axis=1), np.linalg.norm(self.coef, axis=1)
        self.factors = np.where(norms > 0, shrunk / np.where(norms > 0, norms, 1.0), 1.0)[:, None]
        self.coef, self.exists = coef, exists

    def selection(self):
        """The groups that the budget selects by the norms of the averages."""
        average = self.sums / self.step
        norms = [np.linalg.norm(average[f]) for f, _ in self.groups]
        if self.budget_weights is not None:
            sizes = np.maximum(self.most, [self.exists[f].sum() for f, _ in self.groups])
            return sorted(greedy_knapsack(norms, [d for _, d in self.groups], sizes, self.budget_weights)[1])
        ratios = [norm / d if norm > 0 else 0.0 for norm, (_, d) in zip(norms, self.groups, strict=True)]
        order = np.argsort(-np.array(ratios), kind="stable")[: self.budget]
        return sorted(g for g in order.tolist() if norms[g] > 0)


def greedy_knapsack(norms, weights, sizes, budget):
    """The groups that the rule of `budget_weights` keeps, and the strength with which they are shrunk."""
    alive = [g for g in range(len(norms)) if norms[g] > 0]
    ratio = {g: norms[g] / weights[g] if weights[g] > 0 else np.inf for g in alive}
    if sum(sizes[g] for g in alive) <= budget:
        return 0.0, alive
    kept = []
    for g in sorted(alive, key=lambda g: (-ratio[g], g)):
        if sum(sizes[k] for k in kept) + sizes[g] <= budget:
            kept.append(g)
    lowest = min((ratio[g] for g in kept), default=np.inf)
    weaker = max((ratio[g] for g in alive if ratio[g] < lowest), default=None)
    if weaker is None:
        return 0.0, kept
    return (0.5 * (lowest + weaker) if lowest < np.inf else weaker), kept


def random_problem(structure, rng, n=40, n_features=12, n_labels=4):
    """Draw sparse features and gold structures; return RaggedArray, codes and number of outputs."""
    samples, gold = [], []
    for _ in range(n):
        length = 1 if isinstance(structure, Simplex) else int(rng.integers(2, 5))
        n_rows = length * (length + 1) if isinstance(structure, DependencyTree) else length
        x = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.4)
        samples.append(x)
        if isinstance(structure, Simplex):
            gold.append(int(rng.integers(n_labels)))
        elif isinstance(structure, LinearChain):
            gold.append(rng.integers(n_labels, size=length))
        else:
            gold.append(np.arange(length))
    return samples, gold, 1 if isinstance(structure, DependencyTree) else n_labels


def optimizer_of(structure, X, n_outputs, groups, weights, *, mira=False, average=True, **settings):
    n_additional = sum(int(np.prod(s)) for s in structure.learned_shapes(n_outputs).values())
    optimizer = GroupOptimizer(groups, weights, n_outputs, n_additional, average=average, mira=mira)
    settings = {"C": np.inf, "budget": None, "alpha": 0.0, "fit_intercept": True, **settings}
    settings["C"] = min(settings["C"], 1e300)
    optimizer.configure(**settings)
    return optimizer


def run(optimizer, structure, loss, samples, gold, n_outputs, order, memory_size=0):
    X = RaggedArray(sparse.csr_array(np.vstack(samples)), np.cumsum([0, *map(len, samples)]))
    codes = np.array(gold) if isinstance(structure, Simplex) else gold
    targets = StructureTask(structure, X, n_outputs).learn(codes, np.ones(len(samples)), "sparsemap").targets
    inference, form = Inference(structure, loss), loss_form(structure, loss, 1.0, None, n_outputs)
    return optimizer.epoch(inference, form, make_rows(X.values), targets, order, new_memory(targets.sizes, 0))
