"""check_structure: the checks in their order, for all shapes and choices of additional scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state

from .._core.annotations import Any, Callable, Iterable, Sequence
from .._numerics.loops import SOLVERS_BY_NAME
from ._case import Case
from ._marginals import check_marginals
from ._oracle import check_forms, check_list, check_oracle, check_places
from ._protocol import check_attributes, check_linear_model, check_shape, choices_of_additional, require
from ._public import check_public
from ._solutions import check_derivatives, check_solutions

if TYPE_CHECKING:
    from ..structures import Structure


def check_structure(
    structure: Structure,
    *,
    shapes: Sequence[Any] | None = None,
    structures: Callable[..., Iterable[Any]] | None = None,
    n_instances: int = 6,
    random_state: int = 0,
) -> None:
    """Check that a structure follows the protocol of `Structure`, and that its oracles are correct.

    The structures are discovered by calling the MAP oracle with many scores. An oracle that does not maximise is
    detected if a structure that it returned before has a higher score than its answer. With `structures`, answers are
    compared with all structures.

    - **Protocol**: attributes, `additional_shapes`, `dims`, `sizes`, `scores_shape`, `learned_shapes`, `agreement`.
    - **MAP oracle**: the value is the score of the returned parts; parts exist, and each has a fixed slot; all slots
      are written, and nothing else; answers are reproducible, also with the contents of `work` after the last call, in
      threads, and from a copy of the structure; the answer is optimal, also with ties, scores of 1e8, and -inf.
    - **encode and decode** are inverse; structures have the same number of parts, if `fixed_size` says so, and one
      part at each place of `exclusive_parts`.
    - **SparseMAP**, with all solvers: a mixture of structures, optimal by the gap over all known structures;
      derivatives equal to differences.
    - **Marginal oracle**, if there is one: equal to the sum over all structures if these are known, else to differences
      of its log-partition, which must be within bounds. Samples are structures, and the best one if it dominates.

    Parameters
    ----------
    structure : Structure
        The structure to check. For a `CustomStructure`, its oracle, encode and decode are checked.
    shapes : sequence of tuple of int, default=None
        Shapes of `scores` to test. Default: ``structure.example_shapes()``. Small shapes are best, because the check
        then sees all structures.
    structures : callable or iterable, default=None
        All structures, in the form of targets: a function from the shape of `scores` to an iterable of them; or the
        iterable itself, if there is one shape.
    n_instances : int, default=6
        Number of random problems for each check, shape and choice of additional scores.
    random_state : int, RandomState instance or None, default=0
        Seed of the scores.

    Raises
    ------
    AssertionError
        At the first failure. The message has the scores, the answer, the correct answer, and the remedy.

    Examples
    --------
    >>> from sklearn_sparsemap.structures import CustomStructure
    >>> from sklearn_sparsemap.testing import check_structure
    >>> def greedy(scores):
    ...     first = max(range(2), key=lambda i: scores[i])
    ...     return [first, first + 2] if scores[first + 2] > scores[4] else [first, 4]
    >>> check_structure(CustomStructure(greedy, n_parts=5))
    Traceback (most recent call last):
    AssertionError: ...
    """
    check_attributes(structure)
    rng = check_random_state(random_state)
    if shapes is None:
        shapes = structure.example_shapes()
    shapes = [check_shape(structure, shape) for shape in shapes]
    require(structure, shapes, "there are no shapes to try", "return some from example_shapes(), or pass shapes")
    if structures is not None and not callable(structures):
        message = f"structures is one list for {len(shapes)} shapes"
        require(structure, len(shapes) == 1, message, "pass a single shape, or a function from a shape to a list")
        everything = list(structures)
        structures = lambda shape: everything  # noqa: E731
    n_dims = set()
    for shape in shapes:
        choices = choices_of_additional(structure, shape)
        check_linear_model(structure, shape)
        for i, given in enumerate(choices):
            case = Case(structure, shape, given, rng)
            if structures is not None:
                check_list(case, structures(shape))
            n_dims.add(len(case.dims))
            remedy = "make it the same for all shapes, so that many problems fit into one array"
            require(structure, len(n_dims) == 1, f"dims has {sorted(n_dims)} entries", remedy)
            # Most test problems use all additional scores together, the first case.
            _check_case(case, n_instances if i == 0 else min(2, n_instances))
            if i == 0:
                check_public(case, n_instances)


def _check_case(case, n_instances):
    check_oracle(case, n_instances)
    check_forms(case)
    check_places(case)
    for k in range(n_instances):
        values = case.draw(k)
        if case.call_oracle(values)[0] > -np.inf:
            check_solutions(case, values, SOLVERS_BY_NAME if k < 2 else ("active_set",))
            check_derivatives(case, values)
    if case.structure.marginal_oracle is not None:
        check_marginals(case, n_instances)
