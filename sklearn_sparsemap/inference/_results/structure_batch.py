"""Results of inference in structures for many samples: arrays, and a sequence of results that are made on demand.

Used by `_layers` and `inference`.
"""

from functools import cached_property
from itertools import pairwise
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from ..._core.annotations import AdditionalScores
from ..._core.errors import Place, SampleError
from ..._core.ragged import RaggedArray
from ..._core.validation import check_numbers
from ..._numerics.loops import GAP, N_ITER, OBJECTIVE
from .._batch import decode_problems
from .lazy import LazyResults
from .solutions import SparseMAPSolutions, most_probable_first
from .structure import MAPResult, MarginalResult, S, SparseMAPResult


class MAPBatch(LazyResults[MAPResult[S]], Generic[S]):
    """The structures with the highest scores for many samples: a sequence of `MAPResult`, each made on demand.

    Attributes
    ----------
    values : ndarray of shape (n_samples,)
        Total score of each structure.
    structures : list
        The structures of all samples.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.structures import Simplex
    >>> batch = map_inference(Simplex(), [[0.5, 1.0], [2.0, 0.0, 1.0]])
    >>> batch.values.tolist(), batch.structures, batch[1].structure
    ([1.0, 2.0], [1, 0], 0)
    """

    _columns = ("values",)

    def __init__(self, batch, slots, slot_ptr, values):
        self._batch, self._slots, self._slot_ptr, self.values = batch, slots, slot_ptr, values

    def __len__(self):
        return len(self.values)

    def _make(self, i):
        slots = self._slots[self._slot_ptr[i] : self._slot_ptr[i + 1]]
        return MAPResult(self._batch.structure.decode(slots, self._batch.problems.dims[i]), float(self.values[i]))

    @cached_property
    def structures(self) -> list[S]:
        return decode_problems(self._batch.structure, self._batch.problems, self._slots, self._slot_ptr)


class MarginalBatch(LazyResults[MarginalResult]):
    """The marginals of many Gibbs distributions: a sequence of `MarginalResult`, each made on demand.

    Attributes
    ----------
    marginals : RaggedArray
        Marginals of all samples, each in the shape of its scores.
    log_partition : ndarray of shape (n_samples,)

    Examples
    --------
    >>> from sklearn_sparsemap import marginal_inference
    >>> from sklearn_sparsemap.structures import Simplex
    >>> batch = marginal_inference(Simplex(), [[0.0, 0.0], [0.0, 0.0, 0.0]])
    >>> batch.log_partition.round(3).tolist(), batch.marginals[0].tolist()
    ([0.693, 1.099], [0.5, 0.5])
    """

    _columns = ("log_partition",)

    def __init__(self, batch, marginals, expected, log_partition):
        self._batch, self.log_partition = batch, log_partition
        problems = batch.problems
        self._expected = np.split(expected, np.cumsum(problems.additional_stop - problems.additional_start)[:-1])
        self.marginals = RaggedArray(marginals, problems.score_ptr, shapes=batch.shapes)

    def __len__(self):
        return len(self.log_partition)

    def _make(self, i):
        shape = self._batch.problem_shapes[self._batch.shape_ids[i]].shape
        additional_marginals = self._batch.split_additional(self._expected[i], i)
        return MarginalResult(self.marginals[i].reshape(shape), additional_marginals, float(self.log_partition[i]))


class SparseMAPBatch(SparseMAPSolutions, LazyResults[SparseMAPResult]):
    """The solutions of many SparseMAP problems: a sequence of `SparseMAPResult`, each made on demand.

    Attributes
    ----------
    marginals : RaggedArray
        Marginals of all samples. `values` holds them flat, one sample after the other, in C order.
    objective, gap : ndarray of shape (n_samples,)
        See `SparseMAPResult`.
    n_iter : int ndarray of shape (n_samples,)
    converged : bool ndarray of shape (n_samples,)

    Examples
    --------
    >>> from sklearn_sparsemap import sparsemap
    >>> from sklearn_sparsemap.structures import Simplex
    >>> batch = sparsemap(Simplex(), [[0.5, 1.0], [2.0, 0.0, 1.0]])
    >>> len(batch), batch[0].marginals.tolist(), batch.converged.tolist()
    (2, [0.25, 0.75], [True, True])
    >>> batch.marginals.values.tolist()
    [0.25, 0.75, 1.0, 0.0, 0.0]
    """

    _columns = ("objective", "gap", "n_iter", "converged")

    def __len__(self):
        return len(self._statistics)

    def __getstate__(self):
        # Items are made again on demand.
        return {name: value for name, value in self.__dict__.items() if name not in ("_made", "_bounds")}

    def _make(self, i):
        parts, weights, slots, additional = self._bounds
        support = (
            self._slots[slots[i] : slots[i + 1]],
            self._additional_slots[additional[i] : additional[i + 1]],
            self._weights[weights[i] : weights[i + 1]],
        )
        solution = self._flat[parts[i] : parts[i + 1]], self._statistics[i : i + 1], support
        return SparseMAPResult(self._batch[i], solution, self._tol, None, self._max_iter)

    @cached_property
    def _bounds(self):
        """The bounds of the samples in the arrays of marginals, weights, slots and additional slots, as lists."""
        return [ptr.tolist() for ptr in (self._batch.problems.score_ptr, *self._ptr)]

    def _supports(self, chosen):
        return [self[i].support if self._by_facets[i] else self._own_support(i) for i in map(int, chosen)]

    def _own_support(self, i):
        """Return the support of a sample that was solved by structures; see `SparseMAPResult.support`."""
        _, weights, *places = self._bounds
        own = self._weights[weights[i] : weights[i + 1]]
        pools = (self._slots, self._additional_slots)
        return *(pool[at[i] : at[i + 1]].reshape(len(own), -1) for pool, at in zip(pools, places)), own

    def distributions(self) -> list[list[tuple[Any, float]]]:
        """Return the structures of each sample with their weights, without making results.

        Returns
        -------
        distributions : list of lists of (structure, weight)
            For each sample the structures of positive weight, most probable first.
        """
        structure, dims = self._batch.structure, self._batch.problems.dims
        found = []
        for i, (slots, _, weights) in enumerate(self._supports(range(len(self)))):
            order, _ = most_probable_first(weights, [len(weights)])
            structures = structure.decode_stack(slots[order], dims[i])
            found.append(list(zip(structures, weights[order].tolist())))
        return found

    @cached_property
    def marginals(self) -> RaggedArray:
        return self._like_scores(self._flat)

    @cached_property
    def objective(self) -> NDArray[np.float64]:
        return self._statistics[:, OBJECTIVE]

    @cached_property
    def gap(self) -> NDArray[np.float64]:
        return self._statistics[:, GAP]

    @cached_property
    def n_iter(self) -> NDArray[np.int64]:
        return self._statistics[:, N_ITER].astype(np.int64)

    @cached_property
    def converged(self):
        converged = self.gap <= self._tol
        for i in np.flatnonzero(~converged):
            # A gap above tol is also accepted if it is within rounding.
            converged[i] = self[int(i)].converged
        return converged

    def vjp(self, vs: Any) -> dict[str, Any]:
        """Multiply vectors with the Jacobians of the marginals (reverse mode), in one compiled call.

        Parameters
        ----------
        vs : list of array-like, or RaggedArray
            For each sample, the gradient of some loss with respect to its marginals, in their shape.

        Returns
        -------
        gradients : dict
            ``"scores"`` is a RaggedArray like `marginals`. For each given additional score: one array, summed over the
            samples, if one array was given for all samples; else a list with one array for each sample.

        Examples
        --------
        >>> from sklearn_sparsemap import sparsemap
        >>> from sklearn_sparsemap.structures import LinearChain
        >>> scores = [[[1.0, 0.9]], [[1.0, 0.9], [0.0, 0.5]]]
        >>> batch = sparsemap(LinearChain(), scores, transitions=[[0.5, 0.0], [0.0, 0.5]])
        >>> gradients = batch.vjp([[[1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]])
        >>> [part.round(2).tolist() for part in gradients["scores"]]
        [[0.5, -0.5], [0.25, -0.25, 0.25, -0.25]]
        >>> gradients["transitions"].shape
        (2, 2)
        """
        out, extra = self.products(self._join(vs, "vs"), np.zeros(self._extra_ptr[-1]))
        return self._gradients(out, extra)

    def jvp(self, scores: Any = None, **additional: AdditionalScores) -> RaggedArray:
        """Compute directional derivatives of the marginals (forward mode), in one compiled call.

        Parameters
        ----------
        scores : list of array-like, or RaggedArray, default=None
            For each sample, the direction of its scores. Default: zero.
        **additional : array-like, or list of them
            Directions of the additional scores by name: one array if one was given for all samples, else a list.
            Default: zero.

        Returns
        -------
        derivatives : RaggedArray
            Like `marginals`.
        """
        unary = np.zeros(len(self._flat)) if scores is None else self._join(scores, "scores")
        names = set(additional) & set(self._per_sample)
        for name in names:
            if len(additional[name]) != len(self):
                raise ValueError(f"{name} holds {len(additional[name])} directions for {len(self)} samples")
        joined = np.zeros(self._extra_ptr[-1])
        if additional:
            extra = [
                self._batch.join_additional({name: d[i] if name in names else d for name, d in additional.items()}, i)
                for i in range(len(self))
            ]
            joined = _check_finite(np.concatenate(extra), "additional", np.diff(self._extra_ptr))
        return self._like_scores(self.products(unary, joined)[0])

    def weights_vjp(self, ws: Any) -> dict[str, Any]:
        """Multiply vectors with the Jacobians of the weights (reverse mode), in one compiled call.

        Parameters
        ----------
        ws : list of array-like, or RaggedArray
            For each sample, the gradient of some loss with respect to the weights of its structures.

        Returns
        -------
        gradients : dict
            As in `vjp`.

        Raises
        ------
        ValueError
            If the weights of a sample are not unique; see `SparseMAPResult.weights_vjp`.
        """
        _, _, weights, n_structures = self._structures_of(np.arange(len(self)))
        _, counts = most_probable_first(weights, n_structures)
        return self._gradients(*self.weight_products(_join_flat(ws, "ws", counts, [(int(n),) for n in counts])))

    def _like_scores(self, values):
        """Return flat values for all scores as a RaggedArray of samples, each in its shape."""
        return RaggedArray(values, self._batch.problems.score_ptr, shapes=self._batch.shapes)

    def _join(self, values, name):
        return _join_flat(values, name, np.diff(self._batch.problems.score_ptr), self._batch.shapes)

    def _gradients(self, out, extra):
        """Split gradients by sample and name; gradients of an array that was given for all samples are summed."""
        found = {"scores": self._like_scores(out)}
        if not self._per_sample:
            # An array for all samples has the same shape in all of them, so its gradients can be summed.
            total = extra.reshape(len(self), -1).sum(axis=0)
            return {**found, **self._batch.split_additional(total)}
        pieces = [
            self._batch.split_additional(extra[start:stop], i)
            for i, (start, stop) in enumerate(pairwise(self._extra_ptr.tolist()))
        ]
        for name in pieces[0]:
            own = [piece[name] for piece in pieces]
            found[name] = own if name in self._per_sample else np.sum(own, axis=0)
        return found


def _join_flat(values, name, sizes, shapes):
    """Check one array for each sample, in the given shapes; return them flat and concatenated."""
    if len(values) != len(sizes):
        raise ValueError(f"{name} holds {len(values)} arrays for {len(sizes)} samples; pass one for each")
    if isinstance(values, RaggedArray):
        flat = check_numbers(values.values, name).reshape(-1)
        width = len(flat) // max(len(values.values), 1)
        wrong = np.flatnonzero(values.lengths * width != sizes)
        if len(wrong):
            i = int(wrong[0])
            raise SampleError(name, i, f" has {values.lengths[i] * width} entries; it must have shape {shapes[i]}")
        return _check_finite(np.ascontiguousarray(flat), name, sizes)
    joined = []
    for i, (value, shape) in enumerate(zip(values, shapes)):
        is_checked = type(value) is np.ndarray and value.dtype == np.float64
        array = value if is_checked else check_numbers(value, Place(name, i))
        if array.shape != shape:
            raise SampleError(name, i, f" has shape {array.shape}; it must have {shape}")
        joined.append(array.ravel())
    return _check_finite(np.concatenate(joined), name, sizes)


def _check_finite(flat, name, sizes):
    """Return flat values of samples; raise ValueError for the first sample with NaN or infinity."""
    wrong = np.flatnonzero(~np.isfinite(flat))
    if len(wrong):
        i = np.searchsorted(np.cumsum(sizes), wrong[0], side="right")
        raise SampleError(name, i, " contains NaN or infinity")
    return flat
