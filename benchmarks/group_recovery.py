"""Groups that GroupLassoPerceptron recovers, by schedule of shrinkages, compared with batch group lasso.

    python benchmarks/group_recovery.py
    python benchmarks/group_recovery.py --tables

The first draws 30 groups of 4 features, of which 6 decide a binary label with noise. Features of different groups are
correlated: the j-th features of all groups share a factor. Rows are the numbers of samples, columns the schedules; each
cell is the percentage of the true groups among the 6 that are selected, the mean over several draws.

The second selects groups of the columns of scikit-learn's own tables, standardised, and prints the accuracy on test
parts: batch group lasso, the same after logistic regression on the selected columns (C=100), and GroupLassoPerceptron
with its defaults and with the schedule of the paper. `--part dev` splits the first 70 % of a table again and again, on
which the defaults were chosen; `--part test` trains on the same parts of these 70 %, and scores on the other
30 %, which nothing was chosen on.

Batch group lasso is multinomial logistic regression with a penalty on the norms of the groups, fitted by accelerated
proximal gradient steps; its strength is the least, by bisection, at which no more groups survive than the budget.
"""

import argparse

import numpy as np
import results
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import GroupLassoPerceptron
from sklearn_sparsemap.penalties import GroupLasso

N_GROUPS, SIZE, N_TRUE = 30, 4, 6
GROUP_OF = np.repeat(np.arange(N_GROUPS), SIZE)
# Halvings of the logarithm of the strength, from its maximum down to this fraction of it.
N_HALVINGS, LEAST = 14, 1e-4


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tables", action="store_true", help="accuracy on tables instead of recovery")
    parser.add_argument("--part", choices=["dev", "test"], default="test", help="of the tables")
    parser.add_argument("--splits", type=int, default=10, help="of each table")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the standardised columns of tables")
    parser.add_argument("--samples", nargs="+", type=int, default=[300, 1000, 3000, 10_000, 20_000])
    parser.add_argument("--correlations", nargs="+", type=float, default=[0.0, 0.7, 0.95])
    parser.add_argument("--schedules", nargs="+", default=["auto", "20", "100", "300", "1000", "3000"])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--batch-most", type=int, default=20_000, help="samples of the largest batch group lasso")
    return results.parse(parser)


def minimise(X, Y, penalty, coef, intercept, n_iter=500, tol=1e-5):
    """Minimise the mean logistic loss plus a group lasso by accelerated proximal gradient steps, from some weights."""
    n = len(X)
    step = 2.0 * n / (np.linalg.norm(X, 2) ** 2 + n)
    point, at, momentum = coef, intercept, 1.0
    for _ in range(n_iter):
        scores = X @ point + at
        residual = np.exp(scores - scores.max(axis=1, keepdims=True))
        residual = (residual / residual.sum(axis=1, keepdims=True) - Y) / n
        new, new_intercept = penalty.prox(point - step * (X.T @ residual), step), at - step * residual.sum(axis=0)
        if ((point - new) * (new - coef)).sum() > 0.0:
            momentum = 1.0
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead, change = (momentum - 1.0) / faster, np.abs(new - coef).max()
        point, at = new + ahead * (new - coef), new_intercept + ahead * (new_intercept - intercept)
        coef, intercept, momentum = new, new_intercept, faster
        if change < tol:
            break
    return coef, intercept


def batch_group_lasso(X, y, group_of, budget):
    """Return weights, intercept and the selected groups of a group lasso of at most `budget` groups."""
    Y = np.eye(int(y.max()) + 1)[y]
    coef, intercept = np.zeros((X.shape[1], Y.shape[1])), np.log(Y.mean(axis=0))
    gradient = X.T @ (Y - Y.mean(axis=0)) / len(X)
    high = np.sqrt(np.bincount(group_of, (gradient**2).sum(axis=1))).max()
    low, best = LEAST * high, (coef, intercept, np.zeros(0, int))
    for _ in range(N_HALVINGS):
        alpha = np.sqrt(low * high)
        coef, intercept = minimise(X, Y, GroupLasso(group_of, alpha), coef, intercept)
        selected = np.unique(group_of[coef.any(axis=1)])
        if len(selected) <= budget:
            high, best = alpha, (coef, intercept, selected)
        else:
            low = alpha
    return best


def schedule_of(name):
    return name if name == "auto" else int(name)


# -- Recovery ----------------------------------------------------------------------------------------------------------


def draw(n, correlation, seed):
    """Draw samples and labels; return them with the groups that decide the labels."""
    rng = np.random.default_rng(seed)
    shared, own = rng.normal(size=(n, 1, SIZE)), rng.normal(size=(n, N_GROUPS, SIZE))
    X = np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * own
    true, directions = rng.choice(N_GROUPS, N_TRUE, replace=False), rng.normal(size=(N_TRUE, SIZE))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    scores = np.einsum("ngs,gs->n", X[:, true], directions) / np.sqrt(1.0 - correlation)
    return X.reshape(n, -1), (scores + rng.normal(size=n) > 0).astype(int), set(true.tolist())


def print_recovery(args):
    names = [*args.schedules, "batch"]
    print(f"{'correlation':>12}{'samples':>9}" + "".join(f"{name:>9}" for name in names))
    for correlation in args.correlations:
        for n in args.samples:
            found = {name: [] for name in names}
            for seed in range(args.draws):
                X, y, true = draw(n, correlation, seed)
                selected = {}
                for name in args.schedules:
                    model = GroupLassoPerceptron(
                        groups=GROUP_OF, budget=N_TRUE, shrink_every=schedule_of(name), debias=None, random_state=0
                    )
                    selected[name] = model.fit(X, y).selected_groups_
                if n <= args.batch_most:
                    selected["batch"] = batch_group_lasso(X, y, GROUP_OF, N_TRUE)[2]
                for name, groups in selected.items():
                    found[name].append(len(true & set(groups.tolist())) / N_TRUE)
            by_batch = 100 * np.mean(found["batch"]) if found["batch"] else None
            for name in args.schedules:
                results.record("groups recovered", f"{n:,} samples, correlation {correlation:g}", f"schedule {name}",
                               100 * np.mean(found[name]), "%", "batch group lasso" if found["batch"] else "",
                               by_batch, args.draws)  # fmt: skip
            cells = "".join(f"{100 * np.mean(found[name]):9.0f}" if found[name] else f"{'-':>9}" for name in names)
            print(f"{correlation:12}{n:9,}{cells}", flush=True)


# -- Tables ------------------------------------------------------------------------------------------------------------


def load_tables():
    """Yield name, features, labels, the group of each column, and budgets."""
    cancer, wine, digits, iris = load_breast_cancer(), load_wine(), load_digits(), load_iris()
    # Mean, error and worst value of each measurement.
    yield "breast_cancer", cancer.data, cancer.target, np.arange(30) % 10, (2, 4)
    yield "breast_cancer, thirds", cancer.data, cancer.target, np.arange(30) // 3, (2, 4)
    yield "wine", wine.data, wine.target, np.arange(13), (2, 4)
    # 16 blocks of 2 x 2 pixels.
    row, column = np.divmod(np.arange(64), 8)
    yield "digits", digits.data, digits.target, row // 2 * 4 + column // 2, (4, 8)
    # Sepal and petal.
    yield "iris", iris.data, iris.target, np.array([0, 0, 1, 1]), (1,)


def split(args, y):
    """Yield training and held-out rows."""
    first, held = train_test_split(np.arange(len(y)), test_size=0.3, stratify=y, random_state=0)
    for train, rest in StratifiedShuffleSplit(args.splits, test_size=0.3, random_state=1).split(first, y[first]):
        yield first[train], held if args.part == "test" else first[rest]


def score_all(X, y, X_held, y_held, group_of, budget):
    """Return the accuracy of each method, by name."""
    coef, intercept, selected = batch_group_lasso(X, y, group_of, budget)
    columns = np.isin(group_of, selected)
    refitted = LogisticRegression(C=100.0, max_iter=10_000).fit(X[:, columns], y)
    scores = {
        "batch": ((X_held @ coef + intercept).argmax(axis=1) == y_held).mean(),
        "batch, refitted": refitted.score(X_held[:, columns], y_held),
    }
    for name, schedule in (("defaults", "auto"), ("every 1,000", 1000)):
        model = GroupLassoPerceptron(groups=group_of, budget=budget, shrink_every=schedule, random_state=0)
        scores[name] = model.fit(X, y).score(X_held, y_held)
    return scores


def print_tables(args):
    print(f"{'':24}{'budget':>7}", end="")
    for number, (name, X, y, group_of, budgets) in enumerate(load_tables()):
        for budget in budgets:
            scores = []
            for train, held in split(args, y):
                scaler = StandardScaler().fit(X[train])
                X_train, X_held = (args.scale * scaler.transform(X[part]) for part in (train, held))
                parts = X_train, y[train], X_held, y[held]
                scores.append(score_all(*parts, group_of, budget))
            if number == 0 and budget == budgets[0]:
                print("".join(f"{method:>24}" for method in scores[0]))
            means = {method: 100 * np.mean([row[method] for row in scores]) for method in scores[0]}
            results.record("groups selected", f"{name}, {budget} groups", "accuracy", means["defaults"], "%",
                           "batch group lasso, refitted", means["batch, refitted"], len(scores))  # fmt: skip
            cells = ""
            for method in scores[0]:
                values = 100 * np.array([row[method] for row in scores])
                cells += f"{f'{values.mean():.1f} ({values.min():.1f} to {values.max():.1f})':>24}"
            print(f"{name:24}{budget:7}{cells}", flush=True)


def main():
    args = parse_arguments()
    if args.tables:
        print_tables(args)
    else:
        print_recovery(args)


if __name__ == "__main__":
    main()
