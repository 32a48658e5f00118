"""
A timetable by rules
====================

A timetable is a grid of binary variables with wishes (scores) and rules. In a factor graph each rule is one line.
LP-SparseMAP finds marginals that satisfy all rules: some lessons are certain, some are impossible, and a few places
are undecided. Then a rule is added, and the timetable adapts.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_sparsemap import lp_sparsemap, map_inference
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
from sklearn_sparsemap.plotting import FactorGraphDisplay

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
    laboratory = [lesson[PHYSICS, am], lesson[CHEMISTRY, pm]]
    graph.add(Imply(laboratory, name="physics leaves the laboratory to chemistry"))
    singing = [lesson[SPORTS, am], ~lesson[MUSIC, pm]]
    graph.add(Imply(singing, name="nobody sings after sports"))
mathematics = [*lesson[ALGEBRA, 1::2], *lesson[GEOMETRY, 1::2]]
graph.add(Budget(mathematics, 1, name="one mathematics in the afternoon"))
graph.add(Knapsack(opened, [1.5, 1.0, 1.0, 1.0, 2.0], 5.0, name="heating costs"))
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
timetable = map_inference(graph, scores, additional=additional).structure

# Geometry after algebra: if geometry is in one of the first s + 1 slots, algebra is in one of the first s.
# (The rule ``Or([~lesson[GEOMETRY, s], *lesson[ALGEBRA, :s]])`` says the same of whole timetables, but bounds marginals
# less.)
for s in range(len(SLOTS)):
    earlier = [*lesson[GEOMETRY, : s + 1], *~lesson[ALGEBRA, :s]]
    graph.add(Budget(earlier, s, name="geometry after algebra"))
after = lp_sparsemap(graph, scores, additional=additional)
for name, result in (("before", before), ("after", after)):
    print(f"{name:8}{result}")

# %%
# The rules that a timetable breaks
# ---------------------------------
# The best timetable before the new rule breaks it. Another one has all its lessons one slot later.

later = {**timetable, "lesson": np.roll(timetable["lesson"], 1, axis=1)}
for name, assignment in (("best before", timetable), ("one slot later", later)):
    print(f"{name}: {sorted({rule.name for rule in graph.violations(assignment)})}")

# %%
# `StructuredSparseMAPClassifier` takes the graph as its `structure`, and learns the wishes from past timetables. It
# leaves out timetables that break rules, with a warning that names these.
#
# Rules that contradict each other are named
# ------------------------------------------

graph.add(Budget(opened[:4], 0, name="lessons on Friday only"))
try:
    lp_sparsemap(graph, scores, additional=additional)
except ValueError as error:
    names = str(error).split("'")[1::2]
    print("these contradict each other:", *names, sep="\n- ")

# %%
# The picture
# -----------
# An empty cell is zero; frames show where the new rule has changed something. The last row says which days are open.

INK, CHANGED = "#222222", "#d55e00"
figure, axes = plt.subplots(1, 2, figsize=(14, 4.6), layout="constrained")
axis_names = {"lesson": (LESSONS, SLOTS), "open": (DAYS,)}
titles = "seven lessons by the rules", "... and geometry after algebra"
for ax, title, result in zip(axes, titles, (before, after)):
    display = FactorGraphDisplay.from_result(
        result, axis_names=axis_names, layout="heatmap", ax=ax
    )
    display.ax_[0].set_title(title, fontsize=13, color=INK)

frame = {"fill": False, "edgecolor": CHANGED, "lw": 1.8}
change = np.abs(after.marginals["lesson"] - before.marginals["lesson"]) > 0.01
for i, j in np.argwhere(change):
    patch = plt.Rectangle((j - 0.47, i - 0.46), 0.94, 0.92, **frame, zorder=4)
    display.ax_[0].add_patch(patch)
figure.legend(
    [plt.Rectangle((0, 0), 1, 1, **frame)],
    ["changed by the new rule"],
    loc="outside lower center",
    frameon=False,
    fontsize=11,
)

plt.show()
