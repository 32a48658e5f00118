"""
A rationale in runs
===================

A network predicts whether a review likes the food, from at most five words of it. One part of the network scores all
words, a layer selects some of them, and another part decides from these alone. The words that matter are not
labelled.

The layer is SparseMAP over :class:`~sklearn_sparsemap.structures.SequenceBudget`: a score for consecutive selected
words makes them a run, as in SPECTRA (Guerreiro and Martins, EMNLP 2021). It is compared with
:class:`~sklearn_sparsemap.structures.Subset`, the same budget without neighbours.

The example needs PyTorch (``pip install ".[torch]"``).
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from sklearn_sparsemap.structures import SequenceBudget, Subset
from sklearn_sparsemap.torch import sparsemap

# %%
# Reviews
# -------
# Four clauses in any order, each with its own opinion. Only that about the food counts.
# The same adjectives stand in all clauses, so that no word is enough by itself.

TOPICS = ["food", "room", "staff", "price"]
VERBS = ["was", "seemed", "turned out"]
GOOD, BAD = ["great", "lovely", "excellent"], ["poor", "terrible", "awful"]
BUDGET = 5
rng = np.random.default_rng(0)


def clause(topic, is_good):
    adjective = rng.choice(GOOD if is_good else BAD)
    return f"the {topic} {rng.choice(VERBS)} really {adjective}".split()


def draw(n_reviews):
    """Draw reviews, whether each likes the food, and which words say so."""
    reviews, answers, truth = [], [], []
    for _ in range(n_reviews):
        likes = dict(zip(TOPICS, rng.random(len(TOPICS)) < 0.5))
        parts = [(t, clause(t, likes[t])) for t in rng.permutation(TOPICS)]
        reviews.append([word for _, words in parts for word in words])
        answers.append(float(likes["food"]))
        truth.append([topic == "food" for topic, words in parts for _ in words])
    return reviews, torch.tensor(answers), truth


def as_numbers(reviews):
    """Return padded numbers of the words, and the lengths."""
    rows = [torch.tensor([NUMBER[word] for word in words]) for words in reviews]
    lengths = torch.tensor([len(row) for row in rows])
    return nn.utils.rnn.pad_sequence(rows, batch_first=True), lengths


everything = " ".join(["the really", *TOPICS, *VERBS, *GOOD, *BAD]).split()
NUMBER = {word: i for i, word in enumerate(sorted(set(everything)), 1)}

# %%
# The network
# -----------
# With two states, skip and read, the scores of words are those of "read".


class Reader(nn.Module):
    """Selects at most `BUDGET` words, and judges from these."""

    def __init__(self, in_runs, size=24):
        super().__init__()
        self.in_runs = in_runs
        self.embed = nn.Embedding(len(NUMBER) + 1, size)
        self.context = nn.Conv1d(size, size, 5, padding=2)
        self.score = nn.Linear(size, 1)
        nn.init.constant_(self.score.bias, 1.0)
        self.look = nn.Conv1d(size, size, 5, padding=2)
        self.judge = nn.Linear(size, 1)

    def select(self, words, lengths, temperature):
        context = torch.relu(self.context(words.transpose(1, 2))).transpose(1, 2)
        scores = self.score(context)[..., 0]
        if not self.in_runs:
            return sparsemap(Subset(max_size=BUDGET), scores, lengths, temperature)
        states = torch.stack([torch.zeros_like(scores), scores], dim=-1)
        budget, runs = SequenceBudget(BUDGET), torch.eye(2)
        found = sparsemap(budget, states, lengths, temperature, transitions=runs)
        return found[..., 1]

    def forward(self, numbers, lengths, temperature=1.0):
        words = self.embed(numbers)
        weights = self.select(words, lengths, temperature)
        read = self.look((weights[..., None] * words).transpose(1, 2))
        return self.judge(torch.relu(read).amax(2))[:, 0], weights


def train(reader, n_steps=300):
    optimizer = torch.optim.Adam(reader.parameters(), 1e-2)
    for _ in range(n_steps):
        reviews, answers, _ = draw(32)
        scores, _ = reader(*as_numbers(reviews))
        loss = nn.functional.binary_cross_entropy_with_logits(scores, answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# %%
# The selected words
# ------------------
# At a temperature near zero one set of words is left. Compared with the clause about
# the food: F1 of the words, and the number of runs.

torch.manual_seed(0)
torch.set_num_threads(1)
reviews, answers, truth = draw(300)
shown = {}
for name, in_runs in (("SequenceBudget", True), ("Subset", False)):
    reader = Reader(in_runs)
    train(reader)
    with torch.no_grad():
        scores, weights = reader(*as_numbers(reviews), temperature=1e-4)
        shown[name] = reader(*as_numbers(reviews[:3]))[1]
    right = ((scores > 0) == (answers > 0)).double().mean()
    f1, runs = [], []
    for own, is_food in zip(weights.numpy(), truth):
        chosen = own[: len(is_food)] > 0.5
        both = (chosen & is_food).sum()
        f1.append(2 * both / (chosen.sum() + sum(is_food)))
        runs.append((np.diff(chosen.astype(int), prepend=0) == 1).sum())
    print(
        f"{name}: {right:.1%} of the answers right, F1 of the words "
        f"{np.mean(f1):.2f}, {np.mean(runs):.1f} runs"
    )

# %%
# The picture
# -----------
# The weights of the words of three reviews, as in training: the darker, the more of a
# word is read. The clause about the food is underlined.

INK = "#222222"
figure, axes = plt.subplots(2, 1, figsize=(11, 4.4), layout="constrained")
for ax, (name, weights) in zip(axes, shown.items()):
    for row, (words, is_food) in enumerate(zip(reviews, truth[:3])):
        for place, word in enumerate(words):
            weight = float(weights[row, place])
            box = {"facecolor": plt.cm.Blues(0.6 * weight), "edgecolor": "none"}
            ax.text(
                place, row, word, ha="center", va="center", color=INK, fontsize=8.5,
                bbox={"boxstyle": "round,pad=0.2", **box},
            )  # fmt: skip
            if is_food[place]:
                ax.plot([place - 0.45, place + 0.45], [row + 0.38] * 2, color="#d55e00")
    ax.set(xlim=(-0.7, max(map(len, reviews[:3])) - 0.3), ylim=(2.6, -0.6))
    ax.set_title(name, color=INK)
    ax.axis("off")

plt.show()
