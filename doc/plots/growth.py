"""How the CPU time and the memory of training grow, from the tables of `doc/notes/growth.md`."""

import re

import matplotlib.pyplot as plt
import tables

MODELS = {"sparsemap": "#d55e00", "margin_sparsemap": "#e69f00", "crf": "#00594c", "CRFsuite": "#5b7f95"}
GROWTH = {"5 labels": "labels", "10 steps": "steps", "300 sentences": "sentences", "3,000 features": "features"}

figure, axes = plt.subplots(2, 4, figsize=(11, 5), layout="constrained", sharex="col", sharey="row")
for column, (first, what) in zip(axes.T, GROWTH.items()):
    for row in tables.read("growth", first):
        name, cells = row.pop("").strip("`"), {k: v for k, v in row.items() if k != "exponents"}
        sizes = [tables.number(size) for size in cells]
        figures = [[float(x) for x in re.findall(r"[\d.]+", cell.replace(",", " "))] for cell in cells.values()]
        for ax, values in zip(column, zip(*figures)):
            ax.plot(sizes, values, "s-" if name == "CRFsuite" else "o-", color=MODELS[name], label=name, markersize=4)
    for ax in column:
        ax.set(xscale="log", yscale="log")
        ax.minorticks_off()
        ax.grid(color="#e5e5e5")
        ax.spines[["top", "right"]].set_visible(False)
    column[1].set_xlabel(what)
    column[1].set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
axes[0, 0].set_ylabel("CPU seconds")
axes[1, 0].set_ylabel("peak memory, MB")
axes[0, 0].legend(frameon=False, fontsize=8)
