"""Templates for parsing, from `doc/notes/parsing_templates.md`: UAS by number of weights, kinds that are chosen."""

import re

import matplotlib.pyplot as plt
import tables

NOTE = "parsing_templates"
STYLES = {
    "coarse to fine": ("#d55e00", "-", "o"),
    "group lasso": ("#e69f00", "-", "s"),
    "information gain": ("#8c8c8c", "-", "^"),
    "lasso": ("#0072b2", "--", "v"),
}
INK = "#222222"
kinds = tables.read(NOTE, "kind", "templates")
languages = [name for name in kinds[0] if name not in ("kind", "templates")]
figure, axes = plt.subplots(2, len(languages), figsize=(11, 6.6), layout="constrained", height_ratios=(1, 1.25))
for place, language in enumerate(languages):
    # Some methods were not run for some languages.
    ax, rows = axes[0, place], tables.read(NOTE, "at most", "group lasso", place=place)
    full = next(row for row in rows if row["of all"].startswith("100"))
    for method, (color, line, mark) in STYLES.items():
        points = [(tables.number(row["at most"]), row.get(method, "")) for row in rows if row is not full]
        points = [(n, tables.number(score)) for n, score in points if re.search(r"\d", score)]
        if points:
            ax.plot(*zip(*points), ls=line, marker=mark, ms=4, color=color, label=method)
    score = tables.number(full["group lasso"])
    ax.axhline(score, color=INK, lw=0.8, ls=":", label="all templates")
    ax.set(xscale="log", xlabel="weights", ylim=(score - 15, score + 2))
    ax.set_title(language, fontsize=11, loc="left", color=INK)
    ax.spines[["top", "right"]].set_visible(False)
    shares = axes[1, place]
    names = [row["kind"] for row in kinds]
    # Not all languages have all fields.
    values = [tables.number(row[language]) if re.search(r"\d", row[language]) else 0.0 for row in kinds]
    shares.barh(range(len(names)), values, color=STYLES["group lasso"][0])
    shares.set_yticks(range(len(names)), names if place == 0 else [], fontsize=8.5)
    shares.invert_yaxis()
    shares.set(xlim=(0, 100), xlabel="% of the templates")
    shares.spines[["top", "right"]].set_visible(False)
axes[0, 0].set_ylabel("UAS")
handles = axes[0, -1].get_legend_handles_labels()
figure.legend(*handles, loc="outside upper center", ncols=5, frameon=False)
