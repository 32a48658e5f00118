"""OCR letters: handwritten words read letter by letter, or as chains.

    python benchmarks/ocr.py --data DIR

DIR holds ocr_letters/letters.npz: words of 16 x 8 binary images, in 10 folds. Trains on fold 0 and tests on the other
nine. All models choose alpha from the same values by cross-validation on the same cuts of fold 0 into words, and have
the same number of iterations. `--losses` compares losses of the chain; expected_cost starts from the model of crf.
"""

import argparse
import sys
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
import results
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier

ROOT = Path(__file__).resolve().parents[1]


def load_letters(path):
    """Return the images of all words, their letters, and the fold of each word."""
    with np.load(path) as data:
        indptr = np.concatenate([[0], np.cumsum(data["lengths"].astype(np.int64))])
        pixels = np.unpackbits(data["pixels"], axis=1).astype(np.float64)
        return RaggedArray(pixels, indptr), RaggedArray(data["labels"], indptr), data["folds"]


def rows_of_words(words, indptr):
    """Return the places of all letters of some words."""
    return np.concatenate([np.arange(indptr[word], indptr[word + 1]) for word in words])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with ocr_letters/")
    parser.add_argument("--alphas", type=float, nargs="+", default=[5e-4, 2e-3, 8e-3, 3e-2], help="values to try")
    parser.add_argument("--cv", type=int, default=3, help="number of cuts of fold 0")
    parser.add_argument("--max-iter", type=int, default=200, help="maximum number of iterations of L-BFGS")
    parser.add_argument(
        "--losses", nargs="+", default=["sparsemap"], help="losses of the chain, the first as reference"
    )
    parser.add_argument("--seed", type=int, default=0)
    args = results.parse(parser)
    path = args.data / "ocr_letters" / "letters.npz"
    if not path.exists():
        sys.exit(f"no {path}; name the folder that has ocr_letters/ with --data")
    # L-BFGS may stop short of the exact minimum; cross-validation judges the model that it has found.
    warnings.simplefilter("ignore", ConvergenceWarning)

    X, y, folds = load_letters(path)
    X_train, y_train, X_test, y_test = X[folds == 0], y[folds == 0], X[folds != 0], y[folds != 0]
    cuts = list(KFold(args.cv, shuffle=True, random_state=args.seed).split(X_train))
    cuts_of_letters = [tuple(rows_of_words(words, X_train.indptr) for words in cut) for cut in cuts]
    print(f"{len(X_train)} training words ({len(X_train.values)} letters), {len(X_test)} test ({len(X_test.values)})\n")

    def new_model(structure, loss, max_iter):
        return StructuredSparseMAPClassifier(structure, loss, solver="lbfgs", max_iter=max_iter)

    letters = cuts_of_letters, X_train.values, y_train.values, X_test.values, y_test.values
    words = cuts, X_train, y_train, X_test, y_test
    problems = {
        "multiclass": ("auto", "sparsemap", *letters),
        **{loss: ("chain", loss, *words) for loss in args.losses},
    }
    # Compiles the kernels, or loads them, so that the times are those of the work.
    for structure, loss, _, X_fit, y_fit, X_new, _ in problems.values():
        new_model(structure, loss, 2).fit(X_fit[:100], y_fit[:100]).predict(X_new[:5])

    accuracy = {}
    print(f"{'':16}{'letters right':>14}{'alpha':>9}{'search':>11}{'fit':>10}{'iterations':>12}{'predict':>10}")
    for name, (structure, loss, splits, X_fit, y_fit, X_new, y_new) in problems.items():
        model = new_model(structure, loss, args.max_iter)
        start = perf_counter()
        search = GridSearchCV(model, {"alpha": args.alphas}, cv=splits, refit=False).fit(X_fit, y_fit)
        searched = perf_counter()
        model.set_params(**search.best_params_).fit(X_fit, y_fit)
        fitted = perf_counter()
        accuracy[name] = model.score(X_new, y_new)
        done = perf_counter()
        print(
            f"{name:16}{accuracy[name]:14.2%}{model.alpha:9g}{searched - start:9.1f} s{fitted - searched:8.2f} s"
            f"{model.n_iter_:12}{done - fitted:8.2f} s",
            flush=True,
        )
        held_out = zip(args.alphas, search.cv_results_["mean_test_score"])
        print("  held-out part of fold 0: " + ", ".join(f"alpha={a:g} {s:.2%}" for a, s in held_out), flush=True)
    first, *others = args.losses
    peers = {"the same classifier, letter by letter": "multiclass", **{f"loss={loss!r}": loss for loss in others}}
    task = "handwritten words" if first == "sparsemap" else f"handwritten words, loss={first!r}"
    for peer, name in peers.items():
        results.record(task, "OCR letters, fold 0", "letters right", 100 * accuracy[first], "%", peer,
                       100 * accuracy[name])  # fmt: skip
    print(f"\nThe chain is better by {100 * (accuracy[first] - accuracy['multiclass']):.1f} points.")


if __name__ == "__main__":
    main()
