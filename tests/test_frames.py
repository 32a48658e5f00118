"""From a public method of an estimator down to inference there are few frames, in few files."""

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import sklearn_sparsemap
from sklearn_sparsemap import GroupLassoPerceptron, MultilabelLPSparseMAP, StructuredSparseMAPClassifier

MOST = 8
ROOT = str(Path(sklearn_sparsemap.__file__).parent) + os.sep
# The rooms above inference, and the files inside an optimiser, which together count as one frame.
ABOVE = ("estimators/", "training/")
INSIDE = ("training/_lbfgs.py", "training/_bundle.py", "training/_quasi_newton/", "training/_objective.py")
BELOW = ("inference/", "losses/", "structures/", "graphs/", "numerics/", "penalties/")

RNG = np.random.default_rng(0)
CHAINS = [RNG.normal(size=(4, 3)) for _ in range(12)], [RNG.integers(3, size=4) for _ in range(12)], [0, 1, 2]
SETS = RNG.normal(size=(80, 3)), RNG.integers(2, size=(80, 3)), None
CASES = {
    "lbfgs": (StructuredSparseMAPClassifier("chain", max_iter=3), *CHAINS),
    "adagrad": (StructuredSparseMAPClassifier("chain", solver="adagrad", max_iter=3, early_stopping=0.3), *CHAINS),
    "groups": (GroupLassoPerceptron("chain", budget=2, max_iter=2, shrink_every=5, debias_max_iter=2), *CHAINS),
    "labels, lbfgs": (MultilabelLPSparseMAP(max_iter=3), *SETS),
    "labels, adam": (MultilabelLPSparseMAP("full", max_iter=3, early_stopping=0.3), *SETS),
}


def place_of(frame):
    """Return the file of a frame within the package, or an empty string."""
    path = frame.f_code.co_filename
    return path.removeprefix(ROOT).replace(os.sep, "/") if path.startswith(ROOT) else ""


def path_above(frame):
    """Return the files of the frames above inference, outermost first."""
    path = []
    while frame is not None:
        place = place_of(frame)
        if place.startswith(BELOW):
            # A structure or a loss was called by a structure or a loss.
            path = []
        elif place.startswith(ABOVE):
            place = "an optimiser" if place.startswith(INSIDE) else place
            if not (path and path[-1] == place == "an optimiser"):
                path.append(place)
        frame = frame.f_back
    return path[::-1]


def longest_path(call):
    """Return the longest path of frames from a call down to inference."""
    longest = []

    def note(frame, event, _):
        nonlocal longest
        if event == "call" and place_of(frame).startswith(BELOW):
            longest = max(longest, path_above(frame), key=len)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return longest


@pytest.mark.parametrize("case", CASES)
def test_few_frames_lead_to_inference(case):
    estimator, X, y, classes = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = clone(estimator).fit(X, y)
        # Compilation at the first call would be traced, too.
        clone(estimator).partial_fit(X, y, classes)
        fitted.predict(X)
        paths = {
            "fit": longest_path(lambda: clone(estimator).fit(X, y)),
            "partial_fit": longest_path(lambda: clone(estimator).partial_fit(X, y, classes)),
            "predict": longest_path(lambda: fitted.predict(X)),
        }
    for method, path in paths.items():
        assert 2 <= len(path) <= MOST, (method, path)
