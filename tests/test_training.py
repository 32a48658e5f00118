"""The optimisers: the objective and its gradient, and AdaGrad against a plain implementation."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import check_grad, minimize

from sklearn_sparsemap._jit import readonly
from sklearn_sparsemap.inference import solver_of
from sklearn_sparsemap.losses import FenchelYoungLoss, new_memory
from sklearn_sparsemap.structures import LinearChain, Simplex
from sklearn_sparsemap.training import _online
from sklearn_sparsemap.training._batch import BatchObjective
from sklearn_sparsemap.training._data import LinearModel, make_rows, make_targets
from sklearn_sparsemap.training._online import OnlineOptimizer

N_FEATURES, N_LABELS = 4, 3


def make_problem(structure, seed=0, n_samples=6):
    rng = np.random.default_rng(seed)
    lengths = np.ones(n_samples, int) if isinstance(structure, Simplex) else rng.integers(1, 5, size=n_samples)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    X = rng.normal(size=(indptr[-1], N_FEATURES)) * (rng.random((indptr[-1], N_FEATURES)) < 0.7)
    codes = rng.integers(N_LABELS, size=indptr[-1])
    gold = list(codes) if isinstance(structure, Simplex) else np.split(codes, indptr[1:-1])
    weights = rng.uniform(0.5, 1.5, size=n_samples)
    n_additional = sum(int(np.prod(s)) for s in structure.learned_shapes(N_LABELS).values())
    model = LinearModel(
        rng.normal(size=(N_FEATURES, N_LABELS)), rng.normal(size=N_LABELS), rng.normal(size=n_additional)
    )
    return X, gold, make_targets(structure, indptr, N_LABELS, gold, weights), model


@pytest.mark.parametrize("structure", [Simplex(), LinearChain()], ids=repr)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gradient_of_the_objective(structure, fit_intercept):
    X, _, targets, model = make_problem(structure)
    for features in (X, sparse.csr_array(X)):
        objective = BatchObjective(
            structure.oracle,
            solver_of(structure),
            features,
            targets,
            model,
            new_memory(targets.sizes, 10**6),
            alpha=0.3,
            temperature=0.7,
            tol=1e-12,
            fit_intercept=fit_intercept,
            n_jobs=2,
        )
        start = objective.pack(model)
        if not fit_intercept:
            start[N_FEATURES * N_LABELS :][:N_LABELS] = 0.0
        value, gradient = objective.loss_gradient(start)
        moving = np.ones(len(start))
        if not fit_intercept:
            moving[N_FEATURES * N_LABELS :][:N_LABELS] = 0.0

        def f(x):
            return objective.loss_gradient(start + moving * x)[0]

        def g(x):
            return moving * objective.loss_gradient(start + moving * x)[1]

        assert check_grad(f, g, np.zeros(len(start))) < 1e-5
        again, same = objective.loss_gradient(start)
        assert again == pytest.approx(value, abs=1e-10)
        np.testing.assert_allclose(same, gradient, atol=1e-9)


def plain_adagrad(structure, X, gold, targets, model, order, *, alpha, eta0, temperature, every):
    """AdaGrad with dense vectors and the average kept explicitly."""
    m = N_LABELS
    w = np.concatenate([model.coef.ravel(), model.intercept, model.additional])
    n_coef = model.coef.size
    squares = np.full(len(w), _online._FIRST_SQUARE)
    total = np.zeros(len(w))
    loss = FenchelYoungLoss(structure, temperature=temperature)
    shapes = structure.learned_shapes(m)
    penalised = np.r_[0:n_coef, n_coef + m : len(w)]
    since = 0
    for i in order:
        rows = slice(targets.row_ptr[i], targets.row_ptr[i + 1])
        scores = X[rows] @ w[:n_coef].reshape(-1, m) + w[n_coef : n_coef + m]
        additional, start = {}, n_coef + m
        for name, shape in shapes.items():
            additional[name] = w[start : start + int(np.prod(shape))].reshape(shape)
            start += int(np.prod(shape))
        if isinstance(structure, Simplex):
            scores = scores[0]
        _, gradient = loss.loss_gradient(scores, gold[i], **additional)
        residual = gradient["scores"].reshape(-1, m)
        weight = targets.weights[i]

        def step(places, g):
            squares[places] += g**2
            w[places] -= eta0 * g / np.sqrt(squares[places])

        for x, r in zip(X[rows], residual):
            for f in np.flatnonzero(x):
                step(np.arange(f * m, (f + 1) * m), weight * x[f] * r)
            step(np.arange(n_coef, n_coef + m), weight * r)
        if shapes:
            step(np.arange(n_coef + m, len(w)), weight * np.concatenate([gradient[n].ravel() for n in shapes]))
        total += w
        since += 1
        if since == every:
            # From here on, so it counts from the next step's average.
            w[penalised] /= 1.0 + eta0 * alpha * every / np.sqrt(squares[penalised])
            since = 0
    return w, total / len(order)


@pytest.mark.parametrize("structure", [Simplex(), LinearChain()], ids=repr)
@pytest.mark.parametrize("average", [True, False])
def test_adagrad_equals_a_plain_implementation(structure, average, monkeypatch):
    monkeypatch.setattr(_online, "_SAMPLES_PER_PENALTY", 1)
    X, gold, targets, model = make_problem(structure)
    settings = {"alpha": 0.01, "eta0": 0.2, "temperature": 0.8}
    rows = make_rows(X)
    every = max(1, N_FEATURES // max(1, len(rows.data) // len(gold)))
    # The last step ends without a penalty that no average has seen.
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(gold)), 5))[: 5 * len(gold) // every * every]
    order = order[:-1] if every > 1 else order
    optimizer = OnlineOptimizer(model.copy(), tol=1e-12, fit_intercept=True, average=average, **settings)
    half = len(order) // 2
    for part in (order[:half], order[half:]):
        optimizer.epoch(
            structure.oracle, solver_of(structure), rows, targets, part, new_memory(targets.sizes, 10**6)
        )
    found = optimizer.model()
    last, mean = plain_adagrad(structure, X, gold, targets, model, order, every=every, **settings)
    expected = mean if average else last
    np.testing.assert_allclose(BatchObjective.pack(found), expected, atol=1e-7)


def test_adagrad_approaches_the_minimum():
    structure = LinearChain()
    X, _, targets, model = make_problem(structure, n_samples=40)
    memory = new_memory(targets.sizes, 10**6)
    objective = BatchObjective(
        structure.oracle, solver_of(structure), X, targets, model, memory,
        alpha=0.05, temperature=1.0, tol=1e-10, fit_intercept=True, n_jobs=None,
    )  # fmt: skip
    best = minimize(objective.loss_gradient, objective.pack(model), jac=True, method="L-BFGS-B").fun
    start = LinearModel.zeros(N_FEATURES, N_LABELS, len(model.additional))
    # The weights of the samples are relative in the objective, absolute online.
    relative = targets._replace(weights=readonly(targets.weights / targets.weights.mean()))
    optimizer = OnlineOptimizer(
        start, alpha=0.05, eta0=0.1, temperature=1.0, tol=1e-10, fit_intercept=True, average=True
    )
    rng = np.random.default_rng(0)
    for _ in range(300):
        order = rng.permutation(len(targets.weights))
        optimizer.epoch(structure.oracle, solver_of(structure), make_rows(X), relative, order, memory)
    reached = objective.loss_gradient(objective.pack(optimizer.model()))[0]
    assert reached == pytest.approx(best, rel=0.02)
