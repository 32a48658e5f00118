"""What kernels that work side by side on several threads need: to wait for each other, and to fetch ahead."""

import os

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import signature
from numba.extending import intrinsic

from ._jit import kernel

# A cache line of its own for each thread: 8 integers.
LINE = 8
# So often a thread looks before it lets others have the processor, which takes longer than most waits.
_LOOKS = 4000

_give_way = types.ExternalFunction("SwitchToThread" if os.name == "nt" else "sched_yield", signature(types.int32))


@intrinsic
def _load(typing_context, array, place):
    """Read an integer that other threads write; what they wrote before it is there, too."""

    def generate(context, builder, typed, args):
        data = context.make_array(typed.args[0])(context, builder, args[0]).data
        return builder.load_atomic(builder.gep(data, [args[1]]), "acquire", 8)

    return types.int64(array, types.int64), generate


@intrinsic
def _store(typing_context, array, place, value):
    """Write an integer that other threads read, after all that was written before."""

    def generate(context, builder, typed, args):
        data = context.make_array(typed.args[0])(context, builder, args[0]).data
        builder.store_atomic(args[2], builder.gep(data, [args[1]]), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def prefetch(typing_context, array, place):
    """Begin to fetch what is at a place of a C-contiguous array of any number of axes, counted flat."""

    def generate(context, builder, typed, args):
        data = context.make_array(typed.args[0])(context, builder, args[0]).data
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        address = builder.bitcast(builder.gep(data, [args[1]]), pointer)
        # To read, to be kept in all caches, data.
        builder.call(function, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@kernel
def meet(signals, me, n_threads):
    """Wait until all threads of a team have come here as often as this one.

    Parameters
    ----------
    signals : int array of shape ((n_threads + 1) * LINE,)
        Zeros at first. A number at the last line's beginning ends all waiting: a thread has failed.
    me, n_threads : int

    Returns
    -------
    all_here : bool
        False if one will not come.
    """
    if n_threads == 1:
        return True
    times = signals[me * LINE] + 1
    _store(signals, me * LINE, times)
    for other in range(n_threads):
        looks = 0
        while _load(signals, other * LINE) < times:
            looks += 1
            if looks > _LOOKS:
                _give_way()
                if _load(signals, n_threads * LINE) != 0:
                    return False
    return True
