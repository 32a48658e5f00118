"""Addresses of elements of arrays, for intrinsics."""

from numba import types
from numba.core import cgutils


def address_of(context, builder, signature, args, n_numbers=1):
    """Return the address of an element of a C-contiguous array, by its offset in the flattened array.

    The array and the offset are the intrinsic's first two arguments. With ``NUMBA_BOUNDSCHECK=1`` an IndexError is
    raised if any of the `n_numbers` elements from there on is outside the array.
    """
    array_type, offset_type = signature.args[:2]
    array = context.make_array(array_type)(context, builder, args[0])
    offset = context.cast(builder, args[1], offset_type, types.intp)
    if context.enable_boundscheck:
        # The first element and the last one.
        for place in {0, n_numbers - 1}:
            cgutils.do_boundscheck(context, builder, builder.add(offset, offset.type(place)), array.nitems)
    return builder.gep(array.data, [offset])
