"""
A latent tree in a network
==========================

An expression such as ``[MAX 2 9 [MIN 4 7 ] ]`` is a tree, and an operator has as many arguments as branches. The
network predicts this number for each operator, and never sees a tree. It reads the tokens, scores all arcs between
them, and passes on only the marginals of a tree in which no head has more than six modifiers: five arguments and the
closing bracket. To count, it must find trees. This is a small version of the experiment in section 5.1 of the
LP-SparseMAP paper.

The example needs PyTorch (``pip install ".[torch]"``).
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from sklearn_sparsemap.datasets import make_listops
from sklearn_sparsemap.factors import Budget, FactorGraph, StructureFactor
from sklearn_sparsemap.structures import DependencyTree
from sklearn_sparsemap.torch import LPSparseMAP

# %%
# Expressions
# -----------
# Sentences of tokens, the tree of the brackets (only for the picture), and what is to be learned: for each token the
# number of its arguments, which is 0 unless it is an operator. Some are kept for the test.

N_TRAIN = 2500
X, heads, valencies = make_listops(N_TRAIN + 300, max_length=20, random_state=0)
numbers = {
    token: i
    for i, token in enumerate(sorted({token for tokens in X for token in tokens}))
}
print(f"{N_TRAIN} expressions for training, for example: {' '.join(X[3])}")


def as_batch(places):
    """Return tokens, numbers of arguments, and lengths of some expressions, padded."""
    tokens = [torch.tensor([numbers[token] for token in X[i]]) for i in places]
    targets = [torch.from_numpy(valencies[i]) for i in places]
    lengths = torch.tensor([len(own) for own in tokens])
    return *(
        nn.utils.rnn.pad_sequence(rows, batch_first=True) for rows in (tokens, targets)
    ), lengths


# %%
# The network
# -----------
# The layer takes a function that makes the graph for a sentence: a tree, and a budget for each head. Row 0 is the root.


def tree_with_budgets(shape):
    graph = FactorGraph()
    arcs = graph.variables(shape)
    budgets = [Budget(row, 6) for row in arcs[1:]] if shape[1] > 6 else []
    graph.add(StructureFactor(DependencyTree(), arcs), *budgets)
    return graph


class Counter(nn.Module):
    """Reads tokens, makes a tree of them, and counts by the tree alone."""

    def __init__(self, size=32):
        super().__init__()
        self.embed = nn.Embedding(len(numbers), size)
        self.read = nn.LSTM(size, size, batch_first=True, bidirectional=True)
        self.to_arcs = nn.Linear(2 * size, 2 * size)
        self.root = nn.Parameter(torch.zeros(1, 1, size))
        self.tree = LPSparseMAP(tree_with_budgets)

    def arcs(self, tokens, lengths):
        states = self.read(self.embed(tokens))[0]
        as_head, as_modifier = self.to_arcs(states).chunk(2, dim=2)
        as_head = torch.cat([self.root.expand(len(tokens), 1, -1), as_head], dim=1)
        # Scaled as in attention: too large scores leave a single tree at
        # once, from which no gradient leads away.
        scores = as_head @ as_modifier.transpose(1, 2) / as_head.shape[2] ** 0.5
        return self.tree(scores, lengths=lengths)

    def forward(self, tokens, lengths):
        # All modifiers but the closing bracket; the further from that number,
        # the worse.
        n_arguments = self.arcs(tokens, lengths)[:, 1:].sum(dim=2, keepdim=True) - 1
        return -2 * (n_arguments - torch.arange(2, 6)) ** 2


# %%
# Training
# --------
# The loss sees the numbers of arguments only.

torch.manual_seed(0)
torch.set_num_threads(1)
rng = np.random.default_rng(0)
model = Counter()
optimizer = torch.optim.Adam(model.parameters(), 2e-3)
test = range(N_TRAIN, len(X))
shown = max(
    (i for i in test if len(X[i]) <= 14),
    key=lambda i: (np.count_nonzero(valencies[i]), len(X[i])),
)


@torch.no_grad()
def look():
    """Return the fraction of correct numbers in the test set, and the marginals of
    the expression that is shown.
    """
    tokens, targets, lengths = as_batch(test)
    right = (model(tokens, lengths).argmax(dim=2) + 2 == targets)[targets > 0]
    tokens, _, lengths = as_batch([shown])
    return float(right.float().mean()), model.arcs(tokens, lengths)[0].numpy()


before = look()
print(f"before training: {before[0]:.1%} of the operators of the test set are correct")
for epoch in range(12):
    started = perf_counter()
    for places in np.array_split(rng.permutation(N_TRAIN), N_TRAIN // 16):
        tokens, targets, lengths = as_batch(places)
        logits = model(tokens, lengths)[targets > 0]
        loss = nn.functional.cross_entropy(logits, targets[targets > 0] - 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    after = look()
    print(
        f"epoch {epoch + 1}: {after[0]:.1%} right, {perf_counter() - started:.1f} s",
        flush=True,
    )

# %%
# The picture
# -----------
# Each column is a token and adds up to 1 over its heads; an empty cell is exactly zero. On the right of each table is
# how many modifiers a head has in expectation, operators in orange: that is all that the network counts by. Before
# training every tree is as good as any other. Afterwards operators are the heads, and have about as many modifiers as
# they should, though seldom those of their brackets: nobody asked for these.

INK = "#222222"
words = X[shown]
n = len(words)
truth = np.zeros((n + 1, n))
truth[heads[shown], np.arange(n)] = 1.0
tables = {
    f"before training: {before[0]:.0%} right": before[1],
    f"after: {after[0]:.0%} right": after[1],
    "the brackets": truth,
}
figure, axes = plt.subplots(1, 3, figsize=(16, 5.6), sharey=True, layout="constrained")
for ax, (title, arcs) in zip(axes, tables.items()):
    ax.imshow(
        np.ma.masked_equal(arcs, 0.0), cmap="Blues", vmin=-0.1, vmax=1.4, aspect="auto"
    )
    ax.set_xticks(range(n), words, rotation=90)
    ax.set_yticks(range(n + 1), ["root", *words])
    ax.set_title(title, fontsize=13, color=INK)
    for h, modifiers in enumerate(arcs.sum(axis=1)):
        is_operator = h > 0 and valencies[shown][h - 1] > 0
        ax.text(
            n - 0.3,
            h,
            f"{modifiers:.1f}",
            va="center",
            color="#d55e00" if is_operator else "#999999",
        )
    ax.set_xlim(-0.5, n + 0.7)
    ax.tick_params(length=0, colors=INK)
    ax.spines[:].set_visible(False)
axes[0].set_ylabel("head", color=INK)

plt.show()
