"""Jacobian products of all problems of a batch; one compiled call for each thread."""

from collections import namedtuple

import numpy as np
from numba import types

from .._core.jit import FLOATS, FLOATS_OUT, INTS, INTS_OUT, ORACLE, PARTS, entry, kernel
from .face import FACE_TOLERANCE, Direction, respond, span_face, spread
from .loops import PROBLEMS
from .support import gather, independent_support_of, parts_repeat

# Conventions: problem i is as in `Problems`. Its support has the structures first[i]..first[i + 1], each with sizes[i,
# 0] slots from slot_ptr[i] on and sizes[i, 1] additional slots. Directions have `unary`, laid out like the scores, and
# `extra`, which begins at extra_ptr[i] for problem i. Products are written in the same layout.
Supports = namedtuple("Supports", ["slots", "slot_ptr", "additional", "additional_ptr", "first"])
SUPPORTS = types.NamedTuple([PARTS, INTS, PARTS, INTS, INTS], Supports)
Directions = namedtuple("Directions", ["unary", "extra", "extra_ptr"])
DIRECTIONS = types.NamedTuple([FLOATS, FLOATS, INTS], Directions)
Products = namedtuple("Products", ["unary", "extra"])
PRODUCTS = types.NamedUniTuple(FLOATS_OUT, 2, Products)


@kernel
def _support_of(supports, sizes, i):
    """Return the slots and additional slots of the structures of problem `i`, one a row."""
    k, n_slots, n_additional = supports.first[i + 1] - supports.first[i], sizes[i, 0], sizes[i, 1]
    at, at_additional = supports.slot_ptr[i], supports.additional_ptr[i]
    slots = supports.slots[at : at + k * n_slots].copy()
    additional_slots = supports.additional[at_additional : at_additional + k * n_additional].copy()
    return slots.reshape((k, n_slots)), additional_slots.reshape((k, n_additional))


@kernel
def _multiply(support, k, problems, directions, i, out):
    """Multiply the direction of problem `i` with the Jacobian of mixtures of `k` structures."""
    first, last = problems.score_ptr[i], problems.score_ptr[i + 1]
    first_extra, last_extra = directions.extra_ptr[i], directions.extra_ptr[i + 1]
    unary, extra = directions.unary[first:last], directions.extra[first_extra:last_extra]
    products = np.empty(k)
    for s in range(k):
        products[s] = gather(unary, support.slots[s]) + gather(extra, support.additional[s])
    respond(support, k, products)
    spread(support, k, products, out.unary[first:last], out.extra[first_extra:last_extra])


@entry(types.void(ORACLE, PROBLEMS, types.int64, types.int64, SUPPORTS, FLOATS, DIRECTIONS, PRODUCTS))
def marginal_products_range(oracle, problems, start, stop, supports, marginals, directions, out):
    """Multiply directions with the Jacobians of the marginals and additional marginals of problems start..stop."""
    for i in range(start, stop):
        first, last = problems.score_ptr[i], problems.score_ptr[i + 1]
        slots, additional_slots = _support_of(supports, problems.sizes, i)
        first_extra, last_extra = directions.extra_ptr[i], directions.extra_ptr[i + 1]
        direction = Direction(directions.unary[first:last], directions.extra[first_extra:last_extra], True)
        additional = problems.additional[problems.additional_start[i] : problems.additional_stop[i]]
        support, k = span_face(
            oracle, problems.scores[first:last], additional, problems.dims[i], problems.sizes[i], marginals[first:last],
            slots, additional_slots, direction, FACE_TOLERANCE,
        )  # fmt: skip
        _multiply(support, k, problems, directions, i, out)


@entry(types.void(PROBLEMS, types.int64, types.int64, SUPPORTS, DIRECTIONS, PRODUCTS))
def support_products_range(problems, start, stop, supports, directions, out):
    """Multiply with Jacobians of supports that need not span a face, as those of a solver that was stopped."""
    for i in range(start, stop):
        slots, additional_slots = _support_of(supports, problems.sizes, i)
        support, k = independent_support_of(slots, additional_slots, parts_repeat(problems.sizes[i]))
        _multiply(support, k, problems, directions, i, out)


@entry(types.void(PROBLEMS, types.int64, types.int64, SUPPORTS, FLOATS, INTS, FLOATS_OUT, FLOATS_OUT, INTS_OUT))
def weight_products_range(problems, start, stop, supports, upstream, extra_ptr, out, extra_out, dependent):
    """Multiply `upstream`, one entry for each structure, with the Jacobians of the weights of problems start..stop.

    `dependent[i]` is set to 1 if the structures are affinely dependent; then there is no Jacobian.
    """
    for i in range(start, stop):
        slots, additional_slots = _support_of(supports, problems.sizes, i)
        support, k = independent_support_of(slots, additional_slots, parts_repeat(problems.sizes[i]))
        dependent[i] = k < slots.shape[0]
        products = np.empty(k)
        for s in range(k):
            products[s] = upstream[supports.first[i] + s]
        respond(support, k, products)
        first, last = problems.score_ptr[i], problems.score_ptr[i + 1]
        spread(support, k, products, out[first:last], extra_out[extra_ptr[i] : extra_ptr[i + 1]])
