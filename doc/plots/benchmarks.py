"""Comparisons with peers, from the records of the benchmarks: ratios of times, differences of scores.

All bars start at zero.
"""

import matplotlib.pyplot as plt
import tables

FASTER, SLOWER, INK = "#d55e00", "#8aa5b8", "#222222"
# Text, script, data, measure and peer of the record.
TIMES = (
    ("chunking, training", "chunking", "CoNLL-2000, 72 templates", "training",
     "CRFsuite averaged perceptron, 10 epochs"),
    ("chunking from dicts", "token_dicts", "CoNLL-2000, features of a tutorial", "CPU time of the whole run, crf",
     "CRFsuite, L-BFGS, as in its tutorial"),
    ("CRF, an iteration", "crf", "CoNLL-2000, 1,000 sentences", "CPU time of an iteration", "CRFsuite"),
    ("sets of labels, a fit", "label_sets", "mean of 10 sets", "CPU time of a fit",
     "one-vs-rest, tuned (scikit-learn)"),
    ("paths, training", "decisions", "path, mean of all problems", "CPU time of training", "PyEPO SPO+, rate 0.01"),
    ("matching 100 x 100, MAP", "oracles", "matching 100 x 100", "CPU time with structures", "lapx"),
    ("tree of 40 words, MAP", "oracles", "tree, 40 words, trained scores", "CPU time with structures",
     "ufal.chu_liu_edmonds"),
    ("chains 20 x 5, SparseMAP", "devices", "chain 20 x 5, batch 1024, 2 threads", "forward and backward", "Moreau"),
    ("group lasso, weak", "group_lasso", "multinomial, 0.1 of the largest strength",
     "CPU time to a gap of 1e-6", "adelie"),
    ("group lasso, strong", "group_lasso", "multinomial, 0.5 of the largest strength",
     "CPU time to a gap of 1e-6", "adelie"),
    ("sparsemax", "inference", "simplex, 1000 x 100", "CPU time of a batch", "entmax"),
    ("time warping 400 x 400", "structures", "400 x 400", "CPU time, Alignment", "dtaidistance (C)"),
)  # fmt: skip
SEEN = "SparseMAP, no edges, L-BFGS, seen sets"
EDGES = "SparseMAP, no edges"
SCORES = (
    *((f"seen sets, {data}: F1", "label_graphs", data, f"example F1, {SEEN}", EDGES)
      for data in ("emotions", "yeast", "generated-12")),
    *((f"seen sets, {data}: whole sets", "label_graphs", data, f"whole sets, {SEEN}", EDGES)
      for data in ("emotions", "yeast", "generated-12")),
)  # fmt: skip


def find(script, *identity):
    """Return the record of a script with this data, measure and peer."""
    return next(r for r in tables.records(script) if (r["data"], r["measure"], r["peer"]) == identity)


def bars(ax, rows, values, **options):
    """Draw a bar for each row."""
    ax.barh(range(len(rows)), values, **options)
    ax.set_yticks(range(len(rows)), [text for text, *_ in rows], fontsize=9)
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)


figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
records = [find(*identity) for _, *identity in TIMES]
ratios = [record["ratio"] for record in records]
bars(left, TIMES, ratios, color=[FASTER if ratio < 1 else SLOWER for ratio in ratios])
for place, record in enumerate(records):
    peer = record["peer"].split(",")[0].split(" (")[0].split(" averaged")[0]
    left.text(record["ratio"], place, f" {record['ratio']:.2f} of {peer}", va="center", fontsize=8, color=INK)
left.axvline(1.0, color=INK, lw=0.8)
left.set_xlim(0, 1.5 * max(ratios))
left.set_title("CPU time or time, ours / peer's", fontsize=11, loc="left", color=INK)

records = [find(*identity) for _, *identity in SCORES]
gains = [record["ours"] - record["theirs"] for record in records]
bars(right, SCORES, gains, xerr=[record["interval"] for record in records], color=FASTER, ecolor=INK)
right.axvline(0.0, color=INK, lw=0.8)
right.set_title("points gained by seen sets, 95 % intervals", fontsize=11, loc="left", color=INK)
