"""
Align two sentences
===================

Attention aligns each word of one sentence with the words of another: by a softmax, which gives every word some
weight, or by a sparsemax, which gives most words none. In both cases several words may choose the same partner.
SparseMAP over matchings decides on all words jointly: each word has at most one partner, and the result is a mixture
of *a few whole alignments*. This is Figure 5 of the SparseMAP paper.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax
from sklearn.feature_extraction.text import TfidfVectorizer

from sklearn_sparsemap import sparsemap
from sklearn_sparsemap.plotting import MatchingDisplay
from sklearn_sparsemap.structures import Matching, Simplex

# %%
# How similar two words are
# -------------------------
# The pieces of their spelling that they share, plus a bonus for the same part of speech and for a similar position.

first = "the/DET dog/NOUN chased/VERB the/DET kitten/NOUN under/ADP the/DET table/NOUN"
second = (
    "a/DET kitten/NOUN fled/VERB the/DET big/ADJ dog/NOUN under/ADP a/DET small/ADJ "
    "table/NOUN"
)
rows, row_tags = zip(*(token.split("/") for token in first.split()))
columns, column_tags = zip(*(token.split("/") for token in second.split()))

spelling = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 3)).fit(rows + columns)
likeness = (spelling.transform(rows) @ spelling.transform(columns).T).toarray()
same_tag = np.equal.outer(row_tags, column_tags)
apart = np.abs(
    np.subtract.outer(np.linspace(0, 1, len(rows)), np.linspace(0, 1, len(columns)))
)
scores = 1.8 * likeness + 1.0 * same_tag - 0.6 * apart

# %%
# Each word by itself, or all at once
# -----------------------------------

by_softmax = softmax(scores, axis=1)
by_sparsemax = np.array(
    [result.marginals for result in sparsemap(Simplex(), list(scores))]
)
result = sparsemap(Matching(), scores)

print(
    f"\n{'':22}{'nonzero pairs':>14}"
    f"{'most weight that one word of the second sentence gets':>56}"
)
for name, weights in (
    ("softmax", by_softmax),
    ("sparsemax", by_sparsemax),
    ("SparseMAP, matchings", result.marginals),
):
    most = weights.sum(axis=0).argmax()
    print(
        f"{name:22}{np.count_nonzero(weights):>14}{weights.sum(axis=0)[most]:>46.2f} "
        f"({columns[most]})"
    )

print(f"\nSparseMAP selects {len(result.weights)} alignments:")
for matching, probability in zip(result.structures, result.weights):
    pairs = ", ".join(
        f"{word}-{columns[column]}" for word, column in zip(rows, matching)
    )
    print(f"  {probability:.2f}  {pairs}")

# %%
# The picture
# -----------
# Above each table is what the words of the second sentence receive in all; an empty cell is exactly zero. On the right
# the frames show which alignments a pair is part of.

INK = "#222222"
figure = plt.figure(figsize=(14, 5.6), layout="constrained")
(tops, bottoms) = figure.subplots(2, 3, height_ratios=(1, 4.4), sharey="row")
attentions = {
    "softmax, word by word": by_softmax,
    "sparsemax, word by word": by_sparsemax,
    "SparseMAP over matchings": result.marginals,
}
for top, ax, (title, weights) in zip(tops, bottoms, attentions.items()):
    if weights is result.marginals:
        MatchingDisplay.from_result(
            result, row_names=rows, col_names=columns, ax=ax
        )
    else:
        ax.imshow(
            np.ma.masked_equal(weights, 0.0),
            cmap="Blues",
            vmin=-0.1,
            vmax=1.9,
            aspect="auto",
        )
        for (i, j), weight in np.ndenumerate(weights):
            if weight > 0:
                ax.text(
                    j,
                    i,
                    f"{weight:.2f}",
                    ha="center",
                    va="center_baseline",
                    fontsize=9,
                    color=INK,
                )
        ax.set_xticks(range(len(columns)), columns, color=INK)
        ax.set_yticks(range(len(rows)), rows, color=INK)
        ax.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
        ax.grid(which="minor", color="#dddddd", lw=0.8)
        ax.xaxis.tick_top()
        ax.spines[:].set_visible(False)
    ax.tick_params(which="both", length=0)

    received = weights.sum(axis=0)
    too_much = received > 1 + 1e-9
    top.bar(
        range(len(columns)),
        received,
        width=0.7,
        color=np.where(too_much, "#d55e00", "#9ecae1"),
    )
    top.axhline(1, color=INK, lw=0.8, ls=(0, (4, 3)))
    top.set(xlim=(-0.5, len(columns) - 0.5), ylim=(0, 3.3), xticks=[])
    top.set_yticks(range(4))
    top.set_title(title, fontsize=13, color=INK)
    top.spines[["top", "right"]].set_visible(False)
tops[0].set_ylabel("received", color=INK)

plt.show()
