"""
Segments of a generated language
================================

A recording is cut into frames. Which are vowels, which consonants, which pauses? A chain models which label follows
which, but not *how long* a sound lasts. In this generated language vowels last three to five frames, consonants one
or two, and pauses four to six. `Segmentation` learns scores of durations as well as of transitions, and finds sounds
that a chain breaks into pieces.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.metrics import flat_accuracy_score, parts_f1_score
from sklearn_sparsemap.plotting import SegmentationDisplay
from sklearn_sparsemap.structures import Segmentation

# %%
# The language
# ------------
# Syllables of a consonant and a vowel make words, and pauses are between words. The features of a single
# frame are not informative.

LENGTHS = {"consonant": (1, 2), "vowel": (3, 5), "pause": (4, 6)}
MEANS = {"consonant": (1.0, 0.0), "vowel": (-0.5, 0.9), "pause": (-0.5, -0.9)}
rng = np.random.default_rng(0)


def speak(n_words, noise=1.3):
    """Return what is measured of some words, and their sounds, frame by frame."""
    sounds = []
    for word in range(n_words):
        sounds += ["pause"] * (word > 0) + ["consonant", "vowel"] * rng.integers(1, 3)
    lasting = [rng.integers(*LENGTHS[sound], endpoint=True) for sound in sounds]
    labels = np.repeat(sounds, lasting)
    means = np.array([MEANS[label] for label in labels])
    return means + noise * rng.normal(size=means.shape), labels


def spans_of(labels):
    """Return the sounds as (first frame, frame after the last one, label)."""
    first = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    ends = np.append(first[1:], len(labels))
    return list(zip(first.tolist(), ends.tolist(), labels[first].tolist()))


train = [speak(3) for _ in range(120)]
test = [speak(3) for _ in range(200)]
X, y = (list(part) for part in zip(*train))
X_test, y_test = (list(part) for part in zip(*test))

# %%
# Frames, a chain, and segments
# -----------------------------

models = {
    "each frame by itself": StructuredSparseMAPClassifier(alpha=1e-3),
    "chain": StructuredSparseMAPClassifier("chain", "crf", alpha=1e-3),
    "segments": StructuredSparseMAPClassifier(Segmentation(8), "crf", alpha=1e-3),
}
print(f"{'':24}{'frames right':>14}{'F1 of sounds':>14}")
predicted = {}
for name, model in models.items():
    if name == "each frame by itself":
        model.fit(np.vstack(X), np.concatenate(y))
        predicted[name] = [model.predict(x) for x in X_test]
    else:
        predicted[name] = list(model.fit(X, y).predict(X_test))
    right = flat_accuracy_score(y_test, predicted[name])
    sounds = parts_f1_score(
        [spans_of(labels) for labels in y_test],
        [spans_of(labels) for labels in predicted[name]],
    )
    print(f"{name:24}{right:14.1%}{sounds:14.1%}")

# %%
# Learned durations: the score of each number of frames minus the best one.

segments = models["segments"]
durations = segments.additional_scores_["durations"]
print("\nscores of durations, in frames")
print(f"{'':12}" + "".join(f"{length:7}" for length in range(1, 9)))
for j, label in enumerate(segments.classes_):
    own = durations[:, j] - durations[:, j].max()
    print(f"{label:12}" + "".join(f"{score:7.1f}" for score in own))

# %%
# The picture
# -----------
# One recording: what was said, what the chain hears, and segmentations of a model that is trained with SparseMAP, with
# their probabilities.

sparse = StructuredSparseMAPClassifier(Segmentation(8), alpha=1e-3).fit(X, y)
marginals = list(sparse.predict_marginals(X_test))
few = sparse.predict_structures(X_test)
some = [i for i in range(len(few)) if len(y_test[i]) < 36 and 3 <= len(few[i]) <= 6]
cuts = [len(spans_of(predicted["chain"][i])) - len(spans_of(y_test[i])) for i in some]
chosen = some[int(np.argsort(cuts)[-4])]
display = SegmentationDisplay(
    few[chosen],
    marginals=marginals[chosen],
    y_true=y_test[chosen],
    labels=sparse.classes_.tolist(),
)
display.plot(max_structures=4)
display.ax_.set_title("the sounds of three words, frame by frame")

plt.show()
