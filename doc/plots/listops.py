"""Figure 3 of the LP-SparseMAP paper: F1 on the validation part of ListOps by epoch, from `doc/notes/networks.md`."""

import matplotlib.pyplot as plt
import tables

STYLES = {
    "gold": ("#8c8c8c", "--"),
    "tree + budget": ("#d55e00", "-"),
    "tree": ("#0072b2", "-"),
    "left-to-right": ("#8c8c8c", "-"),
}
EPOCHS = range(1, 16)
rows = {row["F1 by epoch"]: row for row in tables.read("networks", "F1 by epoch")}
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name, (color, style) in STYLES.items():
    ax.plot(EPOCHS, [tables.number(rows[name][str(epoch)]) for epoch in EPOCHS], style, color=color, label=name)
ax.set(xlabel="epoch", ylabel="F1 on the validation part, %", ylim=(0, 103), xticks=[1, 5, 10, 15])
ax.spines[["top", "right"]].set_visible(False)
ax.grid(axis="y", color="#e5e5e5")
figure.legend(loc="outside right center", frameon=False)
