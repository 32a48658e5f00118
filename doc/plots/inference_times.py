"""Time of one inference, compared with two libraries in C++, from the records of the benchmarks."""

import matplotlib.pyplot as plt
import tables

INK = "#222222"
ours, theirs, names = [], [], []
for record in tables.records("inference") + tables.records("factor_graphs"):
    if record["peer"].endswith("(C++)"):
        factor = {"us": 1e-3, "ms": 1.0}[record["unit"]]
        names.append(record["data"])
        ours.append(factor * record["ours"])
        theirs.append(factor * record["theirs"])
figure, ax = plt.subplots(figsize=(11, 4.6), layout="constrained")
for place, (a, b) in enumerate(zip(ours, theirs)):
    ax.plot([a, b], [place, place], color="#bbbbbb", lw=1.5, zorder=1)
    ax.text(b * 1.12, place, f"{b / a:.0f} times" if b / a >= 2 else f"{b / a:.1f} times", va="center", fontsize=9)
ax.plot(ours, range(len(ours)), "o", color="#d55e00", label="this package")
ax.plot(theirs, range(len(ours)), "s", color="#5b7f95", label="C++ (lp-sparsemap, sparsemap; another machine)")
ax.set_yticks(range(len(names)), names, fontsize=9)
ax.invert_yaxis()
ax.set(xscale="log", xlabel="milliseconds a sample, forward")
ax.set_xlim(right=max(theirs) * 2.2)
ax.grid(axis="x", color="#e5e5e5")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
