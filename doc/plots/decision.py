"""The decision picture: from the form of the target to the estimator."""

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

INK, ASK, ANSWER = "#222222", "#e8eef7", "#fbe6d6"
figure, ax = plt.subplots(figsize=(11, 4.7), layout="constrained")
ax.set(xlim=(0, 110), ylim=(-2, 47))
ax.axis("off")


def box(x, y, text, color, width=25, height=7.4):
    """Draw a box with its text."""
    patch = FancyBboxPatch((x, y), width, height, "round,pad=0.3", fc=color, ec="#888888", lw=0.8)
    ax.add_patch(patch)
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=10, color=INK)


def arrow(start, end, text="", shift=(0, 0)):
    """Draw an arrow with what it stands for."""
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.1, "shrinkA": 0, "shrinkB": 0})
    x, y = (start[0] + end[0]) / 2 + shift[0], (start[1] + end[1]) / 2 + shift[1]
    ax.text(x, y, text, fontsize=9.5, color=INK, ha="center", va="center", bbox={"fc": "white", "ec": "none", "pad": 1})


box(1, 37, "Are there targets\nto learn from?", ASK)
box(1, 2, "sparsemap, lp_sparsemap,\nmap_inference", ANSWER)
arrow((13.5, 36.5), (13.5, 10), "no: scores\nare given")
box(42, 37, "Is the model a network?", ASK)
arrow((26.5, 40.7), (41.5, 40.7), "yes")
box(83, 37, "layers and losses of\n.torch and .jax", ANSWER)
arrow((67.5, 40.7), (82.5, 40.7), "yes")
box(42, 21, "Is the target\na set of labels?", ASK)
arrow((54.5, 36.5), (54.5, 29), "no")
box(83, 21, "MultilabelLPSparseMAP", ANSWER)
arrow((67.5, 24.7), (82.5, 24.7), "yes")
box(42, 2, "Are few groups of\nfeatures wanted?", ASK)
arrow((54.5, 20.5), (54.5, 10), "no: a label, sequence,\ntree, matching, ...")
box(83, 8.6, "GroupLassoPerceptron", ANSWER, height=6.4)
box(83, -1, "StructuredSparseMAPClassifier", ANSWER, height=6.4)
arrow((67.5, 7), (82.5, 11.6), "yes", (0, 0.4))
arrow((67.5, 4.4), (82.5, 2.4), "no", (0, -0.2))
