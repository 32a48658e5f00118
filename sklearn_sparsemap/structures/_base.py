"""Structure: the protocol of all structures, and the guide to adding one.

Most rooms use this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from numbers import Integral
from typing import NamedTuple

import numpy as np

from .._core.annotations import Any, Mapping, NDArray, Sequence
from .._core.keys import HasContent, as_key
from .._core.validation import check_not_masked
from .._numerics.derivations import best_derivations
from .._numerics.inside_outside import draw_derivations
from .._numerics.partition import best_by_partition

# Parameters of the functions and losses that take additional scores as keywords, which these cannot be named.
TAKEN_NAMES = frozenset(("structure", "scores", "solver", "tol", "max_iter", "n_jobs", "k", "margin", "gold", "self"))


class TensorBatch(NamedTuple):
    """A padded batch of problems as tensors on one device.

    Attributes
    ----------
    scores : float64 Tensor of shape (n_samples, *padded)
        -inf in the padding.
    lengths : int64 Tensor of shape (n_samples, score_ndim)
        The shape of each sample's scores without padding.
    additional : float64 Tensor of shape (n_samples, n_additional)
        Additional scores, flattened and joined; -inf in the padding.
    given : dict of str -> tuple of int
        The padded shapes of the additional scores, in the order in which they are joined.
    max_iter : int or None
        Maximum number of oracle calls for a sample. None is exact. Closed forms ignore it.
    tol : float
        Duality gap. Closed forms ignore it.
    """

    scores: Any
    lengths: Any
    additional: Any
    given: Mapping[str, tuple[int, ...]]
    max_iter: int | None
    tol: float

    def take(self, samples):
        """Return the batch of some samples, given by an int tensor."""
        tensors = (values[samples] for values in (self.scores, self.lengths, self.additional))
        return TensorBatch(*tensors, self.given, self.max_iter, self.tol)


class Lengths(NamedTuple):
    """What the lengths of a padded sample count.

    Attributes
    ----------
    what : str
        The items, for messages.
    accepted : tuple of int
        The possible numbers of lengths of a sample.
    extra_rows : int
        Number of rows of scores beyond those that lengths count, such as the root of a tree.
    """

    what: str
    accepted: tuple[int, ...]
    extra_rows: int = 0


@dataclass(frozen=True)
class InEstimators:
    """How estimators learn and predict structures of one kind. The defaults fit most structures.

    A structure that differs has another object as its attribute or property `in_estimators`, if need be of a subclass.

    Attributes
    ----------
    row_outputs : int or None
        Number of scores that a linear model computes for a row of features, if structures are not `labelled`: the
        length of the last axis of scores. None means a single score, and scores without such an axis.
    predicts_arrays : bool
        Whether all structures are arrays of one shape, which `predict` returns as one array.
    trains_on_pool : bool
        Whether `DecisionFocusedRegressor` trains over the solutions found so far, because a call of the oracle takes
        long.
    of_rows : Structure or None
        The structure in place of this one if samples have several rows of features.
    """

    row_outputs: int | None = None
    predicts_arrays: bool = False
    trains_on_pool: bool = False
    of_rows: Any = None

    # A method ``bound_message(structure, predicted)``, which returns a warning about predicted structures that a limit
    # bounds, or None; if there is none, nothing is asked. See `Segmentation`.
    bound_message = None

    def misfits(self, structure: Any, gold: Any) -> tuple[str, ...]:
        """Return the reasons why a true structure is not allowed, if `repair` can repair it."""
        return ()

    def repair(self, structure: Any, gold: Any) -> Any:
        """Return an allowed structure close to a true structure that has `misfits`; other structures as they are."""
        return gold

    def encode_all(self, structure: Any, structures: Sequence[Any], dims: NDArray[Any]) -> Any:
        """Return structures of one problem as a list of pairs (slots, additional_slots).

        A subclass may encode all of them together, and need not check them.
        """
        return [structure.encode(each, dims) for each in structures]

    def for_training(self, structure: Any) -> Any:
        """Return the structure over which losses are computed."""
        return structure


class Structure(HasContent):
    """Base class of structures. A structure defines its parts, its MAP oracle, and how structures are encoded as parts.

    A structure is a choice of *parts*. Unary parts have one score each in `scores`, and marginals are probabilities of
    unary parts. Additional parts (for example transitions) have scores of their own and are not penalised. Solvers,
    losses and estimators refer to parts by index only. A new structure is therefore one compiled function, the oracle,
    and a few short methods; it then works with every solver, loss and estimator.

    Attributes
    ----------
    score_ndim : int
        Number of axes of `scores`.
    additional_names : tuple of str
        Names of the additional scores, in the order in which they are joined.
    oracle : compiled function
        The MAP oracle.
    entering : compiled function or None
        If the oracle is a dynamic program, the description of its hyperarcs, from which the k best structures are
        found; see _numerics/derivations.py. Every structure must have one derivation. If None, they are found by a
        partition of the structures and calls of the oracle.
    marginal_oracle : compiled function or None
        The marginal oracle, or None.
    sums_for_entering : bool
        Whether `entering` can read the `work` of the marginal oracle, without the expectations at its beginning, with
        log-sums in place of the best scores. Samples are then drawn from it.
    no_marginals : str
        The reason why there is no marginal oracle.
    polytope_solver : PolytopeSolver or None
        A specialised SparseMAP solver for the structure's polytope. If None, SparseMAP uses the active set.
    tensor_solver : method or None
        ``tensor_solver()`` imports PyTorch and returns a function ``solve(batch)`` of a `TensorBatch`, in batched
        operations of PyTorch. The function returns the marginals; the additional marginals, like ``batch.additional``;
        a function that multiplies directions of scores and additional scores, with an axis of directions before that
        of the samples, with the Jacobian; and a bool tensor (n_samples,), False for samples that it leaves to the
        compiled solver.
    labelled : bool
        Whether a structure consists of labels (classes of a `y`): one for the whole sample (`score_ndim` 1), or one for
        each row of scores (`score_ndim` 2). A linear model then has one output for each label. Otherwise it has a
        single output, and a row of features for each part.
    is_flat : bool
        Whether a structure is one label for the whole sample: an int, which is also its only slot.
    uses_graphs : bool
        Whether an estimator makes a factor graph of each sample instead, which is False for all structures.
    fixed_size : bool
        Whether all structures of a problem have the same number of unary parts. If not, the number of parts is itself
        predicted. Estimators then predict by the regularised objective of their loss, because the regulariser depends
        on the number of parts. The cost of losses with a margin counts missing parts and wrong parts. With a fixed
        size, predictions do not depend on the regulariser. True for structures of labels; for others False, the
        default, is safe.
    repeats : bool
        Whether a part can be in several slots. Marginals are then expected counts, slots are sorted by part, and none
        is empty. The cost of losses with a margin is the number of missing parts of the true structure, with
        multiplicity. Factor graphs do not accept such structures.
    lengths : Lengths
        What the lengths of a padded sample count.
    decodes_stacks : bool
        Whether `decode` also accepts an array with the slots of many structures of one shape, one a row.
    in_estimators : InEstimators
        How estimators learn and predict the structure, beyond the protocol here; most structures inherit it.
    strict_encode : bool
        Whether `encode` refuses everything that is not a structure of the problem. If not, estimators check each true
        structure by calls of the oracle.

    Notes
    -----
    **Conventions**

    shape
        Shape of one sample's `scores`. A flat part index runs over it in C order.
    dims : int64 array
        The size of a problem, as returned by `dims`, for the oracle. It does not depend on the scores.
    additional : float64 array
        The additional scores of a problem, flattened and joined in the order of `additional_names`, without those that
        are not given.
    slots : int32 array of shape (n_slots,)
        The unary parts of one structure, or -1 for an empty slot. A part can appear in only one slot (slot ``t`` of a
        chain holds the state of step ``t``), so the common parts of two structures are exactly those in the same slot
        of both. For exceptions see `repeats`.
    additional_slots : int32 array of shape (n_additional_slots,)
        The additional parts of one structure as indices into `additional`, or -1. Repeats count.

    **The oracle** is a function made by `sklearn_sparsemap._core.jit.as_oracle`::

        value = oracle(scores, additional, dims, work, slots, additional_slots)

    `scores` and `additional` are flat and must not be changed. The oracle fills `slots` and `additional_slots` with a
    structure of highest total score, and returns that score. Scores may be -inf (the part is forbidden). A value of
    -inf means that no structure is allowed. `work` is scratch space of the size that `sizes` returns. It holds zeros at
    the first call for a problem, and at later calls the contents after the previous call, so an oracle can warm start
    from it. Ties may be broken in any way, as long as equal calls have equal answers.

    **The marginal oracle** is optional. It has the same signature. It writes the expectations of the Gibbs distribution
    ``p(s) = exp(score(s)) / Z`` to the beginning of `work`, whose size is then that of `marginal_work`: first the
    marginals of all parts, then one entry for each additional score. It returns log Z, or -inf if no structure is
    allowed. `slots` and `additional_slots` are not used.
    """

    score_ndim = 1
    additional_names = ()
    oracle = None
    entering = None
    marginal_oracle = None
    sums_for_entering = False
    no_marginals = "it has no marginal oracle"
    polytope_solver = None
    tensor_solver = None
    labelled = False
    uses_graphs = False
    repeats = False
    strict_encode = False
    in_estimators: Any = InEstimators()
    # The rows of a sample, for the message about a wrong number of rows.
    _rows_of_samples = "this structure has one row for each part"
    decodes_stacks = False

    @property
    def is_flat(self) -> bool:
        return self.labelled and self.score_ndim == 1

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
        """Return a structure in the user's form as ``(slots, additional_slots)``.

        Raises ValueError if it is not a structure of this problem; see `strict_encode`.
        """
        raise NotImplementedError

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        """Return the structure with these slots, in the user's form."""
        raise NotImplementedError

    def decode_stack(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> list[Any]:
        """Return structures of one problem, given as rows of slots."""
        if self.decodes_stacks:
            return list(self.decode(slots, dims))
        return [self.decode(own, dims) for own in slots]

    def agreement(self, structure: Any, predicted: Any, dims: NDArray[np.int64]) -> tuple[int, int, int]:
        """Compare a predicted structure with the gold one, for `score` of an estimator.

        `score` is the F1: twice the number of common parts, divided by the number of all parts of both structures, each
        summed over the samples. If both structures have as many parts, it is the fraction of parts that are correct. A
        subclass may count something else, as `Ranking` counts pairs of items.

        Returns
        -------
        n_common, n_gold, n_predicted : int
            Numbers of unary parts that both structures have, and that each has.
        """
        gold, found = (self.encode(each, dims)[0] for each in (structure, predicted))
        n_gold, n_predicted = (int(np.count_nonzero(slots >= 0)) for slots in (gold, found))
        return int(np.count_nonzero((gold == found) & (gold >= 0))), n_gold, n_predicted

    def exclusive_parts(self, dims: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the alternatives at each place, if a structure is one choice among parts at each place.

        Returns
        -------
        places : int array of shape (n_positions, n_alternatives), or None
            Every structure has exactly one part of each row, and no other parts. None if structures do not have this
            form. Samples and n-best lists then take fewer calls.
        """
        return None

    def n_best(self, problems: Any, limit: Any, counts: Any, start: int, stop: int) -> Any:
        """Find the k best structures of `Problems` from `start` to `stop`, in a compiled call.

        See `best_derivations` in _numerics/derivations.py for the arguments and the result.
        """
        if self.entering is not None:
            return best_derivations(self.oracle, self.entering, problems, limit, counts, start, stop)
        choice_of = self._choices_of_parts(problems)
        return best_by_partition(self.oracle, problems, choice_of, bool(self.fixed_size), limit, counts, start, stop)

    def _choices_of_parts(self, problems):
        """Return the place of each part of `Problems`, see `exclusive_parts`; -1 if there are no places."""
        by_dims = {}
        n_parts = np.diff(problems.score_ptr).tolist()
        for n, dims in zip(n_parts, problems.dims):
            if dims.tobytes() not in by_dims:
                places = self.exclusive_parts(dims)
                by_dims[dims.tobytes()] = choice_of = np.full(n, -1)
                for number, parts in enumerate(() if places is None else places):
                    choice_of[parts] = number
        return np.concatenate([by_dims[dims.tobytes()] for dims in problems.dims])

    def draw(self, sample: Any, n: int, rng: Any) -> Any:
        """Draw `n` structures of a batch of one from the Gibbs distribution; None to draw them part by part."""
        if not self.sums_for_entering:
            return None
        slots = np.empty((n, int(sample.sizes[0])), np.int32)
        problem = self.entering, sample.scores, sample.additional, sample.dims
        draw_derivations(*problem, self._log_sums(sample), rng.randint(1, 2**63, dtype=np.uint64), slots)
        return self.decode_stack(slots, sample.dims)

    def _log_sums(self, sample):
        """Return the table that `entering` reads, with log-sums."""
        none = np.zeros(0, np.int32)
        work = np.empty(int(sample.sizes[3]))
        self.marginal_oracle(sample.scores, sample.additional, sample.dims, work, none, none)
        return work[sample.n_parts + len(sample.additional) :]

    def span_reader(self, labels: Sequence[Any] | None, scheme: str | None) -> Any:
        """Return the reader of the spans of structures, `_core/spans.py`; raise ValueError if they have none.

        Parameters
        ----------
        labels : list
            The labels, by their numbers; None for structures that are not `labelled`.
        scheme : str or None
            The scheme of the labels, if it is known.
        """
        raise ValueError(f"spans are those of LinearChain and Segmentation; got {self!r}")

    def likely_spans(self, problems: Any, reader: Any, thresholds: Any, wanted: Any, n_jobs: int | None) -> Any:
        """List the spans that have at least some probability under the Gibbs distribution.

        Parameters
        ----------
        problems : Problems
        reader : object
            As `span_reader` returns it.
        thresholds : array of shape (n_problems,)
            Smallest probability of a span of each problem.
        wanted : tuple of arrays (samples, starts, lasts, types)
            Spans that are listed whatever their probability: those of one structure for each problem.
        n_jobs : int or None

        Returns
        -------
        rows : int array of shape (n_spans, 5)
            Problem, first step, last step, type, and 1 if the span is wanted, else 0.
        probabilities : array of shape (n_spans,)
        """
        raise ValueError(f"probabilities of spans are not available for {self!r} with loss='crf'; use loss='sparsemap'")

    def forbidden_by(self, known: Sequence[Any], shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
        """Return a mask of the parts, in the shape of the scores, that contradict a partially known structure.

        By default None: structures that are not `labelled` cannot be known in part.

        Parameters
        ----------
        known : sequence
            Entries of the structure in the form of `decode`; None for unknown entries.
        shape : tuple of int

        Raises
        ------
        ValueError
            If an entry is invalid.
        """
        return None

    @property
    def lengths(self) -> Lengths:
        if self.score_ndim == 1:
            return Lengths("the parts of each sample", (1,))
        if self.labelled:
            return Lengths("the steps of each sequence, or its steps and labels", (1, 2))
        return Lengths("the entries of each axis, such as rows and columns", (self.score_ndim,))

    def scores_shape(self, rows: tuple[int, ...], n_outputs: int) -> tuple[int, ...]:
        """Return the shape of `scores` for a sample under a linear model.

        Parameters
        ----------
        rows : tuple of int
            The shape of the sample without the axis of features: ``(n_rows,)``, or more axes if they are known.
        n_outputs : int
            Number of labels; 1 for structures that are not `labelled`.

        Raises
        ------
        ValueError
            If there are no scores for a sample of this shape.
        """
        if len(rows) != 1:
            raise ValueError(f"a sample of {self._rows_of_samples}; got shape {rows}")
        return (*rows, n_outputs) if self.labelled else rows

    def learned_shapes(self, n_outputs: int) -> dict[str, tuple[int, ...]]:
        """Return the additional scores that a linear model learns: dict of name -> shape."""
        return {}

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        """Return shapes of scores of small problems, on which `sklearn_sparsemap.testing` tests the structure."""
        return ((1,), (2,), (4,)) if self.score_ndim == 1 else ((1, 1), (1, 3), (3, 1), (3, 2), (2, 3))

    def layout(self, shape, given):
        """Describe a problem to kernels.

        Parameters
        ----------
        shape, given
            As in `dims`.

        Returns
        -------
        dims : tuple of int, or int64 array
        sizes : tuple of int
            `sizes`, `marginal_work`, and 1 if `repeats`.

        Raises
        ------
        ValueError
            If scores cannot have this shape, or if `dims` is invalid because a user has edited attributes.
        """
        dims = self.dims(shape, given)
        if isinstance(dims, np.ndarray):
            # A grammar has thousands of dims.
            are_sizes = dims.dtype == np.int64 and dims.min(initial=0) >= 0
        else:
            # The check by the abstract class takes ten times as long.
            are_sizes = all([(type(d) is int or isinstance(d, Integral)) and d >= 0 for d in dims])
        if not are_sizes:
            raise ValueError(
                f"the sizes of {self!r} must be non-negative ints; got {tuple(dims)}. Make a new structure instead of "
                "editing one"
            )
        return dims, (*self.sizes(dims), self.marginal_work(dims), *([1] if self.repeats else []))

    def _params(self):
        """Return the parameters: all attributes of an instance, which make its repr, equality and hash.

        `torch/_calls.py` tells structures by this method, and copies their attributes.
        """
        return {name: value for name, value in sorted(vars(self).items()) if name != "_number"}

    def content(self) -> Any:
        return as_key(self._params())

    def __repr__(self):
        params = ", ".join(f"{name.lstrip('_')}={value!r}" for name, value in self._params().items())
        return f"{type(self).__name__}({params})"

    def __eq__(self, other):
        return type(self) is type(other) and self.content() == other.content()

    def __hash__(self):
        return hash((type(self), self.content()))


def solver_in_tensors(package):
    """Return the method `tensor_solver` of a structure whose package has the module `tensors`, with a function `solve`.

    The module needs PyTorch, so it is imported when the method is called.
    """

    def tensor_solver(self) -> Any:
        return partial(import_module(".tensors", package).solve, self)

    return tensor_solver


def is_structure(value):
    """Return whether a user's value is an instance of a structure."""
    return isinstance(value, Structure)


def check_structure(structure):
    """Raise ValueError unless `structure` is an instance of a structure."""
    if not isinstance(structure, Structure):
        raise ValueError(f"structure must be an instance such as LinearChain(); got {structure!r}")


def as_parts(parts):
    """Return part indices as the int32 array that kernels take."""
    return np.ascontiguousarray(parts, dtype=np.int32)


def as_flag(name, value):
    """Return the value of the parameter `name` as a bool; raise ValueError if it is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; got {value!r}")
    return bool(value)


def as_ints(structure, shape, lowest, highest, form):
    """Return a structure of ints as an array; raise ValueError that states the expected form if it has another one."""
    if isinstance(structure, np.ma.MaskedArray):
        check_not_masked(structure, "the structure")
    given = np.asarray(structure)
    is_right = given.shape == shape and given.dtype.kind in "iu"
    if not is_right or (given.size and (given.min() < lowest or given.max() > highest)):
        raise ValueError(f"{form}; got {structure!r}")
    return given.astype(np.int64)


def as_bools(structure, n, form):
    """Return a structure of `n` bools, or 0 and 1, as a bool array; raise ValueError that states the expected form."""
    if isinstance(structure, np.ma.MaskedArray):
        check_not_masked(structure, "the structure")
    given = np.asarray(structure)
    is_array = given.shape == (n,) and given.dtype.kind in "buifO"
    if not is_array or (given.dtype != bool and not np.isin(given, (0, 1)).all()):
        raise ValueError(f"{form}; got {given!r:.80}")
    return given.astype(bool)


def check_fits(nodes, name):
    """Raise ValueError for numbers of nodes that do not fit into int64."""
    if nodes.max(initial=0) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} has the node {nodes.max()}; number the nodes from 0 to at most 2**63 - 1")


def known_entries(known, n, rows, entry, lowest, highest):
    """Return the known entries of a partially known structure.

    Parameters
    ----------
    known : sequence
        An int from `lowest` to `highest` for each row, or None if it is unknown.
    n : int
        Number of rows.
    rows, entry : str
        Names of the rows and of an entry, for messages.
    lowest, highest : int

    Returns
    -------
    entries : list of (row, int)

    Raises
    ------
    ValueError
        If an entry is invalid, or there are not `n` of them.
    """
    if len(known) != n:
        raise ValueError(f"there are {n} {rows}; got {len(known)} entries")
    entries = [(row, choice) for row, choice in enumerate(known) if choice is not None]
    for _, choice in entries:
        if isinstance(choice, bool) or int(choice) != choice or not lowest <= choice <= highest:
            raise ValueError(f"{entry} is None, or an int from {lowest} to {highest}; got {choice!r}")
    return entries
