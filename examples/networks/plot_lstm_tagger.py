"""
A tagger: an LSTM with a chain on top
=====================================

A network that tags words one by one ignores the neighbouring tags. Here the tags of a sentence are decided jointly:
an LSTM computes their scores, a learned table has the scores of consecutive tags, and the SparseMAP loss over the
chain trains both. The marginals of the layer show how certain each tag is; many are exactly zero or one. For
prediction the network is compiled by ``torch.compile``, including the layer.

The example needs PyTorch (``pip install ".[torch]"``).
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from sklearn_sparsemap.structures import LinearChain
from sklearn_sparsemap.torch import FenchelYoungLoss, SparseMAP

# %%
# Sentences
# ---------
# Names of persons (P) and of places (L) of one to three words, between words that are neither (O). Each word is drawn
# from a range that depends on its tag, and the ranges overlap: the first word of a name says more than the others.

TAGS = ["O", "B-P", "I-P", "B-L", "I-L"]
# The words that each tag draws from: a range of 40.
RANGES = {
    "O": (0, 24),
    "B-P": (22, 30),
    "I-P": (26, 40),
    "B-L": (20, 28),
    "I-L": (26, 40),
}
rng = np.random.default_rng(0)


def draw(length=14):
    """Draw the words of a sentence and their tags."""
    tags = []
    while len(tags) < length:
        name = rng.choice(["", "", "P", "L"])
        tags += (
            [f"B-{name}"] + [f"I-{name}"] * rng.integers(0, 3)
            if name
            else ["O"] * rng.integers(1, 4)
        )
    tags = tags[: rng.integers(6, length + 1)]
    return torch.tensor([rng.integers(*RANGES[tag]) for tag in tags]), torch.tensor(
        [TAGS.index(tag) for tag in tags]
    )


def pad(samples):
    """Return words, tags and lengths of sentences as a padded batch."""
    words, tags = zip(*samples)
    padded = (
        torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        for rows in (words, tags)
    )
    return *padded, torch.tensor([len(own) for own in words])


train, test = [draw() for _ in range(400)], [draw() for _ in range(200)]

# %%
# The tagger
# ----------
# Its forward pass gives scores and the marginals of the chain. ``backend="eager"`` needs no C++ compiler; leave it out
# where there is one, and what surrounds the layer becomes faster, too.


class Tagger(torch.nn.Module):
    """Words to scores of tags, and to marginals."""

    def __init__(self, size=32):
        super().__init__()
        self.embed = torch.nn.Embedding(40, size)
        self.read = torch.nn.LSTM(size, size, batch_first=True)
        self.score = torch.nn.Linear(size, len(TAGS))
        self.transitions = torch.nn.Parameter(torch.zeros(len(TAGS), len(TAGS)))
        self.chain = SparseMAP(LinearChain())

    def forward(self, words, lengths):
        scores = self.score(self.read(self.embed(words))[0])
        return scores, self.chain(scores, lengths, transitions=self.transitions)


torch.manual_seed(0)
torch.set_num_threads(1)
tagger = Tagger()
compiled = torch.compile(tagger, backend="eager", dynamic=True)
chain_loss = FenchelYoungLoss(LinearChain())
optimizer = torch.optim.Adam(tagger.parameters(), 5e-3)
for epoch in range(8):
    total = 0.0
    for places in np.array_split(rng.permutation(len(train)), 25):
        words, tags, lengths = pad([train[i] for i in places])
        scores = tagger.score(tagger.read(tagger.embed(words))[0])
        loss = chain_loss(scores, tags, lengths, transitions=tagger.transitions)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(places) / len(train)
    print(f"epoch {epoch + 1}: loss {total:.3f}", flush=True)

# %%
# Confident predictions
# ---------------------
# A tag by its score alone, and by the marginals of the chain, which know that an I- follows a name of its own kind.

words, tags, lengths = pad(test)
with torch.no_grad():
    scores, marginals = compiled(words, lengths)
    eager = tagger(words, lengths)[1]
inside = torch.arange(words.shape[1]) < lengths[:, None]
alone = (scores.argmax(2) == tags)[inside].double().mean()
together = (marginals.argmax(2) == tags)[inside].double().mean()
sure = (marginals.max(2).values > 1 - 1e-6)[inside]
right = (marginals.argmax(2) == tags)[inside]
print(f"\nright tags: {alone:.1%} by their scores alone, {together:.1%} by the chain")
print(
    f"sure of {sure.double().mean():.1%} of the tags, "
    f"of which {right[sure].double().mean():.1%} are correct; "
    f"of the others {right[~sure].double().mean():.1%}"
)
print(f"compiled and eager differ by {float((marginals - eager).abs().max()):.1e}")

# %%
# The picture
# -----------
# Marginals of one sentence, and the table that was learned: an I- follows its own kind.

INK = "#222222"
doubts = (torch.count_nonzero(marginals, 2) > 1).sum(1)
shown = int(doubts.argmax())
n = int(lengths[shown])
truth = tags[shown, :n].numpy()
figure, (left, right_axes) = plt.subplots(
    1, 2, figsize=(13, 3.6), width_ratios=(2.6, 1), layout="constrained"
)
table = marginals[shown, :n].T.numpy()
left.imshow(
    np.ma.masked_equal(table, 0.0), cmap="Blues", vmin=-0.1, vmax=1.9, aspect="auto"
)
for (tag, step), probability in np.ndenumerate(table):
    if probability > 0:
        left.text(
            step,
            tag,
            f"{probability:.2f}",
            ha="center",
            va="center",
            fontsize=9,
            color=INK,
        )
frame = {"marker": "s", "facecolors": "none", "edgecolors": "#d55e00"}
left.scatter(range(n), truth, s=900, **frame)
left.set_xticks(range(n), [f"w{word}" for word in words[shown, :n].tolist()])
left.set_yticks(range(len(TAGS)), TAGS)
left.set_title("marginals of a sentence; true tags are framed", color=INK)
weights = tagger.transitions.detach().numpy()
most = np.abs(weights).max()
right_axes.imshow(weights, cmap="RdBu", vmin=-most, vmax=most)
right_axes.set_xticks(range(len(TAGS)), TAGS)
right_axes.set_yticks(range(len(TAGS)), TAGS)
right_axes.set(xlabel="next tag", ylabel="tag")
right_axes.set_title("learned transitions: blue is likely", color=INK)
for ax in (left, right_axes):
    ax.tick_params(length=0, colors=INK)
    ax.spines[:].set_visible(False)

plt.show()
