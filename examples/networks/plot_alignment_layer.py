"""
A latent alignment
==================

A network learns from pairs of sentences whether one is a translation of the other, without any knowledge of words or
alignments. It aligns the words by a layer, SparseMAP over matchings, and decides by how well aligned words fit. The
layer then shows what the network has learned: a few whole alignments with their weights, as in Figure 5 of the
SparseMAP paper.

The example needs PyTorch (``pip install ".[torch]"``).
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from sklearn_sparsemap.plotting import MatchingDisplay
from sklearn_sparsemap.structures import Matching
from sklearn_sparsemap.torch import SparseMAP

# %%
# Pairs of sentences
# ------------------
# The words of the second sentence stand in any order. In half of the pairs one of them translates none of the first.

TRANSLATIONS = {
    **{"cat": "chat", "dog": "chien", "house": "maison", "tree": "arbre"},
    **{"red": "rouge", "green": "vert", "sees": "voit", "eats": "mange"},
    **{"big": "grand", "small": "petit", "bread": "pain", "water": "eau"},
    **{"never": "jamais"},
}
ENGLISH, FRENCH = list(TRANSLATIONS), list(TRANSLATIONS.values())
N_WORDS = 6
rng = np.random.default_rng(0)


def draw(n_pairs):
    """Draw the numbers of both sentences' words, and whether they say the same."""
    words = np.array(
        [rng.permutation(len(ENGLISH))[: N_WORDS + 1] for _ in range(n_pairs)]
    )
    first, same = words[:, :N_WORDS], rng.random(n_pairs) < 0.5
    second = first.copy()
    second[~same, 0] = words[~same, N_WORDS]
    return (
        torch.tensor(first),
        torch.tensor(rng.permuted(second, axis=1)),
        torch.tensor(same, dtype=torch.float32),
    )


# %%
# The network
# -----------
# A score for each English with each French word; the layer; and the mean score of what is aligned.


class Judge(torch.nn.Module):
    """Says how sure it is that the second sentence translates the first."""

    def __init__(self, size=16):
        super().__init__()
        self.english = torch.nn.Embedding(len(ENGLISH), size)
        self.french = torch.nn.Embedding(len(FRENCH), size)
        self.align = SparseMAP(Matching())
        self.scale = torch.nn.Parameter(torch.tensor([1.0, 0.0]))

    def scores(self, first, second):
        return (
            self.english(first)
            @ self.french(second).transpose(1, 2)
            / self.english.embedding_dim**0.5
        )

    def forward(self, first, second):
        scores = self.scores(first, second)
        fit = (self.align(scores) * scores).sum(dim=(1, 2)) / N_WORDS
        return self.scale[0] * fit + self.scale[1]


torch.manual_seed(0)
torch.set_num_threads(1)
judge = Judge()
optimizer = torch.optim.Adam(judge.parameters(), 1e-2)
test = draw(500)
example = draw(1)


@torch.no_grad()
def look():
    """Return the fraction of correct answers, and the alignments of the example."""
    right = ((judge(*test[:2]) > 0) == (test[2] > 0)).float().mean()
    found = judge.align(judge.scores(*example[:2]), return_structures=True)
    return float(right), found


before = look()
print(f"before training: {before[0]:.1%} of the answers are correct")
for step in range(1, 1601):
    first, second, same = draw(32)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        judge(first, second), same
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 400 == 0:
        print(f"step {step}: {look()[0]:.1%} right", flush=True)
after = look()

# %%
# The selected alignments
# -----------------------
# Before training there are several, and no reason for any of them.

rows, columns = [ENGLISH[i] for i in example[0][0]], [FRENCH[j] for j in example[1][0]]
figure, axes = plt.subplots(1, 2, figsize=(12.5, 5.6), layout="constrained")
for ax, name, (share, found) in zip(axes, ("before", "after"), (before, after)):
    weights = found.weights[0].numpy()
    print(f"\n{name} training, alignments: {len(weights)}, of which the first:")
    selected = sorted(zip(found.structures[0], weights), key=lambda pair: -pair[1])
    for matching, weight in selected[:3]:
        print(
            f"  {weight:.2f}  "
            + ", ".join(f"{row}-{columns[j]}" for row, j in zip(rows, matching))
        )
    MatchingDisplay.from_predictions(
        selected,
        marginals=found.marginals[0].numpy(),
        row_names=rows,
        col_names=columns,
        ax=ax,
        max_structures=3,
    )
    ax.set_title(
        f"{name} training: {share:.0%} of the answers correct, alignments: "
        f"{len(weights)}",
        fontsize=12,
    )

plt.show()
