"""
Segments of a sensor recording
==============================

A sensor on the hip of a person measures three accelerations, 20 times a second. Each second of a recording shall get
the activity: rest, walk, climb or run. A classifier of single seconds changes its mind all the time. A chain learns
that activities last, and a segmentation learns how long. The data are made here. :doc:`/jobs/recordings` does the same
step by step.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import StructuredSparseMAPClassifier, map_inference
from sklearn_sparsemap.metrics import flat_accuracy_score, parts_f1_score
from sklearn_sparsemap.structures import Segmentation

# %%
# Raw channels
# ------------
# An activity has a frequency and a strength of each channel; all of them vary from one second to the next, and some
# seconds are disturbed. It lasts at least eight seconds.

RATE = 20  # measurements in a second
ACTIVITIES = {
    "rest": (0.5, (0.1, 0.1, 0.1)),
    "walk": (1.8, (0.5, 0.4, 0.9)),
    "climb": (1.5, (0.6, 0.5, 0.7)),
    "run": (2.7, (0.8, 0.6, 1.5)),
}
rng = np.random.default_rng(0)


def record(n_seconds=240):
    """Return the channels of a recording, and the activity in each second."""
    labels = []
    while len(labels) < n_seconds:
        others = [name for name in ACTIVITIES if name not in labels[-1:]]
        labels += [str(rng.choice(others))] * int(rng.integers(8, 40))
    labels = labels[:n_seconds]
    channels = []
    for name in labels:
        frequency, strengths = ACTIVITIES[name]
        times = np.arange(RATE) / RATE + rng.uniform()
        wave = np.sin(2.0 * np.pi * frequency * rng.normal(1.0, 0.25) * times)
        own = wave[:, None] * strengths * rng.lognormal(0.0, 0.5, size=3)
        noise = rng.choice([0.3, 1.0], p=[0.8, 0.2])
        channels.append(own + rng.normal(scale=noise, size=own.shape))
    return np.vstack(channels), np.array(labels)


def split(recordings):
    channels, labels = zip(*recordings)
    return list(channels), list(labels)


raw, y = split([record() for _ in range(10)])
raw_test, y_test = split([record() for _ in range(10)])

# %%
# Windows of features
# -------------------
# A second is the step of the sequence. Its features are the spread of each channel, the size of its changes, and the
# same of the two seconds around it. Logarithms bring them to similar scales.


def features(channels):
    """Return a row of features for each second."""
    seconds = channels.reshape(-1, RATE, 3)
    changes = np.diff(seconds, axis=1)
    own = np.log(np.hstack([seconds.std(axis=1), np.abs(changes).mean(axis=1)]))
    padded = np.pad(own, ((1, 1), (0, 0)), mode="edge")
    return np.hstack([padded[:-2], own, padded[2:]])


scaler = StandardScaler().fit(np.vstack([features(channels) for channels in raw]))
X = [scaler.transform(features(channels)) for channels in raw]
X_test = [scaler.transform(features(channels)) for channels in raw_test]

# %%
# Models
# ------
# If labels stay for many steps, each of which tells little, ``loss="crf"`` and the default are both worth a try. The
# first finds fewer false segments here, the second labels more seconds correctly. `Segmentation` has a score for each
# duration up to nine seconds, and one for all longer ones.

models = {
    "each second by itself": StructuredSparseMAPClassifier(),
    "chain": StructuredSparseMAPClassifier("chain"),
    "chain, crf": StructuredSparseMAPClassifier("chain", "crf"),
    "segments, crf": StructuredSparseMAPClassifier(
        Segmentation(10, open_ended=True), "crf"
    ),
}
predicted = {}
for name, model in models.items():
    if name == "each second by itself":
        model.fit(np.vstack(X), np.concatenate(y))
        predicted[name] = [model.predict(x) for x in X_test]
    else:
        predicted[name] = list(model.fit(X, y).predict(X_test))

# %%
# Minimum durations
# -----------------
# Learned scores make short segments rare. If they are impossible, forbid their durations: -inf is a score like any
# other. So no segment lasts less than eight seconds.

segments = models["segments, crf"]
allowed = {name: scores.copy() for name, scores in segments.additional_scores_.items()}
allowed["durations"][:7] = -np.inf
predicted["segments of 8 s or more"] = []
for x in X_test:
    scores = x @ segments.coef_.T + segments.intercept_
    codes, _ = map_inference(segments.structure, scores, **allowed)
    predicted["segments of 8 s or more"].append(segments.classes_[codes])

# %%
# Comparison
# ----------


def spans_of(labels):
    """Return the segments as (first second, second after the last one, activity)."""
    first = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    ends = np.append(first[1:], len(labels))
    return list(zip(first.tolist(), ends.tolist(), labels[first].tolist()))


print(f"{'':24}{'seconds right':>15}{'segments':>10}{'F1 of segments':>16}")
true_spans = [spans_of(labels) for labels in y_test]
for name, found in predicted.items():
    spans = [spans_of(labels) for labels in found]
    right = flat_accuracy_score(y_test, found)
    number = sum(map(len, spans))
    f1 = parts_f1_score(true_spans, spans)
    print(f"{name:24}{right:15.2f}{number:10}{f1:16.2f}")
print(f"{'true':24}{'':15}{sum(map(len, true_spans)):10}")

# %%
# The picture
# -----------
# One recording, its activities, and those that are found.

colors = dict(zip(ACTIVITIES, ["0.85", "tab:green", "tab:orange", "tab:red"]))
rows = {"true": y_test[0]}
for name, found in predicted.items():
    rows[name] = found[0]
figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(9, 4.5), sharex=True, layout="constrained"
)
seconds = np.arange(len(raw_test[0])) / RATE
top.plot(seconds, raw_test[0][:, 2], linewidth=0.4, color="0.3")
top.set_ylabel("third channel")
for place, labels in enumerate(rows.values()):
    for first, end, activity in spans_of(np.asarray(labels)):
        bottom.barh(place, end - first, left=first, color=colors[activity])
bottom.set_yticks(range(len(rows)), rows)
bottom.invert_yaxis()
bottom.set_xlabel("seconds")
bottom.set_xlim(0, len(rows["true"]))
handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in colors.values()]
figure.legend(handles, colors, loc="outside upper right", ncols=len(colors))

plt.show()
