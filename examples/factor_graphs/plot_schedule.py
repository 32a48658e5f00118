"""
A timetable by rules
====================

A timetable is a grid of binary variables with wishes (scores) and rules. In a factor graph each rule is one line.
LP-SparseMAP finds marginals that satisfy all rules: some lessons are certain, some are impossible, and a few places
are undecided. Then a rule is added, and the timetable adapts.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.legend_handler import HandlerTuple

from sklearn_sparsemap import lp_sparsemap
from sklearn_sparsemap.factors import (
    AtMostOne,
    Budget,
    FactorGraph,
    Imply,
    Knapsack,
    OrOut,
    Pair,
    Xor,
)

# %%
# Lessons, slots, wishes
# ----------------------
# Seven lessons, two slots on each of five days. The scores say which slots suit the teachers.

LESSONS = ["algebra", "geometry", "physics", "chemistry", "music", "sports", "art"]
DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri"]
SLOTS = [f"{day} {time}" for day in DAYS for time in ("am", "pm")]
ALGEBRA, GEOMETRY, PHYSICS, CHEMISTRY, MUSIC, SPORTS, ART = range(7)

wishes = np.array(
    # Mon       Tue       Wed       Thu       Fri
    [
        [0.6, 0.2, 0.7, 0.1, 1.0, 0.2, 0.5, 0.0, 0.2, 0.0],  # algebra
        [1.0, 0.3, 0.7, 0.1, 0.6, 0.2, 0.5, 0.3, 0.2, 0.0],  # geometry
        [0.8, 0.6, 0.6, 0.9, 0.4, 0.7, 0.3, 0.5, 0.2, 0.1],  # physics
        [0.3, 0.4, 0.3, 0.6, 0.4, 0.9, 0.3, 0.6, 0.2, 0.1],  # chemistry
        [0.1, 0.3, 0.1, 0.4, 0.5, 0.5, 0.1, 0.6, 0.6, 0.2],  # music
        [0.1, 0.7, 0.1, 0.5, 0.2, 0.6, 0.5, 0.8, 0.3, 0.5],  # sports
        [0.2, 0.3, 0.2, 0.3, 0.2, 0.3, 0.6, 0.7, 0.5, 0.4],  # art
    ]
)

# %%
# Rules
# -----

graph = FactorGraph()
lesson = graph.variables((len(LESSONS), len(SLOTS)), name="lesson")
opened = graph.variables(len(DAYS), name="open")

for slots in lesson:
    graph.add(Xor(slots, name="each lesson has one slot"))
for lessons in lesson.T:
    graph.add(AtMostOne(lessons, name="there is one classroom"))
for d in range(len(DAYS)):
    am, pm = 2 * d, 2 * d + 1
    lessons = [*lesson[:, am], *lesson[:, pm]]
    graph.add(OrOut([*lessons, opened[d]], name="a day with lessons is open"))
    # Physics leaves the laboratory to chemistry.
    graph.add(Imply([lesson[PHYSICS, am], lesson[CHEMISTRY, pm]]))
    # Nobody sings after sports.
    graph.add(Imply([lesson[SPORTS, am], ~lesson[MUSIC, pm]]))
# One mathematics in the afternoon at most.
graph.add(Budget([*lesson[ALGEBRA, 1::2], *lesson[GEOMETRY, 1::2]], 1))
# Heating costs.
graph.add(Knapsack(opened, [1.5, 1.0, 1.0, 1.0, 2.0], 5.0))
# Art after sports is welcome.
graph.add(Pair(lesson[SPORTS, ::2], lesson[ART, 1::2], name="then art"))
print(graph, "\n")

# %%
# Solve, and add a rule
# ---------------------
# Open days cost something, so that they are not open without need.

scores, additional = (
    {"lesson": 10 * wishes, "open": np.full(len(DAYS), -1.0)},
    {"then art": 1.0},
)
before = lp_sparsemap(graph, scores, additional=additional)

# Geometry after algebra: if geometry is in one of the first s + 1 slots, algebra is in one of the first s.
# (The rule ``Or([~lesson[GEOMETRY, s], *lesson[ALGEBRA, :s]])`` says the same of whole timetables, but bounds marginals
# less.)
for s in range(len(SLOTS)):
    graph.add(Budget([*lesson[GEOMETRY, : s + 1], *~lesson[ALGEBRA, :s]], s))
after = lp_sparsemap(graph, scores, additional=additional)
for name, result in (("before", before), ("after", after)):
    print(f"{name:8}{result}")

# %%
# Rules that contradict each other are named
# ------------------------------------------

graph.add(Budget(opened[:4], 0, name="lessons on Friday only"))
try:
    lp_sparsemap(graph, scores, additional=additional)
except ValueError as error:
    print(f"\n{error}")

# %%
# The picture
# -----------
# An empty cell is zero; frames show where the new rule has changed something. The last row says which days are open.

INK, CHANGED = "#222222", "#d55e00"
figure = plt.figure(figsize=(14, 4.8), layout="constrained")
(left, right), bottoms = figure.subplots(
    2, 2, height_ratios=(len(LESSONS), 1), sharey="row"
)
change = np.abs(after.marginals["lesson"] - before.marginals["lesson"]) > 0.01


def shade(ax, u, names):
    """Draw marginals as a heat map with names."""
    ax.imshow(
        np.ma.masked_less(u, 1e-9), cmap="Blues", vmin=-0.1, vmax=1.9, aspect="auto"
    )
    for (i, j), value in np.ndenumerate(u):
        if value > 1e-9:
            text = f"{value:.2f}" if value >= 0.005 else "<0.01"
            ax.text(
                j, i, text, ha="center", va="center_baseline", fontsize=9, color=INK
            )
    ax.set_yticks(range(len(names)), names, color=INK)
    ax.set_xticks(np.arange(u.shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(u.shape[0] + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="#dddddd", lw=0.8)
    ax.set(xticks=[], xlim=(-0.52, u.shape[1] - 0.48), ylim=(u.shape[0] - 0.48, -0.52))
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)


for ax, bottom, title, result in zip(
    (left, right),
    bottoms,
    ("seven lessons by the rules", "... and geometry after algebra"),
    (before, after),
):
    shade(ax, result.marginals["lesson"], LESSONS)
    shade(bottom, result.marginals["open"][None], ["open"])
    ax.set_xticks(
        range(len(SLOTS)),
        SLOTS,
        color=INK,
        rotation=40,
        ha="left",
        rotation_mode="anchor",
    )
    ax.xaxis.tick_top()
    ax.tick_params(which="both", length=0)
    bottom.set_xticks(range(len(DAYS)), DAYS, color=INK)
    ax.set_title(title, fontsize=13, color=INK)
for i, j in np.argwhere(change):
    right.add_patch(
        plt.Rectangle(
            (j - 0.47, i - 0.46), 0.94, 0.92, fill=False, edgecolor=CHANGED, lw=1.8
        )
    )

frame = plt.Rectangle((0, 0), 1, 1, fill=False, edgecolor=CHANGED, lw=1.8)
cells = [plt.Rectangle((0, 0), 1, 1, color=plt.cm.Blues(x)) for x in (0.1, 0.55)]
figure.legend(
    [frame, tuple(cells)],
    ["changed by the new rule", "probability of a lesson in a slot; none where empty"],
    handler_map={tuple: HandlerTuple(ndivide=None)},
    loc="outside lower center",
    ncols=2,
    frameon=False,
    fontsize=11,
)

plt.show()
