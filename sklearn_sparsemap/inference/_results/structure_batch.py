"""Results of inference in structures for many samples: arrays, and a sequence of results that are made on demand."""

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._core.jit import readonly
from ..._core.ragged import RaggedArray
from ..._core.threads import over_ranges
from ..._core.validation import check_numbers
from ...numerics.backward import Products
from ...numerics.facet_loops import Facets, facet_products_range
from ...numerics.loops import GAP, N_ADDITIONAL, N_ITER, N_SLOTS, N_WEIGHTS, OBJECTIVE, STATUS, take_problems
from ...numerics.places import LazyResults, places_of, starts
from ...numerics.solver import BY_FACETS
from .products import NEGLIGIBLE, lay_out_directions, lay_out_supports, multiply, multiply_on_faces, multiply_weights
from .structure import MAPResult, MarginalResult, SparseMAPResult

# Number of structures of a sample above which a closed form of the face is used. Products by structures are as fast up
# to it, and take time in the cube of the number.
_MANY = 64


class _OfStructures(LazyResults):
    """Results of a batch of problems of one structure.

    Parameters
    ----------
    samples : Samples
    """

    def __init__(self, samples):
        super().__init__(len(samples))
        self._structure, self._samples, self._problems = samples.structure, samples, samples.problems

    def __getstate__(self):
        return {**self.__dict__, "_made": [None] * len(self)}

    def __setstate__(self, state):
        self.__dict__.update(state)
        # Unpickled arrays are writable, and kernels know custom structures by other numbers in this process.
        kinds = {"scores": np.float64, "additional": np.float64}
        self._problems = self._samples.problems = type(self._problems)(
            **{
                name: readonly(array, kinds.get(name, np.int64))
                for name, array in {**self._problems._asdict(), "dims": self._samples.dims()}.items()
            }
        )

    def _like_scores(self, values):
        """Return flat values for all scores as a RaggedArray of samples, each in its shape."""
        return RaggedArray(values, self._problems.score_ptr, shapes=self._samples.shapes)


class MAPBatch(_OfStructures):
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

    def __init__(self, samples, slots, slot_ptr, values):
        super().__init__(samples)
        self._slots, self._slot_ptr = slots, slot_ptr
        self.values = values

    def _make(self, i):
        slots = self._slots[self._slot_ptr[i] : self._slot_ptr[i + 1]]
        return MAPResult(self._structure.decode(slots, self._problems.dims[i]), float(self.values[i]))

    @cached_property
    def structures(self):
        return decode_problems(self._structure, self._problems, self._slots, self._slot_ptr)


def decode_problems(structure, problems, slots, slot_ptr):
    """Decode one structure for each problem; problem i has the slots from slot_ptr[i] to slot_ptr[i + 1]."""
    if structure._decodes_stacks and (problems.dims == problems.dims[0]).all():
        return list(structure.decode(slots.reshape(len(problems.dims), -1), problems.dims[0]))
    cuts = pairwise(slot_ptr.tolist())
    return [structure.decode(slots[start:stop], dims) for (start, stop), dims in zip(cuts, problems.dims)]


class MarginalBatch(_OfStructures):
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

    def __init__(self, samples, marginals, expected, log_partition):
        super().__init__(samples)
        samples.restore(log_partition, marginals, expected)
        lengths = self._problems.additional_stop - self._problems.additional_start
        self._expected = np.split(expected, np.cumsum(lengths)[:-1])
        self.log_partition = log_partition
        self.marginals = self._like_scores(marginals)

    def _make(self, i):
        sample = self._samples[i]
        return MarginalResult(
            self.marginals[i].reshape(sample.shape),
            sample.split_additional(self._expected[i]),
            float(self.log_partition[i]),
        )


class SparseMAPBatch(_OfStructures):
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

    def __init__(self, samples, own_names, marginals, statistics, supports, tol, n_jobs, max_iter=None):
        super().__init__(samples)
        self._own_names, self._n_jobs = own_names, n_jobs
        self._tol, self._max_iter = tol, max_iter
        self._slots, self._additional_slots, self._weights = supports
        self._flat, self._statistics = marginals, statistics
        if samples.moved is not None:
            samples.restore(self.objective, marginals, self.additional_flat)

    # The following attributes are computed on demand, because a single sample needs only its result.

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
    def _ptr(self):
        """The beginnings of the samples' solutions in the pools of weights, slots and additional slots."""
        return [starts(self._statistics[:, c]) for c in (N_WEIGHTS, N_SLOTS, N_ADDITIONAL)]

    @cached_property
    def _by_facets(self):
        """Which samples were solved by facets."""
        return self._statistics[:, STATUS] == BY_FACETS

    def _structures_of(self, chosen):
        """Return slots, additional slots and weights of the structures of some samples, and the numbers of structures.

        Structures of samples that were solved by facets are computed here.
        """
        if len(chosen) == len(self) and not self._by_facets.any():
            return self._slots, self._additional_slots, self._weights, np.diff(self._ptr[0])
        supports = [self[int(i)].support for i in chosen]
        pools = (np.concatenate([part.ravel() for part in parts]) for parts in zip(*supports))
        return (*pools, np.array([len(weights) for _, _, weights in supports]))

    @cached_property
    def _extra_ptr(self):
        return starts(self._problems.additional_stop - self._problems.additional_start)

    @cached_property
    def converged(self):
        converged = self.gap <= self._tol
        for i in np.flatnonzero(~converged):
            # A gap above tol is also accepted if it is within rounding.
            converged[i] = self[int(i)].converged
        return converged

    def _make(self, i):
        return SparseMAPResult(self, i)

    def only(self, i: int) -> "SparseMAPBatch":
        """Return the batch of one of the samples."""
        if len(self) == 1:
            return self
        samples = self._samples.take([i])
        solution = self.marginals_of(i), self._statistics[[i]], self.solution_of(i)
        return SparseMAPBatch(samples, self._own_names, *solution, self._tol, 1, self._max_iter)

    def solution_of(self, i: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """Return slots, additional slots and weights of a sample's structures, or of its facets if solved by facets."""
        pools = self._weights, self._slots, self._additional_slots
        weights, slots, additional = (pool[ptr[i] : ptr[i + 1]] for pool, ptr in zip(pools, self._ptr))
        return slots, additional, weights

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

    def jvp(self, scores: Any = None, **additional: Any) -> RaggedArray:
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
        unary = np.zeros(len(self._problems.scores)) if scores is None else self._join(scores, "scores")
        names = set(additional) & self._own_names
        for name in names:
            if len(additional[name]) != len(self):
                raise ValueError(f"{name} holds {len(additional[name])} directions for {len(self)} samples")
        joined = np.zeros(self._extra_ptr[-1])
        if additional:
            extra = [
                sample.join_additional({name: d[i] if name in names else d for name, d in additional.items()})
                for i, sample in enumerate(self._samples)
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
        _, counts = _most_probable_first(weights, n_structures)
        return self._gradients(*self.weight_products(_join_flat(ws, "ws", counts, [(int(n),) for n in counts])))

    def weight_products(self, flat: Any) -> Any:
        """Do the same as `weights_vjp` for a flat array with an entry for each structure, sample by sample."""
        slots, additional, weights, n_structures = self._structures_of(np.arange(len(self)))
        selected, counts = _most_probable_first(weights, n_structures)
        slots, additional = (
            # The rows of the selected structures in the pool.
            _take_rows(pool, starts(n_structures * widths), starts(n_structures), widths, selected)
            for pool, widths in ((slots, self._problems.sizes[:, 0]), (additional, self._problems.sizes[:, 1]))
        )
        supports = lay_out_supports(slots, additional, counts, self._problems.sizes)
        products, dependent = multiply_weights(self._problems, supports, flat, self._extra_ptr, self._n_jobs)
        if dependent.any():
            which = f"sample {int(np.argmax(dependent))}: " if len(self) > 1 else ""
            raise ValueError(
                f"{which}the weights have no derivative: the structures of the support are affinely dependent, so "
                "other weights give the same marginals; use solver='active_set'"
            )
        return products

    def _join(self, values, name):
        return _join_flat(values, name, np.diff(self._problems.score_ptr), self._samples.shapes)

    @cached_property
    def additional_flat(self) -> NDArray[np.float64]:
        """Additional marginals of all samples, flat, one sample after the other."""
        n_extra, slots = self._extra_ptr[-1], self._additional_slots
        if n_extra == 0:
            return np.zeros(0)
        of_sample = np.repeat(np.arange(len(self)), np.diff(self._ptr[2]))
        # Each facet with additional slots has exactly one.
        n_rows = np.maximum(np.diff(self._ptr[0]), 1)
        widths = np.where(self._by_facets, 1, np.diff(self._ptr[2]) // n_rows)[of_sample]
        rows = (np.arange(len(slots)) - self._ptr[2][of_sample]) // widths
        weights, used = self._weights[self._ptr[0][of_sample] + rows], slots >= 0
        return np.bincount((self._extra_ptr[of_sample] + slots)[used], weights[used], minlength=n_extra)

    def marginals_of(self, i: int) -> NDArray[np.float64]:
        """Return the marginals of a sample, flat."""
        return self._flat[self._problems.score_ptr[i] : self._problems.score_ptr[i + 1]]

    def additional_of(self, i: int) -> NDArray[np.float64]:
        """Return the additional marginals of a sample, flat."""
        return self.additional_flat[self._extra_ptr[i] : self._extra_ptr[i + 1]]

    def products(self, unary: Any, extra: Any, *, ties_by_facets: bool = False, complete: bool = True) -> Any:
        """Multiply a direction of all scores with the Jacobians of the marginals and the additional marginals.

        The Jacobian over scores and additional scores is symmetric, so this is both `vjp` and `jvp`.

        Parameters
        ----------
        unary, extra : float64 arrays
            Directions of the scores and of the additional scores, flat, one sample after the other.
        ties_by_facets : bool, default=False
            Whether to use the facets of samples with ties, too, if they were solved by facets. The result is one of the
            one-sided derivatives at the kink. This is faster.
        complete : bool, default=True
            Whether to complete supports so that they span a face. Otherwise, the derivative is that of mixtures of the
            structures in the support.

        Returns
        -------
        unary, extra : arrays
        """
        directions, marginals = lay_out_directions(unary, extra, self._extra_ptr), readonly(self._flat)
        out = Products(np.empty(len(unary)), np.empty(len(extra)))
        by_structures = np.ones(len(self), bool)
        if self._by_facets.any():
            # The last weight is a flag for ties.
            usable = self._by_facets & (ties_by_facets | (self._weights[self._ptr[0][1:] - 1] == 0.0))
            by_structures = ~usable
            weight_ptr, slot_ptr, additional_ptr = (readonly(ptr, np.int64) for ptr in self._ptr)
            slots, additional = readonly(self._slots, np.int32), readonly(self._additional_slots, np.int32)
            weights, usable = readonly(self._weights), readonly(usable, np.int64)
            facets = Facets(slots, slot_ptr, additional, additional_ptr, weights, weight_ptr, usable)
            products = self._structure.polytope_solver.products
            over_ranges(
                lambda start, stop: facet_products_range(
                    products, self._problems, start, stop, facets, marginals, directions, out
                ),
                np.diff(self._problems.score_ptr),
                self._n_jobs,
            )
        if by_structures.all():
            return self._products_by_structures(np.arange(len(self)), self._problems, marginals, directions, complete)
        if by_structures.any():
            chosen = np.flatnonzero(by_structures)
            ptrs = self._problems.score_ptr, self._extra_ptr
            places = [places_of(ptr[:-1][chosen], np.diff(ptr)[chosen]) for ptr in ptrs]
            some = lay_out_directions(
                *(values[place] for values, place in zip(directions[:2], places)),
                starts(np.diff(self._extra_ptr)[chosen]),
            )
            problems, own = take_problems(self._problems, chosen), readonly(marginals[places[0]])
            out.unary[places[0]], out.extra[places[1]] = self._products_by_structures(
                chosen, problems, own, some, complete
            )
        return out

    def knows_face(self) -> bool:
        """Return whether the face of solutions of many structures is known in closed form."""
        own = self._structure.polytope_solver
        return own is not None and own.of_many is not None and bool(np.diff(self._ptr[0]).max() > _MANY)

    def _products_by_structures(self, chosen, problems, marginals, directions, complete):
        """Return the products of some samples, computed from structures."""
        if self.knows_face():
            centred = self._structure.polytope_solver.of_many(problems, marginals, directions.unary)
            return Products(centred, np.zeros(len(directions.extra)))
        slots, additional, _, counts = self._structures_of(chosen)
        supports = lay_out_supports(slots, additional, counts, problems.sizes)
        if complete:
            oracle = self._structure.oracle
            return multiply_on_faces(oracle, problems, supports, marginals, directions, self._n_jobs)
        return multiply(problems, supports, directions, self._n_jobs)

    def _gradients(self, out, extra):
        """Split gradients by sample and name; gradients of an array that was given for all samples are summed."""
        found = {"scores": self._like_scores(out)}
        if not self._own_names:
            # An array for all samples has the same shape in all of them, so its gradients can be summed.
            total = extra.reshape(len(self), -1).sum(axis=0)
            return {**found, **self._samples[0].split_additional(total)}
        pieces = [
            sample.split_additional(extra[start:stop])
            for sample, start, stop in zip(self._samples, self._extra_ptr[:-1], self._extra_ptr[1:])
        ]
        for name in pieces[0]:
            own = [piece[name] for piece in pieces]
            found[name] = own if name in self._own_names else np.sum(own, axis=0)
        return found


def _most_probable_first(weights, counts):
    """Return the rows of structures with positive weight, most probable first in each sample, and their numbers."""
    of_sample = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((-weights, of_sample))
    order = order[weights[order] > NEGLIGIBLE]
    return order, np.bincount(of_sample[order], minlength=len(counts))


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
            raise ValueError(f"{name}[{i}] has {values.lengths[i] * width} entries; it must have shape {shapes[i]}")
        return _check_finite(np.ascontiguousarray(flat), name, sizes)
    joined = []
    for i, (value, shape) in enumerate(zip(values, shapes)):
        is_checked = type(value) is np.ndarray and value.dtype == np.float64
        array = value if is_checked else check_numbers(value, f"{name}[{i}]")
        if array.shape != shape:
            raise ValueError(f"{name}[{i}] has shape {array.shape}; it must have {shape}")
        joined.append(array.ravel())
    return _check_finite(np.concatenate(joined), name, sizes)


def _check_finite(flat, name, sizes):
    """Return flat values of samples; raise ValueError for the first sample with NaN or infinity."""
    wrong = np.flatnonzero(~np.isfinite(flat))
    if len(wrong):
        i = np.searchsorted(np.cumsum(sizes), wrong[0], side="right")
        raise ValueError(f"{name}[{i}] contains NaN or infinity")
    return flat


def _take_rows(pool, ptr, first, widths, rows):
    """Return some rows of a pool. The rows of sample i have ``widths[i]`` entries."""
    of_sample = np.searchsorted(first, rows, side="right") - 1
    width = widths[of_sample]
    return pool[places_of(ptr[of_sample] + (rows - first[of_sample]) * width, width)]
