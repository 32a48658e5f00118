"""The optimisers: the objective and its gradient, AdaGrad and MIRA against plain implementations."""

import numpy as np
import pytest
from internals import (
    BatchObjective,
    Inference,
    LinearModel,
    MiraOptimizer,
    OnlineOptimizer,
    StructureTask,
    begins_of_pieces,
    loss_form,
    make_rows,
    minimize_bundle,
    new_memory,
    readonly,
    replace,
    simplex_qp,
)
from internals import online_optimizer as _online
from naive_training import N_FEATURES, N_LABELS, make_objective, make_problem
from scipy import sparse
from scipy.optimize import check_grad, minimize
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.structures import LinearChain, Simplex


@pytest.mark.parametrize("structure", [Simplex(), LinearChain()], ids=repr)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_objective_does_not_depend_on_blocks_of_samples(structure, fit_intercept, monkeypatch):
    X, gold, targets, model = make_problem(structure)
    X = RaggedArray(sparse.csr_array(X.values), X.indptr)
    options = {"alpha": 0.3, "fit_intercept": fit_intercept, "n_jobs": 2}
    arguments = structure, X, gold, targets, model, "crf", 0.7
    whole = make_objective(*arguments, **options)
    point = whole.pack(model)
    value, gradient = whole.loss_gradient(point)
    replace(monkeypatch, "_training", "_BLOCK", N_LABELS)
    replace(monkeypatch, "_training", "_FEW_BLOCKS", 2)
    cut = make_objective(*arguments, **options)
    assert len(cut._blocks) > 2
    # Blocks are views of the features.
    for _, features in cut._blocks:
        assert all(np.shares_memory(part, own) for part, own in zip(features.rows[:2], whole.features.rows[:2]))
    found, slope = cut.loss_gradient(point)
    assert found == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(slope, gradient, rtol=0, atol=1e-13)


@pytest.mark.parametrize("structure", [Simplex(), LinearChain()], ids=repr)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", ["sparsemap", "margin_crf"])
def test_gradient_of_the_objective(structure, fit_intercept, loss):
    X, gold, targets, model = make_problem(structure)
    for features in (X, RaggedArray(sparse.csr_array(X.values), X.indptr)):
        objective = make_objective(
            structure, features, gold, targets, model, loss, 0.7, alpha=0.3, fit_intercept=fit_intercept, n_jobs=2
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


@pytest.mark.parametrize("structure", [Simplex(), LinearChain()], ids=repr)
def test_a_part_of_a_task_is_the_task_of_that_part(structure):
    X, gold, targets, model = make_problem(structure, n_samples=7)
    places = np.array([5, 0, 3])
    task = StructureTask(structure, X, N_LABELS).learn(gold, targets.weights, "margin_sparsemap")
    part = X[places]
    anew = StructureTask(structure, part, N_LABELS)
    anew = anew.learn([gold[i] for i in places], targets.weights[places], "margin_sparsemap")
    # The part does not share the memory of the whole task.
    task.loss_gradient(X.values @ model.coef, model.additional, None)
    scores = part.values @ model.coef + model.intercept
    for one, other in zip(*(t.loss_gradient(scores.copy(), model.additional, None) for t in (task.take(places), anew))):
        np.testing.assert_array_equal(one, other)
    other_loss = anew.under("crf", 0.5)
    assert other_loss.loss_gradient(scores, model.additional, None)[0] > 0.0 and anew.loss == "margin_sparsemap"


def plain_adagrad(structure, X, gold, targets, model, order, *, alpha, eta0, temperature, every, batch_size=1):
    """AdaGrad with dense vectors and the average kept explicitly; blocks of samples see the same weights."""
    m = N_LABELS
    w = np.concatenate([model.coef.ravel(), model.intercept, model.additional])
    n_coef = model.coef.size
    squares = np.full(len(w), _online._FIRST_SQUARE)
    total = np.zeros(len(w))
    loss = FenchelYoungLoss(structure, temperature=temperature)
    shapes = structure.learned_shapes(m)
    penalised = np.r_[0:n_coef, n_coef + m : len(w)]
    since, seen = 0, w
    for number, i in enumerate(order):
        if number % batch_size == 0:
            seen = w.copy()
        rows = slice(targets.row_ptr[i], targets.row_ptr[i + 1])
        scores = X.values[rows] @ seen[:n_coef].reshape(-1, m) + seen[n_coef : n_coef + m]
        additional, start = {}, n_coef + m
        for name, shape in shapes.items():
            additional[name] = seen[start : start + int(np.prod(shape))].reshape(shape)
            start += int(np.prod(shape))
        if isinstance(structure, Simplex):
            scores = scores[0]
        _, gradient = loss.loss_gradient(scores, gold[i], **additional)
        residual = gradient["scores"].reshape(-1, m)
        weight = targets.weights[i]

        def step(places, g):
            squares[places] += g**2
            w[places] -= eta0 * g / np.sqrt(squares[places])

        for x, r in zip(X.values[rows], residual):
            for f in np.flatnonzero(x):
                step(np.arange(f * m, (f + 1) * m), weight * x[f] * r)
            step(np.arange(n_coef, n_coef + m), weight * r)
        if shapes:
            step(np.arange(n_coef + m, len(w)), weight * np.concatenate([gradient[n].ravel() for n in shapes]))
        total += w
        since += 1
        if since >= every and (number % batch_size == batch_size - 1 or number == len(order) - 1):
            # From here on, so it counts from the next step's average.
            w[penalised] /= 1.0 + eta0 * alpha * since / np.sqrt(squares[penalised])
            since = 0
    return w, total / len(order)


@pytest.mark.parametrize("structure", [Simplex(), LinearChain()], ids=repr)
@pytest.mark.parametrize(("average", "batch_size"), [(True, 1), (False, 1), (True, 3)])
def test_adagrad_equals_a_plain_implementation(structure, average, batch_size, monkeypatch):
    monkeypatch.setattr(_online, "_SAMPLES_PER_PENALTY", 1)
    X, gold, targets, model = make_problem(structure)
    settings = {"alpha": 0.01, "eta0": 0.2}
    rows = make_rows(X.values)
    every = max(1, N_FEATURES // max(1, len(rows.data) // len(gold)))
    # The last step ends without a penalty that no average has seen.
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(gold)), 5))[: 5 * len(gold) // every * every]
    order = order[:-1] if every > 1 else order
    optimizer = OnlineOptimizer(model.copy(), average=average)
    optimizer.configure(tol=1e-12, fit_intercept=True, batch_size=batch_size, **settings)
    form, inference = loss_form(structure, "sparsemap", 0.8, None), Inference(structure, "sparsemap")
    half = len(order) // 2 // batch_size * batch_size
    for part in (order[:half], order[half:]):
        optimizer.epoch(inference, form, rows, targets, part, new_memory(targets.sizes, 10**6))
    found = optimizer.model()
    settings |= {"every": every, "temperature": 0.8, "batch_size": batch_size}
    last, mean = plain_adagrad(structure, X, gold, targets, model, order, **settings)
    expected = mean if average else last
    np.testing.assert_allclose(BatchObjective.pack(found), expected, atol=1e-7)


def test_adagrad_approaches_the_minimum():
    structure = LinearChain()
    X, gold, targets, model = make_problem(structure, n_samples=40)
    memory = new_memory(targets.sizes, 10**6)
    form, inference = loss_form(structure, "sparsemap", 1.0, None), Inference(structure, "sparsemap")
    objective = make_objective(
        structure, X, gold, targets, model, "sparsemap", 1.0, alpha=0.05, fit_intercept=True, n_jobs=None
    )
    best = minimize(objective.loss_gradient, objective.pack(model), jac=True, method="L-BFGS-B").fun
    start = LinearModel.zeros(N_FEATURES, N_LABELS, len(model.additional))
    # The weights of the samples are relative in the objective, absolute online.
    relative = targets._replace(weights=readonly(targets.weights / targets.weights.mean()))
    optimizer = OnlineOptimizer(start, average=True)
    optimizer.configure(alpha=0.05, eta0=0.1, tol=1e-10, fit_intercept=True)
    rng = np.random.default_rng(0)
    for _ in range(300):
        order = rng.permutation(len(targets.weights))
        optimizer.epoch(inference, form, make_rows(X.values), relative, order, memory)
    reached = objective.loss_gradient(objective.pack(optimizer.model()))[0]
    assert reached == pytest.approx(best, rel=0.02)


def plain_mira(structure, X, gold, targets, model, order, C):
    """1-best MIRA with dense vectors and the average kept explicitly."""
    m, shapes = N_LABELS, structure.learned_shapes(N_LABELS)
    w = np.concatenate([model.coef.ravel(), model.intercept, model.additional])
    n_coef, total = model.coef.size, np.zeros(len(w))
    hinge = FenchelYoungLoss(structure, "hinge")
    for i in order:
        rows = slice(targets.row_ptr[i], targets.row_ptr[i + 1])
        scores = X.values[rows] @ w[:n_coef].reshape(-1, m) + w[n_coef : n_coef + m]
        additional, start = {}, n_coef + m
        for name, shape in shapes.items():
            additional[name] = w[start : start + int(np.prod(shape))].reshape(shape)
            start += int(np.prod(shape))
        scores = scores[0] if isinstance(structure, Simplex) else scores
        loss, gradient = hinge.loss_gradient(scores, gold[i], **additional)
        residual = gradient["scores"].reshape(-1, m)
        joined = [(X.values[rows].T @ residual).ravel(), residual.sum(axis=0)] + [gradient[n].ravel() for n in shapes]
        direction = np.concatenate(joined)
        if direction.any():
            w -= min(C * targets.weights[i], loss / (direction @ direction)) * direction
        total += w
    return w, total / len(order)


@pytest.mark.parametrize("structure", [Simplex(), LinearChain()], ids=repr)
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("C", [np.inf, 0.05])
def test_mira_equals_a_plain_implementation(structure, average, C):
    X, gold, targets, model = make_problem(structure, n_samples=10)
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(gold)), 4))
    optimizer = MiraOptimizer(model.copy(), average=average)
    optimizer.configure(C=C, fit_intercept=True)
    form, inference = loss_form(structure, "hinge", 1.0, None), Inference(structure, "hinge")
    half = len(order) // 2
    for part in (order[:half], order[half:]):
        optimizer.epoch(inference, form, make_rows(X.values), targets, part, new_memory(targets.sizes, 0))
    last, mean = plain_mira(structure, X, gold, targets, model, order, C)
    np.testing.assert_allclose(BatchObjective.pack(optimizer.model()), mean if average else last, atol=1e-10)
    assert not optimizer.store.state.any()


def test_a_step_of_mira_mends_the_mistake():
    structure = LinearChain()
    X, _, targets, model = make_problem(structure, n_samples=1)
    optimizer = MiraOptimizer(model.copy(), average=False)
    optimizer.configure(C=np.inf, fit_intercept=True)
    form, inference = loss_form(structure, "hinge", 1.0, None), Inference(structure, "hinge")
    arguments = inference, form, make_rows(X.values), targets, np.arange(1), new_memory(targets.sizes, 0)
    losses = [optimizer.epoch(*arguments) for _ in range(50)]
    assert losses[0] > 0.1 and losses[-1] == pytest.approx(0.0, abs=1e-9)


def test_quadratic_programs_over_the_simplex():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 30):
        for rank in (1, 3, n):
            factor, linear = rng.normal(size=(n, rank)), rng.normal(size=n)
            hessian, x = factor @ factor.T, simplex_qp(factor @ factor.T, linear, np.eye(n)[0])
            assert (x >= 0).all() and x.sum() == pytest.approx(1.0)
            slope = hessian @ x + linear
            np.testing.assert_allclose(slope[x > 0], slope.min(), atol=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_bundle_method_finds_kinks(scale):
    rng = np.random.default_rng(1)
    n, alpha = 12, 0.01
    ends, costs = rng.normal(size=n) / scale, scale * rng.uniform(0.5, 2.0, size=n)
    penalised = np.arange(n) < 9

    def objective(x):
        slope = costs * np.sign(x - ends) + alpha * np.where(penalised, x, 0.0)
        return costs @ np.abs(x - ends) + 0.5 * alpha * (x[penalised] @ x[penalised]), slope

    steps = []
    x, value, largest, message = minimize_bundle(
        objective,
        np.zeros(n),
        penalised,
        alpha=alpha,
        tol=1e-7 * scale,
        most_calls=500,
        after_step=lambda point, value: steps.append(value),
    )
    # The penalty is too weak to move a weight from its kink, except those that it keeps at zero.
    best = np.where(penalised & (alpha * np.abs(ends) > costs), np.sign(ends) * costs / alpha, ends)
    assert message == "" and largest <= 1e-7 * scale
    np.testing.assert_allclose(x, best, atol=1e-6 / scale)
    assert value == steps[-1] and (np.diff(steps) < 1e-12).all()


def noisy_chains(n, n_features=2, n_labels=3, seed=0):
    """Make sequences of noisy labels that depend on the features of their step only: transitions end at kinks."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(n_features, n_labels))
    X = [rng.normal(size=(rng.integers(2, 12), n_features)) for _ in range(n)]
    return X, [(x @ weights + rng.normal(size=(len(x), n_labels))).argmax(axis=1) for x in X]


def test_lbfgs_reaches_the_minimum_from_anywhere():
    X, y = noisy_chains(12)
    losses = []
    for start in range(2):
        model = StructuredSparseMAPClassifier("chain", solver="lbfgs", alpha=1e-3, tol=1e-7, warm_start=True)
        model.fit(X[: 6 * start + 3], y[: 6 * start + 3])
        losses.append(model.fit(X, y).loss_curve_[-1])
    assert np.ptp(losses) < 1e-8
    # Without creeping along the kink, for longer than that takes.
    default = StructuredSparseMAPClassifier("chain", solver="lbfgs", alpha=1e-3).fit(X, y)
    assert default.loss_curve_[-1] < losses[0] + 1e-4 and default.n_iter_ < 80


def test_lbfgs_says_when_it_does_not_meet_the_tolerance():
    X, y = noisy_chains(30)
    flat = np.vstack(X), np.concatenate(y)
    with pytest.warns(ConvergenceWarning, match="no longer moves; the largest entry of the gradient is .*, tol is 0"):
        StructuredSparseMAPClassifier(solver="lbfgs", tol=0.0).fit(*flat)
    with pytest.warns(ConvergenceWarning, match="it reached max_iter; the largest entry of the gradient is"):
        StructuredSparseMAPClassifier("chain", solver="lbfgs", max_iter=20, tol=1e-7).fit(X, y)


def test_lbfgs_runs_on_one_thread_of_blas(monkeypatch):
    seen = []

    def n_threads():
        return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

    original = BatchObjective.loss_gradient
    monkeypatch.setattr(
        BatchObjective, "loss_gradient", lambda self, *given: (seen.append(n_threads()), original(self, *given))[1]
    )
    with threadpool_limits(2, user_api="blas"):
        before = n_threads()
        StructuredSparseMAPClassifier(solver="lbfgs").fit(np.eye(4), [0, 1, 0, 1])
        assert n_threads() == before
    if before == 1:
        pytest.skip("BLAS has a single thread here")
    assert set(seen) == {1}


@pytest.mark.parametrize("cuts", [[], [7], [0, 3, 3, 19, 20]])
def test_pieces_of_columns(cuts):
    X = sparse.random(40, 20, density=0.1, format="csr", rng=np.random.default_rng(0))
    rows = make_rows(X)
    assert 0 in np.diff(rows.indptr), "no row is empty"
    expected = [rows.indptr[:-1]]
    for cut in cuts:
        expected.append(rows.indptr[:-1] + (X.toarray()[:, :cut] != 0.0).sum(1))
    begins = begins_of_pieces(rows, cuts)
    np.testing.assert_array_equal(begins, [*expected, rows.indptr[1:]])
