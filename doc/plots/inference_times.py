"""What `benchmarks/README.md` says of the time of one inference, beside two libraries in C++."""

import matplotlib.pyplot as plt
import tables

INK = "#222222"
ours, theirs, names = [], [], []
for row in tables.read("Inference", "problem", "C++"):
    if row["C++"]:
        names.append(f"{row['problem']}, scale {row['scale']}")
        ours.append(tables.number(row["SparseMAP"]) / 1000)
        theirs.append(tables.number(row["C++"]))
for row in tables.read("Factor graphs", "graph", "C++"):
    if row["C++"]:
        names.append(row["graph"])
        ours.append(tables.number(row["forward"]))
        theirs.append(tables.number(row["C++"]))
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
