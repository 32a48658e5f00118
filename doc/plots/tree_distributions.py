"""Figure 4 of the SparseMAP paper: distributions of trees and of heads by epoch, from `doc/notes/parsing.md`."""

import matplotlib.pyplot as plt
import tables

NAMES = {"selected trees": "selected trees", "heads of a word": "heads of a word, mean of a sentence"}
figure, axes = plt.subplots(2, 2, figsize=(11, 5), layout="constrained", sharex=True, sharey="row")
for pair, (column, name) in zip(axes, NAMES.items()):
    for ax, row in zip(pair, tables.read("parsing", column, "23")):
        epochs = [int(key) for key in row if key.isdigit()]
        low, quarter, half, most, high = zip(*(map(float, row[str(epoch)].split()) for epoch in epochs))
        ax.fill_between(epochs, low, high, color="#0072b2", alpha=0.15, lw=0, label="5 % to 95 %")
        ax.fill_between(epochs, quarter, most, color="#0072b2", alpha=0.35, lw=0, label="25 % to 75 %")
        ax.plot(epochs, half, color="#0072b2", marker="o", ms=4, label="median")
        ax.set_ylim(bottom=0)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="#e5e5e5")
        if column == "selected trees":
            ax.set_title(f"UD Chinese, {row[column]} sentences", fontsize=11, loc="left")
    pair[0].set_ylabel(name)
for ax in axes[1]:
    ax.set(xlabel="epoch", xticks=[1, 5, 10, 15, 20])
figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False)
