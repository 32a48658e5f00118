"""Structure: the protocol of everything that can be predicted, and the guide to adding one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..numerics.polytope_solver import always

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


class Structure:
    """Base class of structures: the parts of a problem, its MAP oracle, and how a structure is written as parts.

    A structure is a choice of *parts*. Unary parts have one score each in `scores` and are what marginals are
    about; additional parts (say, transitions) have scores of their own and are not penalised. Solvers, losses and
    estimators know parts by index only. A new structure is therefore one compiled function, the oracle, and a few
    short methods; it then works with every solver, loss and estimator.

    Attributes
    ----------
    score_ndim : int
        Number of axes of `scores`.
    additional_names : tuple of str
        Names of the additional scores, in the order in which they are joined.
    oracle : compiled function
        The MAP oracle.
    marginal_oracle : compiled function or None
        The marginal oracle, where there is one.
    no_marginals : str
        Why there is no marginal oracle.
    polytope_solver : PolytopeSolver or None
        The solver of SparseMAP that knows the structure's polytope; None leaves SparseMAP to the active set.
    tensor_solver : callable or None
        ``tensor_solver()`` imports PyTorch and returns a function ``solve(scores, lengths)`` in its batched operations,
        where there is one. Scores have an axis of samples and -inf in the padding; lengths are int tensors (n_samples,
        score_ndim). It returns the marginals, a function that multiplies directions (n_directions, n_samples, ...)
        with the Jacobian, and which samples are solved.
    labelled : bool
        Whether a structure is made of labels (classes of a `y`): one for the whole sample (`score_ndim` 1), or one
        for each row of scores (`score_ndim` 2). A linear model then has one output a label; else it has a single one,
        and a row of features for each part.
    fixed_size : bool
        Whether all structures of a problem have the same number of unary parts. Where they do not, how many parts there
        are is itself predicted: estimators decide by the objective of their loss, in which SparseMAP's regulariser
        takes something off each part; the cost of losses with a margin counts missing parts as it counts wrong ones;
        and `score` is the F1 of the parts. Where they do, none of this would change a prediction, and `score` is
        the share of slots that are right. Structures made of labels are so; for others False, the default, is safe.
    row_outputs : int or None
        How many scores a linear model makes of a row of features, where structures are not `labelled`: the last axis of
        scores. None: a single one, and scores have no such axis.
    repeats : bool
        Whether a part may stand in several slots, and counts as often: marginals are expected counts then. Slots are in
        the order of their parts, and none is empty. The cost of losses with a margin is the number of parts of the
        right structure, counted, that are missing. Factor graphs do not take such structures.
    extra_rows : int
        Number of rows of scores beyond those that lengths count, such as the root of a tree.
    coupled_by : str or None
        Name of the additional scores without which the rows of scores are independent choices.
    codes_are_slots : bool
        Whether a structure is an int, which is also its only slot.
    parts_can_be_known : bool
        Whether `forbidden_by` knows which parts contradict what is known of a structure that is not `labelled`.
    can_repair : bool
        Whether `misfits` and `repair` know gold structures that this one does not allow.
    strict_encode : bool
        Whether `encode` refuses whatever is no structure of the problem. If not, estimators ask the oracle about each
        structure that they are to learn from.

    Notes
    -----
    **Conventions**

    shape
        Shape of one sample's `scores`. A flat part index runs over it in C order.
    dims : int64 array
        All that the oracle needs to know of a problem's size, as returned by `dims`. Never the scores.
    additional : float64 array
        The additional scores of a problem, flattened and joined in the order of `additional_names`, without those
        that the user did not give.
    slots : int32 array of shape (n_slots,)
        The unary parts of one structure, or -1 for an empty slot. A part may appear in one slot only (slot ``t``
        of a chain holds the state of step ``t``), so that two structures share exactly the parts that stand in the
        same slot of both; but see `repeats`.
    additional_slots : int32 array of shape (n_additional_slots,)
        The additional parts of one structure as indices into `additional`, or -1. Repeats count.

    **The oracle** is a function made by `sklearn_sparsemap._core.jit.as_oracle`::

        value = oracle(scores, additional, dims, work, slots, additional_slots)

    `scores` and `additional` are flat and must not be changed; `slots` and `additional_slots` are filled with a
    structure of highest total score, and that score is returned. Scores may be -inf (the part is forbidden); a value of
    -inf says that no structure is allowed. `work` is scratch space of the size that `sizes` asks for. It holds zeros
    at the first call for a problem, and later what the last call left there: an oracle may keep what helps it with
    similar scores. Ties may be broken in any way, as long as the same calls have the same answers.

    **The marginal oracle** is optional. It has the same signature, and leaves the expectations of the Gibbs
    distribution ``p(s) = exp(score(s)) / Z`` at the beginning of `work`, which then has the size that `marginal_work`
    asks for: first the marginals of all parts, then one entry for each additional score. It returns log Z, -inf if no
    structure is allowed. `slots` and `additional_slots` are not used.
    """

    score_ndim = 1
    additional_names = ()
    oracle = None
    marginal_oracle = None
    no_marginals = "it has no marginal oracle"
    polytope_solver = None
    tensor_solver = None
    labelled = False
    row_outputs = None
    repeats = False
    extra_rows = 0
    coupled_by = None
    codes_are_slots = False
    parts_can_be_known = False
    can_repair = False
    strict_encode = False
    # Whether `decode` takes the slots of many structures of one shape, too: an axis more in, and out.
    _decodes_stacks = False

    @property
    def fixed_size(self) -> bool:
        return self.labelled

    def additional_shapes(self, shape: tuple[int, ...]) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Return the accepted shapes of each additional score: dict of name -> tuple of shapes."""
        return {}

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        """Describe a problem to the oracle.

        Parameters
        ----------
        shape : tuple of int
            Shape of `scores`.
        given : dict of str -> tuple of int
            Shapes of the additional scores that are given.

        Returns
        -------
        dims : tuple of int

        Raises
        ------
        ValueError
            If scores cannot have this shape.
        """
        raise NotImplementedError

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        """Return ``(n_slots, n_additional_slots, n_work)`` for a problem."""
        raise NotImplementedError

    def marginal_work(self, dims: NDArray[np.int64]) -> int:
        """Return the size of `work` that the marginal oracle needs for a problem."""
        return 0

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        """Write a structure, in the form a user gives it, as ``(slots, additional_slots)``.

        Raises ValueError when it is not a structure of this problem; see `strict_encode`.
        """
        raise NotImplementedError

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        """Return the structure with these slots, in the form that a user reads."""
        raise NotImplementedError

    def agreement(self, structure: Any, predicted: Any, dims: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell for each slot whether a predicted structure has it as the right one: bool array.

        Its mean is what `score` of an estimator counts, for structures of `fixed_size`.
        """
        return self.encode(structure, dims)[0] == self.encode(predicted, dims)[0]

    def places(self, dims: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the parts among which a structure chooses at each place.

        Returns
        -------
        places : int array of shape (n_places, n_alternatives), or None
            Every structure has exactly one part of each row, and no others; None if structures are not like that.
        """
        return None

    def n_best(self, sample: Any, k: int) -> Any:
        """Return the slots and values of the `k` best structures of a `Problem`; None leaves them to the MAP oracle."""
        return None

    def n_best_by(self, sample: Any) -> Any:
        """Return another structure, its scores, and a function that reads its slots as those of this one; or None.

        For structures whose k best ones are found as those of another structure.
        """
        return None

    def draw(self, sample: Any, n: int, rng: Any) -> Any:
        """Draw `n` structures of a `Problem` from the Gibbs distribution; None leaves them to the marginal oracle."""
        return None

    def forbidden_by(self, known: Sequence[Any], shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """Return which scores of this shape belong to parts that contradict what is known of a structure.

        Parameters
        ----------
        known : sequence
            Its entries as `decode` gives them, None for those that are unknown.
        shape : tuple of int

        Raises
        ------
        ValueError
            If an entry cannot be one.
        """
        raise NotImplementedError

    def misfits(self, structure: Any) -> tuple[str, ...]:
        """Return why a gold structure is none that this one allows, if `repair` could make it one."""
        return ()

    def repair(self, structure: Any) -> Any:
        """Return a structure that this one allows, close to a gold one that has `misfits`."""
        raise NotImplementedError

    def counted_lengths(self) -> tuple[str, tuple[int, ...]]:
        """Return what the lengths of padded samples count, and how many lengths a sample may have."""
        if self.score_ndim == 1:
            return "the parts of each sample", (1,)
        if self.labelled:
            return "the steps of each sequence, or its steps and labels", (1, 2)
        return "the entries of each axis, such as rows and columns", (self.score_ndim,)

    def is_soon_exact(self, problems: Any) -> bool:
        """Tell whether exact inference of `Problems` takes no longer than one with few calls of the oracle."""
        return self.polytope_solver is not None and self.polytope_solver.prefers is always

    def slots_of(self, parts: NDArray[np.int64], dims: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the slot in which each of some parts stands; by default a part's own number."""
        return parts

    def scores_shape(self, rows: tuple[int, ...], n_outputs: int) -> tuple[int, ...]:
        """Return the shape of `scores` for a sample under a linear model.

        Parameters
        ----------
        rows : tuple of int
            The shape of the sample without the axis of features: ``(n_rows,)``, or more axes where they are known.
        n_outputs : int
            Number of labels; 1 for structures that are not `labelled`.

        Raises
        ------
        ValueError
            If no scores go with such a sample.
        """
        raise NotImplementedError

    def learned_shapes(self, n_outputs: int) -> dict[str, tuple[int, ...]]:
        """Return the additional scores that a linear model learns: dict of name -> shape."""
        return {}

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        """Return shapes of scores of small problems, on which `sklearn_sparsemap.testing` tries the structure."""
        return ((1,), (2,), (4,)) if self.score_ndim == 1 else ((1, 1), (1, 3), (3, 1), (3, 2), (2, 3))

    def layout(self, dims):
        """Return what kernels need to know of a problem's sizes: `sizes`, `marginal_work`, and 1 if `repeats`."""
        return (*self.sizes(dims), self.marginal_work(dims), *([1] if self.repeats else []))

    def _params(self):
        return {name: value for name, value in sorted(vars(self).items()) if name != "_number"}

    def __repr__(self):
        params = ", ".join(f"{name.lstrip('_')}={value!r}" for name, value in self._params().items())
        return f"{type(self).__name__}({params})"

    def __eq__(self, other):
        return type(self) is type(other) and self._params() == other._params()

    def __hash__(self):
        return hash((type(self), repr(self._params())))


def as_parts(parts):
    """Return part indices as the int32 array that kernels take."""
    return np.ascontiguousarray(parts, dtype=np.int32)


def check_known(what, choice, lowest, highest):
    """Raise ValueError unless `choice`, which is known of a structure, is an int from `lowest` to `highest`."""
    if isinstance(choice, bool) or int(choice) != choice or not lowest <= choice <= highest:
        raise ValueError(f"{what} is None, or an int from {lowest} to {highest}; got {choice!r}")
