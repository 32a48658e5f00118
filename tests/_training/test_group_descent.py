"""The optimiser of batch group lasso reaches the minimum, which `tests/estimators/test_group_lasso.py` compares."""

import numpy as np
import pytest

from sklearn_sparsemap import StructuredGroupLasso


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_steps_lead_from_zero_to_the_groups_that_matter(l1_ratio):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    y = np.where(X[:, 0] - X[:, 1] > 0.0, "a", "b")
    groups = {"signal": [0, 1], "noise": [2, 3], "more noise": [4, 5]}
    model = StructuredGroupLasso(groups=groups, alpha=0.05, l1_ratio=l1_ratio, tol=1e-8).fit(X, y)
    # At zero weights the objective is 0.25. Already the first step goes down the gradient.
    assert model.loss_curve_[0] < 0.2 and model.dual_gap_ < 1e-7
    assert model.selected_group_names_ == ["signal"] and model.score(X, y) > 0.9
