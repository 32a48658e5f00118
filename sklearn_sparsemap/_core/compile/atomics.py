"""Intrinsics for kernels that run in parallel on several threads."""

import os

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .elements import address_of

give_way = types.ExternalFunction("SwitchToThread" if os.name == "nt" else "sched_yield", types.int32())


@intrinsic
def load_atomic(typing_context, array, index):
    """Read an integer that other threads write. Their earlier writes are visible afterwards."""

    def generate(context, builder, signature, args):
        return builder.load_atomic(address_of(context, builder, signature, args), "acquire", 8)

    return types.int64(array, types.int64), generate


@intrinsic
def store_atomic(typing_context, array, index, value):
    """Write an integer that other threads read, after all earlier writes."""

    def generate(context, builder, signature, args):
        builder.store_atomic(args[2], address_of(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def prefetch(typing_context, array, index):
    """Begin to load an element of a C-contiguous array of any number of axes, by its flat index, into the cache."""

    def generate(context, builder, signature, args):
        # Without a check of the index: an address outside the array has no effect.
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        address = builder.bitcast(builder.gep(data, [args[1]]), pointer)
        # Arguments of llvm.prefetch: read access, keep in all cache levels, data cache.
        builder.call(function, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate
