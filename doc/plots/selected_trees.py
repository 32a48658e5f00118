"""Figure 4 of the SparseMAP paper: mean number of selected trees by epoch, from `doc/notes/parsing.md`."""

import re

import matplotlib.pyplot as plt
import tables

STYLES = [("#d55e00", "-"), ("#d55e00", "--"), ("#8c8c8c", "-"), ("#8c8c8c", "--"), ("#0072b2", "-"), ("#0072b2", "--")]
figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained", sharex=True)
for ax, language, which in zip(axes, ("English", "Chinese"), (0, 1)):
    for (color, style), row in zip(STYLES, tables.read("parsing", "loss", "1", "5", place=which)):
        counts = [float(re.search(r"\((.*)\)", row[str(epoch)]).group(1)) for epoch in range(1, 6)]
        ax.plot(range(1, 6), counts, style, marker="o", ms=4, color=color, label=row["loss"])
    ax.set(xlabel="epoch", xticks=range(1, 6), ylim=(0, None))
    ax.set_title(f"UD {language}", fontsize=11, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e5e5e5")
axes[0].set_ylabel("trees that SparseMAP selects")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
