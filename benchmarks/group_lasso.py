"""Time of StructuredGroupLasso to a certified gap, and a path over strengths on chunking.

    pip install adelie skglm                                # optional peers
    python benchmarks/group_lasso.py
    python benchmarks/group_lasso.py --flat
    python benchmarks/group_lasso.py --chunking --data DIR
    python benchmarks/group_lasso.py --lasso --data DIR

Without options it draws multinomial problems: normal features in groups of 10, of which 10 groups decide one of three
labels. It prints CPU seconds of StructuredGroupLasso to a duality gap of 1e-6, and, if adelie is installed, those of
adelie at several of its tolerances, with the distance of its objective from ours. Strengths are fractions of the
smallest one at which all weights are zero; each is solved from zero. One thread.

With --flat, a least-squares problem instead: accelerated proximal gradient steps with `penalties.GroupLasso.prox`, and
skglm's block coordinate descent. The proximal operator is a part of online learning, not a solver of its own.

With --chunking, a path on the first sentences of CoNLL-2000 with the 72 templates as groups: prints for each strength
the groups, weights, span F1 on held-out sentences of the training part, gap and seconds. DIR holds
conll2000/train.txt.gz.

With --lasso, the lasso (``l1_ratio=1``) on the first sentences of Spanish named entities, and CRFsuite with the same
features and strength (c1): CPU seconds, weights kept, and span F1 on the development part. CRFsuite penalises
transitions, too, and stops by its own rules. One thread. DIR holds conll2002/esp.train.gz and esp.testa.gz.
"""

import argparse
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import results
from crf import sentences_of

from sklearn_sparsemap import StructuredGroupLasso
from sklearn_sparsemap.datasets import load_conll
from sklearn_sparsemap.estimators._selection.strengths import StrengthPath
from sklearn_sparsemap.features import TemplateVectorizer, chunking_templates, ngrams
from sklearn_sparsemap.metrics import span_f1_score
from sklearn_sparsemap.penalties import GroupLasso

ROOT = Path(__file__).resolve().parents[1]
SIZE, N_TRUE, N_LABELS = 10, 10, 3


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--fractions", nargs="+", type=float, default=[0.5, 0.1, 0.02])
    parser.add_argument("--tols", nargs="+", type=float, default=[1e-7, 1e-9, 1e-11], help="of adelie")
    parser.add_argument("--chunking", action="store_true", help="the path on chunking instead")
    parser.add_argument("--lasso", action="store_true", help="single weights of Spanish entities instead")
    parser.add_argument("--strengths", nargs="+", type=float, default=[1.0, 0.3], help="with --lasso: c1")
    parser.add_argument("--flat", action="store_true", help="least squares by proximal steps instead")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with conll2000/")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--held", type=int, default=500, help="held-out sentences")
    parser.add_argument("--alphas", type=int, default=50)
    parser.add_argument("--eps", type=float, default=1e-2)
    parser.add_argument("--loss", default="crf")
    parser.add_argument("--tol", type=float, default=1e-2, help="gap of the path, in the unit of a sentence's loss")
    parser.add_argument("--jobs", type=int, default=2)
    return results.parse(parser)


def draw(n, n_groups):
    rng = np.random.default_rng(0)
    X, coef = rng.normal(size=(n, n_groups * SIZE)), np.zeros((n_groups * SIZE, N_LABELS))
    coef[: N_TRUE * SIZE] = 3.0 * rng.normal(size=(N_TRUE * SIZE, N_LABELS)) / np.sqrt(N_TRUE * SIZE)
    return X, (X @ coef + rng.gumbel(size=(n, N_LABELS))).argmax(axis=1), np.repeat(np.arange(n_groups), SIZE)


def objective(X, y, coef, intercept, alpha):
    scores = X @ coef + intercept
    losses = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(y)), y]
    norms = np.linalg.norm(coef.reshape(-1, SIZE * coef.shape[1]), axis=1)
    return losses.mean() + alpha * np.sqrt(SIZE) * norms.sum()


def fit_adelie(adelie, X, y, alpha, tol):
    """Return the weights and the intercepts."""
    starts, weights = np.arange(0, X.shape[1], SIZE), np.full(X.shape[1] // SIZE, np.sqrt(SIZE))
    # adelie divides the mean loss by the number of labels.
    state = adelie.grpnet(
        X, adelie.glm.multinomial(y=np.eye(N_LABELS)[y], dtype=np.float64), groups=starts, penalty=weights,
        lmda_path=np.array([alpha / N_LABELS]), early_exit=False, tol=tol, irls_tol=tol, progress_bar=False,
    )  # fmt: skip
    return np.asarray(state.betas.todense()).reshape(-1, N_LABELS), np.ravel(state.intercepts)


def print_multinomial(args):
    try:
        import adelie
    except ImportError:
        adelie = None
    X, y, group_of = draw(args.samples, args.groups)
    shares = np.bincount(y) / len(y)
    slopes = X.T @ (np.eye(N_LABELS)[y] - shares) / len(y)
    largest = (np.linalg.norm(slopes.reshape(args.groups, -1), axis=1) / np.sqrt(SIZE)).max()
    # The first fit of this size loads compiled code and starts the threads of BLAS.
    StructuredGroupLasso(groups=group_of, loss="crf", alpha=0.9 * largest).fit(X, y)
    print(f"{'alpha / max':>12}{'groups':>8}{'seconds':>9}{'gap':>10}   adelie: tol, seconds, objective minus ours")
    for fraction in args.fractions:
        alpha, began = fraction * largest, process_time()
        model = StructuredGroupLasso(groups=group_of, loss="crf", alpha=alpha).fit(X, y)
        ours, known = process_time() - began, False
        line = f"{fraction:12}{len(model.selected_groups_):8}{ours:9.2f}{model.dual_gap_:10.1e}"
        for tol in args.tols if adelie else ():
            columns, began = np.asfortranarray(X), process_time()
            coef, intercept = fit_adelie(adelie, columns, y, alpha, tol)
            seconds = process_time() - began
            above = objective(X, y, coef, intercept, alpha) - model.objective_
            line += f"   {tol:.0e} {seconds:.2f} {above:.1e}"
            # The loosest tolerance that comes as near to the minimum.
            if above <= 1e-6 and not known:
                known = True
                results.record("group lasso", f"multinomial, {fraction:g} of the largest strength",
                               "CPU time to a gap of 1e-6", ours, "s", "adelie", seconds, package="adelie")  # fmt: skip
        print(line, flush=True)


def proximal_gradient(X, y, penalty, tol, max_iter=20_000):
    """Minimise ``|y - X w|^2 / (2 n) + penalty(w)`` by accelerated proximal gradient steps."""
    n = len(y)
    step = n / np.linalg.norm(X, 2) ** 2
    weights = point = np.zeros(X.shape[1])
    momentum, change, n_iter = 1.0, np.inf, 0
    while change > tol and n_iter < max_iter:
        n_iter += 1
        new = penalty.prox(point - step * (X.T @ (X @ point - y)) / n, step)
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        # Restart if the momentum points uphill.
        if (point - new) @ (new - weights) > 0.0:
            faster = momentum = 1.0
        change = np.abs(new - weights).max()
        point = new + (momentum - 1.0) / faster * (new - weights)
        weights, momentum = new, faster
    return weights


def print_flat(n=500, n_groups=200, tol=1e-9):
    rng, groups = np.random.default_rng(0), np.repeat(np.arange(n_groups), SIZE)
    X = rng.normal(size=(n, n_groups * SIZE))
    truth = np.where(groups < N_TRUE, rng.normal(size=len(groups)), 0.0)
    y = X @ truth + rng.normal(size=n)
    alpha = 0.1 * np.sqrt(((X.T @ y / n).reshape(n_groups, SIZE) ** 2).sum(axis=1)).max()
    penalty = GroupLasso(groups, alpha)
    # Compiles the kernel, or loads it.
    penalty.prox(truth, 1.0)
    began = process_time()
    ours = proximal_gradient(X, y, penalty, tol)
    seconds = process_time() - began
    print(f"proximal gradient: {seconds:.2f} CPU s, {len(np.unique(groups[ours != 0]))} groups")
    try:
        from skglm import GroupLasso as Peer
    except ImportError:
        print("skglm is not installed: running without it")
        return
    peer = Peer(groups=SIZE, alpha=alpha, fit_intercept=False, tol=tol, max_iter=1000).fit(X, y)
    began = process_time()
    peer.fit(X, y)
    theirs = process_time() - began
    print(f"skglm: {theirs:.2f} CPU s; the largest difference of a weight is {np.abs(peer.coef_ - ours).max():.1e}")
    data = f"least squares, {n} samples, {n_groups} groups"
    results.record("group lasso", data, "CPU time", seconds, "s", "skglm", theirs, package="skglm")


def print_chunking(args):
    X, y = load_conll(args.data / "conll2000" / "train.txt.gz", columns=("word", "pos", "label"))
    train, held = slice(args.sentences), slice(args.sentences, args.sentences + args.held)
    vectorizer = TemplateVectorizer(chunking_templates())
    features, held_features = vectorizer.fit_transform(X[train]), vectorizer.transform(X[held])
    model = StructuredGroupLasso("chain", groups="templates", loss=args.loss, tol=args.tol, n_jobs=args.jobs)
    began, began_cpu = perf_counter(), process_time()
    path = StrengthPath(model, features, y[train], None)
    alphas = path.strengths(None, args.alphas, args.eps)
    total, cpu = perf_counter() - began, process_time() - began_cpu
    print(f"{features.values.shape[1]:,} columns, {args.loss}")
    print(f"{'alpha / max':>12}{'groups':>8}{'weights':>10}{'F1':>8}{'gap':>10}{'iter':>6}{'seconds':>9}{'CPU':>8}")
    print(f"transitions alone: {total:.1f} seconds, {cpu:.1f} CPU seconds")
    for alpha in alphas:
        began, began_cpu = perf_counter(), process_time()
        model = path.fit(alpha)
        seconds, cpu = perf_counter() - began, process_time() - began_cpu
        total += seconds
        f1 = 100 * span_f1_score(y[held], model.predict(held_features))
        print(
            f"{alpha / alphas[0]:12.4f}{len(model.selected_groups_):8}{model.n_nonzero_coefs_:10,}{f1:8.2f}"
            f"{model.dual_gap_:10.1e}{model.n_iter_:6}{seconds:9.1f}{cpu:8.1f}",
            flush=True,
        )
    print(f"{total:.0f} seconds in all")
    data = f"CoNLL-2000, {args.sentences:,} sentences, path of {len(alphas)}"
    results.record("group lasso", data, f"wall time, n_jobs={args.jobs}", total, "s")
    results.record("group lasso", data, f"span F1 of the last model, {len(model.selected_groups_)} templates", f1, "%")


def print_lasso(args):
    from sklearn_crfsuite import CRF

    (X, y), (held, y_held) = (
        load_conll(args.data / "conll2002" / name, columns=("word", "pos", "label"))
        for name in ("esp.train.gz", "esp.testa.gz")
    )
    n = min(args.sentences, len(X))
    fields = "word", "pos", "lower", "shape", "prefix3", "suffix3"
    vectorizer = TemplateVectorizer([each for field in fields for each in ngrams(field, (1, 1), 2)], min_count=2)
    X, held = vectorizer.fit_transform(X[:n]), vectorizer.transform(held)
    rows, held_rows = list(sentences_of(X)), list(sentences_of(held))
    print(f"{n:,} sentences, {X.values.shape[1]:,} columns")
    print(f"{'c1':>6}{'model':>10}{'weights':>10}{'F1':>8}{'CPU':>9}{'gap':>10}")
    # The first fit loads compiled code.
    model = StructuredGroupLasso("chain", loss=args.loss, l1_ratio=1.0, tol=args.tol)
    model.fit(X[:20], y[:20])
    for c1 in args.strengths:
        began = process_time()
        model.set_params(alpha=c1 / n).fit(X, y[:n])
        seconds, f1 = process_time() - began, 100 * span_f1_score(y_held, model.predict(held))
        print(
            f"{c1:6g}{'ours':>10}{model.n_nonzero_coefs_:10,}{f1:8.2f}{seconds:9.1f}{model.dual_gap_:10.1e}", flush=True
        )
        ours = seconds, model.n_nonzero_coefs_, f1
        peer = CRF(algorithm="lbfgs", c1=c1, c2=0.0, all_possible_states=True, all_possible_transitions=True)
        began = process_time()
        peer.fit(rows, y[:n])
        seconds, f1 = process_time() - began, 100 * span_f1_score(y_held, peer.predict(held_rows))
        print(f"{c1:6g}{'CRFsuite':>10}{len(peer.state_features_):10,}{f1:8.2f}{seconds:9.1f}", flush=True)
        theirs = seconds, len(peer.state_features_), f1
        measures = ("CPU time", "s"), ("weights of features kept", ""), ("span F1", "%")
        for (measure, unit), own, other in zip(measures, ours, theirs):
            data = f"Spanish entities, {n:,} sentences, c1={c1:g}"
            results.record("lasso", data, measure, own, unit, "CRFsuite", other, package="sklearn-crfsuite")


def main():
    args = parse_arguments()
    if args.chunking:
        print_chunking(args)
    elif args.lasso:
        print_lasso(args)
    elif args.flat:
        print_flat()
    else:
        print_multinomial(args)


if __name__ == "__main__":
    main()
