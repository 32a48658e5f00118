"""Dependency parsing on UD English by threads: time to a given attachment score, features included.

    python benchmarks/parsing_time.py --data DIR

DIR holds ud/en_ewt-r2.0. Trees are learned as in parsing.py, from arc features in mini-batches, until the score on the
development part is reached. Each mini-batch is made into features, and learned from, on each number of threads in turn;
the weights are compared, bit by bit. Some mini-batches are then learned again and again, and of these the least times
count. On a busy machine wall time says little about threads. The CPU seconds of the busiest thread, plus those of the
serial parts, are the time that learning would take on cores of its own. Fractions are of the wall time and of the
busiest thread's time on the first number of threads. To compare with another version of the
package, run this with that one first in PYTHONPATH.
"""

import argparse
import warnings
from functools import partial
from pathlib import Path
from time import perf_counter, process_time, thread_time

import numpy as np
import results
from parsing import TREEBANKS, Corpus, batches, pick

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap._training._online import optimizer
from sklearn_sparsemap.features import ArcVectorizer, dependency_templates
from sklearn_sparsemap.metrics import unlabeled_attachment_score
from sklearn_sparsemap.structures import DependencyTree

# CPU seconds of the members of each team of threads that worked.
teams = []


def note_teams():
    """Let teams of threads note their CPU seconds, in versions that have teams."""
    together = getattr(optimizer, "together", None)
    if together is None:
        return

    def noting(function, n_threads, give_up):
        team = [0.0] * n_threads

        def work(me):
            started = thread_time()
            function(me)
            team[me] = thread_time() - started

        together(work, n_threads, give_up)
        teams.append(team)

    optimizer.together = noting


def timed(function):
    """Return the result of a function, and its seconds: of the wall, of all threads, and of the busiest thread.

    The last are what it would take where each thread has a core to itself: what is done by one thread alone, and of
    teams their busiest member, waiting for others included.
    """
    teams.clear()
    wall, used = perf_counter(), process_time()
    found = function()
    wall, used = perf_counter() - wall, process_time() - used
    return found, (wall, used, used - sum(map(sum, teams)) + sum(map(max, teams)))


def score_of(model, corpus):
    """Return the attachment score in percent."""
    trees = [tree for X, _, _ in corpus.batches() for tree in model.predict(X)]
    return 100 * unlabeled_attachment_score(corpus.heads, trees)


def visit(models, vectorizers, corpus, places):
    """Make features of a mini-batch and learn from it, on each number of threads; return the times.

    Returns
    -------
    taken : dict of int -> array of shape (2, 3)
        By number of threads: of the features and of learning, by the wall, of all threads and of the busiest.
    """
    sentences, heads, taken = pick(corpus.sentences, places), pick(corpus.heads, places), {}
    for n, model in models.items():
        X, of_features = timed(partial(vectorizers[n].transform, sentences))
        taken[n] = np.array([of_features, timed(partial(model.partial_fit, X, heads))[1]])
    return taken


def report(title, taken):
    """Print a table of times."""
    head = f"{'threads':>8}{'features s':>12}{'CPU s':>8}{'learning s':>12}{'CPU s':>8}{'busiest':>10}{'fractions':>12}"
    print(f"{title}\n{head}")
    first = next(iter(taken.values()))
    for n, times in taken.items():
        numbers = f"{times[0, 0]:>12.1f}{times[0, 1]:>8.1f}{times[1, 0]:>12.1f}{times[1, 1]:>8.1f}{times[1, 2]:>10.1f}"
        results.record("parsing by threads", title, f"CPU time of the busiest thread, {n} threads", times[1, 2], "s")
        shares = f"{times[:, 0].sum() / first[:, 0].sum():.2f}, {times[1, 2] / first[1, 2]:.2f}"
        print(f"{n:>8}{numbers}{shares:>12}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--target", type=float, default=85.4, help="score on the development part to stop at")
    parser.add_argument("--loss", default="margin_sparsemap")
    parser.add_argument("--batch-size", type=int, default=None, help="samples that see the same weights")
    parser.add_argument("--epochs", type=int, default=5, help="at most")
    parser.add_argument("--repeated", type=int, default=4, help="mini-batches that are measured again and again")
    parser.add_argument("--repeats", type=int, default=10, help="how often")
    parser.add_argument("--dtype", choices=("float32", "float64"), help="of the weights")
    parser.add_argument("--most", type=int, default=None, help="use so many sentences of each part only")
    arguments = results.parse(parser)
    warnings.simplefilter("ignore")
    note_teams()
    templates, folder = dependency_templates(fine_pos="xpos"), arguments.data / TREEBANKS["English"]
    vectorizers = {n: ArcVectorizer(templates, n_features=2**22, n_jobs=n) for n in arguments.threads}
    last = vectorizers[arguments.threads[-1]]
    train, dev, test = (Corpus(folder / f"{part}.conllu.gz", last, arguments.most) for part in ("train", "dev", "test"))
    own = {name: value for name in ("batch_size", "dtype") if (value := getattr(arguments, name)) is not None}
    models = {
        n: StructuredSparseMAPClassifier(DependencyTree(single_root=True), arguments.loss, alpha=1e-3, n_jobs=n, **own)
        for n in arguments.threads
    }
    # Compiles, or loads.
    for n in arguments.threads:
        X = vectorizers[n].transform(train.sentences[:20])
        StructuredSparseMAPClassifier(**models[n].get_params()).partial_fit(X, train.heads[:20]).predict(X)
    rng = np.random.default_rng(0)
    orders, taken = [rng.permutation(len(train)) for _ in range(arguments.epochs)], []
    for epoch, order in enumerate(orders, 1):
        taken += [visit(models, vectorizers, train, places) for places in batches(len(train), order)]
        score = score_of(models[arguments.threads[-1]], dev)
        print(f"epoch {epoch}: UAS on the development part {score:.2f}", flush=True)
        if score >= arguments.target:
            break
    print(f"UAS on the test part {score_of(models[arguments.threads[-1]], test):.2f}")
    first, *others = (model.coef_ for model in models.values())
    if others:
        same = all(np.array_equal(first, other) for other in others)
        print(f"weights are {'equal, bit by bit' if same else 'DIFFERENT'}")
    report("All of it", {n: sum(times[n] for times in taken) for n in models})
    least = {n: 0.0 for n in models}
    for places in batches(len(train), order)[: arguments.repeated]:
        runs = [visit(models, vectorizers, train, places) for _ in range(arguments.repeats)]
        least = {n: total + np.min([run[n] for run in runs], axis=0) for n, total in least.items()}
    report(f"The first {arguments.repeated} mini-batches, the least of {arguments.repeats} times", least)


if __name__ == "__main__":
    main()
