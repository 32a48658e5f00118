"""What `benchmarks/README.md` says of accuracy and of training beside peers, as bars."""

import matplotlib.pyplot as plt
import tables

OURS, THEIRS, PAPER, INK = "#d55e00", "#8aa5b8", "#c9c9c9", "#222222"
figure, axes = plt.subplots(2, 2, figsize=(11, 7.4), layout="constrained")


def bars(ax, names, values, colors, title, low, form):
    """Draw labelled bars from `low` on."""
    ax.barh(range(len(names)), [value - low for value in values], left=low, color=colors)
    for place, value in enumerate(values):
        ax.text(value, place, f" {value:{form}}", va="center", fontsize=9, color=INK)
    ax.set_yticks(range(len(names)), names, fontsize=9)
    ax.invert_yaxis()
    ax.set_title(title, fontsize=11, loc="left", color=INK)
    ax.margins(x=0.14)
    ax.set_xlim(left=low)
    ax.spines[["top", "right"]].set_visible(False)


chunking = tables.read("Chunking", "model")
names = [row["model"].replace("averaged perceptron", "av. perceptron").split(", its default")[0] for row in chunking]
names = [name + ", 100 epochs" if name.endswith("perceptron") else name for name in names]
names = [name.replace("`", "") for name in names]
colors = [THEIRS if name.startswith("CRFsuite") else OURS for name in names]
values = [tables.number(row["span F1"]) for row in chunking]
bars(axes[0, 0], names, values, colors, "CoNLL-2000 chunking: span F1", 92, ".2f")
values = [tables.number(row["training"]) for row in chunking]
bars(axes[0, 1], names, values, colors, "the same: seconds of training", 0, ".0f")

parsing = tables.read("Parsing", "loss", "UAS test")
names = [row["loss"] for row in parsing]
values = [tables.number(row["UAS test"]) for row in parsing]
bars(axes[1, 0], names, values, OURS, "UD English, linear model: UAS by loss", 84, ".2f")

labels = tables.read("Multilabel", "bibtex (159 labels)")
names, values, colors = [], [], []
for row in labels:
    for who, column, color in (("", "example F1", OURS), (", the paper", "the paper", PAPER)):
        names.append(row["bibtex (159 labels)"] + who)
        values.append(tables.number(row[column]))
        colors.append(color)
bars(axes[1, 1], names, values, colors, "bibtex: example F1 (grey: the paper)", 35, ".2f")
