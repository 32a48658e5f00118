"""Intrinsics for vectors of four numbers; see `_core/lanes`."""

import operator

from llvmlite import ir
from numba import types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, models, register_model

from .elements import address_of

WIDTH = 4
_INT = ir.IntType(32)
_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
# A product and a sum may become one instruction.
_FLAGS = ("contract",)


class _Lanes(types.Type):
    """The type of four numbers."""

    def __init__(self):
        super().__init__(name="lanes")


_LANES = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _VECTOR)


def _shuffled(builder, vector, order):
    nothing = ir.Constant(vector.type, ir.Undefined)
    return builder.shuffle_vector(vector, nothing, ir.Constant(ir.VectorType(_INT, len(order)), list(order)))


def _spread(builder, number):
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(_INT, 0))
    return _shuffled(builder, first, [0] * WIDTH)


def _larger(builder, a, b):
    return builder.select(builder.fcmp_ordered(">", b, a), b, a)


def _folded(builder, vector, combine):
    """Combine four numbers into one, pairwise."""
    while vector.type.count > 2:
        half = vector.type.count // 2
        vector = combine(_shuffled(builder, vector, range(half)), _shuffled(builder, vector, range(half, 2 * half)))
    return combine(*(builder.extract_element(vector, ir.Constant(_INT, k)) for k in (0, 1)))


@intrinsic
def pick(typing_context, array, offset):
    """Return one number of a C-contiguous float64 array; `offset` must not be negative."""

    def generate(context, builder, signature, args):
        return builder.load(address_of(context, builder, signature, args))

    return types.float64(array, offset), generate


@intrinsic
def load(typing_context, array, offset):
    """Return four consecutive numbers of a C-contiguous float64 array, from `offset` in the flattened array on."""

    def generate(context, builder, signature, args):
        address = address_of(context, builder, signature, args, WIDTH)
        numbers = builder.load(builder.bitcast(address, _VECTOR.as_pointer()))
        numbers.align = 8
        return numbers

    return _LANES(array, offset), generate


@intrinsic
def store(typing_context, array, offset, value):
    """Write four consecutive numbers into a C-contiguous float64 array, from `offset` in the flattened array on."""

    def generate(context, builder, signature, args):
        address = address_of(context, builder, signature, args, WIDTH)
        builder.store(args[2], builder.bitcast(address, _VECTOR.as_pointer())).align = 8
        return context.get_dummy_value()

    return types.void(array, offset, value), generate


@intrinsic
def spread(typing_context, number):
    """Return a vector of four equal numbers."""
    return _LANES(types.float64), lambda context, builder, signature, args: _spread(builder, args[0])


@intrinsic
def larger(typing_context, a, b):
    """Return the elementwise maximum of two vectors of four numbers; a where b is NaN."""
    return _LANES(_LANES, _LANES), lambda context, builder, signature, args: _larger(builder, *args)


@intrinsic
def total(typing_context, lanes):
    """Return the sum of four numbers."""

    def generate(context, builder, signature, args):
        return _folded(builder, args[0], builder.fadd)

    return types.float64(_LANES), generate


@intrinsic
def largest(typing_context, lanes):
    """Return the largest of four numbers."""

    def generate(context, builder, signature, args):
        return _folded(builder, args[0], lambda a, b: _larger(builder, a, b))

    return types.float64(_LANES), generate


def _support(function, method):
    """Let kernels combine four numbers with four others, or with one number."""

    @infer_global(function)
    class _Template(AbstractTemplate):
        def generic(self, args, kws):
            if _LANES in args and len(args) == 2 and all(a in (_LANES, types.float64) for a in args):
                return signature(_LANES, *args)

    def generate(context, builder, signature, args):
        both = [
            value if kind == _LANES else _spread(builder, value)
            for value, kind in zip(args, signature.args, strict=True)
        ]
        return getattr(builder, method)(*both, flags=_FLAGS)

    for kinds in ((_Lanes, _Lanes), (_Lanes, types.Float), (types.Float, _Lanes)):
        lower_builtin(function, *kinds)(generate)


for _function, _method in (
    (operator.add, "fadd"),
    (operator.iadd, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _support(_function, _method)
