"""
A memory of digits
==================

A Hopfield network stores pictures and completes what it is shown: a query q becomes
the mixture ``X' p(beta X q)`` of the stored pictures X, again and again. With softmax
for p this is attention, and no picture has a weight of zero. With SparseMAP it
retrieves whole structures exactly (Santos, Niculae, McNamee and Martins, "Sparse and
Structured Hopfield Networks", ICML 2024): one picture, a set of k pictures
(:class:`~sklearn_sparsemap.structures.Subset`), or a run of neighbours among pictures
in order (:class:`~sklearn_sparsemap.structures.SequenceBudget`).

The example needs PyTorch (``pip install ".[torch]"``).
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from sklearn_sparsemap.structures import SequenceBudget, Simplex, Subset
from sklearn_sparsemap.torch import sparsemap

torch.set_num_threads(1)
pixels, labels = load_digits(return_X_y=True)
# Principal components of equal variance tell single pictures apart; pixels, digits.
whitened = torch.tensor(PCA(40, whiten=True, random_state=0).fit_transform(pixels))
whitened /= whitened.norm(dim=1, keepdim=True)
digits = torch.tensor(pixels - pixels.mean(axis=0))
digits /= digits.norm(dim=1, keepdim=True)
rng = np.random.default_rng(0)


def retrieve(memory, query, probabilities, beta, n_steps=10):
    """Update queries; return the last weights of the stored pictures.

    Parameters
    ----------
    memory : tensor of shape (n_queries, n_stored, n_features)
    query : tensor of shape (n_queries, n_features)
    probabilities : callable
        From scores (n_queries, n_stored) to weights of the same shape.
    beta : float
        Scale of the scores; the larger, the fewer pictures mix.
    """
    for _ in range(n_steps):
        weights = probabilities(beta * torch.einsum("qsp,qp->qs", memory, query))
        query = torch.einsum("qs,qsp->qp", weights, memory)
        query = query / query.norm(dim=1, keepdim=True)
    return weights


# %%
# Three pictures from one
# -----------------------
# Each memory is a bag of 20 digits. The query is the mean of three of them, with noise.
# Sets of three are retrieved exactly if no other picture has any weight.

N_QUERIES, N_STORED, K = 200, 20, 3
drawn = [rng.choice(len(digits), N_STORED, replace=False) for _ in range(N_QUERIES)]
drawn = torch.tensor(np.array(drawn))
bags = whitened[drawn]
noise = torch.tensor(rng.normal(size=(N_QUERIES, bags.shape[2])))
queries = bags[:, :K].mean(dim=1) + 0.03 * noise
ways = {
    "softmax": lambda scores: scores.softmax(dim=1),
    "one picture": lambda scores: sparsemap(Simplex(), scores),
    f"sets of {K}": lambda scores: sparsemap(Subset(K, K), scores),
}
in_bags = {}
print(f"\n{K} of {N_STORED} pictures")
for name, way in ways.items():
    weights = in_bags[name] = retrieve(bags, queries, way, beta=20.0)
    whole = weights / weights.sum(dim=1, keepdim=True)
    right = (whole[:, :K] > 0.5 / K).all(1) & (whole[:, K:] == 0.0).all(1)
    n_used = (weights > 1e-6).sum(1).double().mean()
    print(f"{name:12} {right.double().mean():6.1%} exact, {n_used:.1f} pictures mix")

# %%
# A run among pictures in order
# -----------------------------
# Now pictures have an order, like the frames of a film. A scene is four pictures of one
# digit side by side; four others of the same digit are strewn about. The query is one
# more picture of this digit. A set of four takes the most similar ones. A sequence with
# a budget of four, and a score for neighbours that are both retrieved, takes the scene.

N_FRAMES, LENGTH = 24, 4
films, scenes, cues = [], [], []
of_digit = [np.flatnonzero(labels == digit) for digit in range(10)]
for _ in range(N_QUERIES):
    digit, start = rng.integers(10), rng.integers(N_FRAMES - LENGTH + 1)
    scene = np.arange(start, start + LENGTH)
    film = rng.choice(np.flatnonzero(labels != digit), N_FRAMES, replace=False)
    same = rng.choice(of_digit[digit], 2 * LENGTH + 1, replace=False)
    film[scene] = same[:LENGTH]
    far = np.setdiff1d(np.arange(N_FRAMES), np.arange(start - 1, start + LENGTH + 1))
    film[rng.choice(far, LENGTH, replace=False)] = same[LENGTH:-1]
    films.append(film)
    scenes.append(scene)
    cues.append(same[-1])
frames = torch.tensor(np.array(films))
films, cues = digits[frames], digits[torch.tensor(cues)]
scenes = torch.tensor(np.array(scenes))


def in_runs(scores):
    states = torch.stack([torch.zeros_like(scores), scores], dim=-1)
    stay = 2.0 * torch.eye(2, dtype=scores.dtype)
    budget = SequenceBudget(LENGTH, exactly=True)
    return sparsemap(budget, states, transitions=stay)[..., 1]


ways = {
    "softmax": lambda scores: scores.softmax(dim=1),
    f"sets of {LENGTH}": lambda scores: sparsemap(Subset(LENGTH, LENGTH), scores),
    f"runs, budget {LENGTH}": in_runs,
}
in_films = {}
print(f"\na scene of {LENGTH} among {N_FRAMES} frames")
for name, way in ways.items():
    weights = in_films[name] = retrieve(films, cues, way, beta=4.0)
    share = weights.gather(1, scenes).sum(1) / weights.sum(1)
    print(f"{name:14} {share.mean():6.1%} of the weight is on the scene")

# %%
# The picture
# -----------
# The first bag and the first film; what is retrieved is framed, by its weight.

INK = "#222222"


def draw_memory(ax, stored, weights, title):
    ax.imshow(np.hstack(pixels[stored].reshape(-1, 8, 8)), cmap="gray_r")
    for place, weight in enumerate(weights.tolist()):
        if weight > 1e-3:
            corner = 8 * place - 0.4, -0.4
            alpha = 0.15 + 0.85 * min(weight, 1.0)
            style = {"fill": False, "lw": 2.5, "ec": "#d55e00", "alpha": alpha}
            ax.add_patch(plt.Rectangle(corner, 7.8, 7.8, **style))
    ax.set_title(title, color=INK, fontsize=10, loc="left")
    ax.axis("off")


figure, axes = plt.subplots(6, 1, figsize=(11, 5.8), layout="constrained")
for ax, (name, weights) in zip(axes, in_bags.items()):
    draw_memory(ax, drawn[0], weights[0], f"a mean of the first three: {name}")
for ax, (name, weights) in zip(axes[3:], in_films.items()):
    draw_memory(ax, frames[0], weights[0], f"a scene of four of a digit: {name}")

plt.show()
