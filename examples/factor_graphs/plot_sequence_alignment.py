"""
Alignment that keeps the order
==============================

Two sentences with the same content are aligned word by word, mostly from left to right. A *chain* over the words of
the first sentence, whose states are the words of the second, models the order, but may use a word twice. A *matching*
uses each word at most once, but ignores the order. A factor graph combines both: the chain, and `AtMostOne` on each
column. Finding the best such alignment is NP-hard; its relaxation is not. The LP-SparseMAP paper uses this
"LP-sequence" as attention between two sentences (Figure 4).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from sklearn_sparsemap import lp_sparsemap
from sklearn_sparsemap.factors import AtMostOne, FactorGraph, StructureFactor, Xor
from sklearn_sparsemap.structures import LinearChain

# %%
# How similar two words are, and which steps are likely
# -----------------------------------------------------
# Similarity is that of the spelling and of the part of speech. From one word to the next, the partner is most likely to
# move on by one word, and least likely to move backwards.

first = (
    "a/DET very/ADV very/ADV old/ADJ man/NOUN watched/VERB the/DET birds/NOUN "
    "in/ADP the/DET park/NOUN"
)
second = (
    "in/ADP the/DET park/NOUN an/DET old/ADJ and/CONJ very/ADV tired/ADJ man/NOUN "
    "was/AUX watching/VERB"
)
rows, row_tags = zip(*(token.split("/") for token in first.split()))
columns, column_tags = zip(
    *(token.split("/") for token in f"{second} the/DET bird/NOUN".split())
)
n_rows, n_cols = len(rows), len(columns)

spelling = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 3)).fit(rows + columns)
likeness = (spelling.transform(rows) @ spelling.transform(columns).T).toarray()
scores = 1.5 * likeness + 0.7 * np.equal.outer(row_tags, column_tags)
step = np.subtract.outer(np.arange(n_cols), np.arange(n_cols)).T
transitions = np.where(
    step == 1, 0.9, np.where(step > 1, 0.3, np.where(step == 0, 0.0, -0.3))
)

# %%
# Three graphs
# ------------
# Each is a few lines; the last one has all the factors of the first, and the columns of the second.

chain, matching, sequence = FactorGraph(), FactorGraph(), FactorGraph()
for graph in (chain, matching, sequence):
    u = graph.variables((n_rows, n_cols), name="pairs")
    if graph is matching:
        graph.add(*[Xor(row) for row in u])
    else:
        graph.add(StructureFactor(LinearChain(), u, name="order"))
    if graph is not chain:
        graph.add(*[AtMostOne(column) for column in u.T])

order = {"order": {"transitions": transitions}}
results = {
    "chain: order only": lp_sparsemap(chain, scores, additional=order),
    "matching: each word once": lp_sparsemap(matching, scores),
    "both: LP-sequence": lp_sparsemap(sequence, scores, additional=order),
}
print(f"\n{'':28}{'nonzero pairs':>14}{'most use of one word':>26} {'':8}{'gap':>9}")
for name, result in results.items():
    u = result.marginals
    used = u.sum(axis=0)
    word = f"({columns[used.argmax()]})" if used.max() > 1 + 1e-6 else ""
    print(
        f"{name:28}{(u > 1e-9).sum():>14}{used.max():>26.2f} {word:<8}"
        f"{result.gap:>9.0e}"
    )

# %%
# The picture
# -----------
# Above each table is how much of each word is used. An empty cell is zero.

INK = "#222222"
figure = plt.figure(figsize=(17, 5.4), layout="constrained")
tops, bottoms = figure.subplots(2, 3, height_ratios=(1, 4.6), sharey="row")
for top, ax, (title, result) in zip(tops, bottoms, results.items()):
    u = result.marginals
    ax.imshow(
        np.ma.masked_less(u, 1e-9), cmap="Blues", vmin=-0.1, vmax=1.9, aspect="auto"
    )
    for (i, j), value in np.ndenumerate(u):
        if value >= 0.005:
            ax.text(
                j,
                i,
                f"{value:.2f}".lstrip("0"),
                ha="center",
                va="center_baseline",
                fontsize=9,
                color=INK,
            )
    ax.set_xticks(
        range(n_cols),
        columns,
        color=INK,
        rotation=40,
        ha="right",
        rotation_mode="anchor",
    )
    ax.set_yticks(range(n_rows), rows, color=INK)
    ax.set_xticks(np.arange(n_cols + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(n_rows + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="#dddddd", lw=0.8)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)

    used = u.sum(axis=0)
    top.bar(
        range(n_cols),
        used,
        width=0.7,
        color=np.where(used > 1 + 1e-6, "#d55e00", "#9ecae1"),
    )
    top.axhline(1, color=INK, lw=0.8, ls=(0, (4, 3)))
    top.set(xlim=(-0.5, n_cols - 0.5), ylim=(0, 2.2), xticks=[], yticks=[0, 1, 2])
    top.set_title(title, fontsize=13, color=INK)
    top.spines[["top", "right"]].set_visible(False)
tops[0].set_ylabel("used", color=INK)

plt.show()
