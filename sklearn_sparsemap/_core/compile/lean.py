"""Shorter intermediate code for what kernels do most: parts of arrays, variables, and reference counts.

Numba copies an array's seven fields to the stack at each use of an element, row or slice, and handles slices of any
step by branches. It reads all fields of an array to count one reference, and clears each variable that it no longer
needs. LLVM removes most of that, which takes time. The code here computes the same values from the fields that are
needed. All other operations remain Numba's.
"""

import operator
from collections import Counter
from functools import cached_property

from llvmlite import ir
from numba.core import types
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.ir import Assign
from numba.core.lowering import Lower
from numba.core.runtime.context import NRTContext
from numba.core.typed_passes import NativeLowering
from numba.cpython.slicing import fix_index
from numba.np.arrayobj import load_item, store_item

from .references import needs_counts


class _Counts(NRTContext):
    """Numba's reference counts, which read only fields that count."""

    def get_meminfos(self, builder, ty, val):
        """Return a list of (type, counter) of all counters within a value."""
        models = self._context.data_model_manager
        model = models[ty]
        found = [(ty, model.get_nrt_meminfo(builder, val))] if model.has_nrt_meminfo() else []
        for kind, get_field in model.traverse(builder):
            if models[kind].contains_nrt_meminfo():
                found += self.get_meminfos(builder, kind, get_field(val))
        return found


class _Context(CPUContext):
    """The target of functions of this package, see the docstring of the module."""

    @cached_property
    def nrt(self):
        """Numba's name of the object that counts references."""
        return _Counts(self, self.enable_nrt)

    def get_function(self, fn, sig, _firstcall=True):
        """Return the function that writes the code of an operation, which takes a builder and values."""
        make = _INDEXING.get(getattr(fn, "typing_key", None))
        if make is None or self.enable_boundscheck or not _is_simple(sig):
            return super().get_function(fn, sig, _firstcall)
        return lambda builder, args, loc=None: make(self, builder, sig, args)

    def get_getattr(self, typ, attr):
        """Return the function that writes the code of an attribute."""
        return _shape if attr == "shape" and type(typ) is types.Array else super().get_getattr(typ, attr)


class _Lower(Lower):
    """Numba's writer of code, which does not clear variables without references, and does not copy such arguments."""

    def pre_lower(self):
        """Count the assignments to each variable."""
        super().pre_lower()
        statements = (each for block in self.blocks.values() for each in block.body)
        self._n_assigned = Counter(each.target.name for each in statements if isinstance(each, Assign))
        self._arguments = {}

    def _is_counted(self, name):
        model = self.context.data_model_manager[self.typeof(name)]
        return self._disable_sroa_like_opt or (self.context.enable_nrt and model.contains_nrt_meminfo())

    def storevar(self, value, name, argidx=None):
        """Write code that stores a variable."""
        if name in self._singly_assigned_vars or self._is_counted(name):
            super().storevar(value, name, argidx)
        elif argidx is not None and self._n_assigned[name] == 1 and self.generator_info is None:
            self._arguments[name] = value
        else:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))

    def loadvar(self, name):
        """Return the value of a variable."""
        return self._arguments[name] if name in self._arguments else super().loadvar(name)

    def delvar(self, name):
        """Write code that deletes a variable."""
        if self._is_counted(name):
            super().delvar(name)
        elif name not in self._blk_local_varmap:
            # It is used in several blocks.
            self._singly_assigned_vars.discard(name)


@register_pass(mutates_CFG=True, analysis_only=False)
class _LeanLowering(NativeLowering):
    _name = "lean_lowering"

    def run_pass(self, state):
        context = state.targetctx.subtarget(enable_nrt=state.targetctx.enable_nrt and needs_counts(state))
        context.__class__ = _Context
        vars(context).pop("nrt", None)  # a cached attribute
        state.targetctx = context
        return super().run_pass(state)

    @property
    def lowering_class(self):
        return _Lower


def write_lean_code(pipeline):
    """Replace the pass of a pipeline in which Numba writes code; return the pipeline."""
    pipeline.passes = [(_LeanLowering if each is NativeLowering else each, about) for each, about in pipeline.passes]
    pipeline.finalize()
    return pipeline


def _shape(context, builder, array_type, array, name):
    return builder.extract_value(array, context.data_model_manager[array_type].get_field_position("shape"))


def _kinds(index_type):
    return index_type.types if isinstance(index_type, types.BaseTuple) else (index_type,)


def _is_simple(signature):
    """Tell whether an operation reads or writes an element, or reads a contiguous view, of a C-contiguous array."""
    array, index = signature.args[:2]
    if not (type(array) is types.Array and array.layout == "C" and array.aligned):
        return False
    if not isinstance(array.dtype, types.Number | types.Boolean):
        return False
    *leading, last = _kinds(index) or (None,)
    ends = isinstance(last, types.Integer) or (type(last) is types.SliceType and not last.has_step)
    if not ends or len(leading) >= array.ndim or not all(isinstance(kind, types.Integer) for kind in leading):
        return False
    is_item = isinstance(last, types.Integer) and len(leading) + 1 == array.ndim
    if len(signature.args) == 3:
        return is_item and isinstance(signature.args[2], types.Number | types.Boolean)
    return is_item or signature.return_type.layout == "C"


class _View:
    """The part of an array that an index denotes: the address of its first element, its shape, and its strides."""

    def __init__(self, context, builder, signature, array, index):
        array_type, index_type = signature.args[:2]
        self._fields = context.data_model_manager[array_type].get_field_position
        values = [index]
        if isinstance(index_type, types.BaseTuple):
            values = [builder.extract_value(index, i) for i in range(len(index_type))]
        sizes, self.shape = builder.extract_value(array, self._fields("shape")), []
        place = None
        for axis in range(array_type.ndim):
            size = builder.extract_value(sizes, axis)
            first = None
            if axis >= len(values):
                self.shape.append(size)
            elif isinstance(kind := _kinds(index_type)[axis], types.Integer):
                first = context.cast(builder, values[axis], kind, types.intp if kind.signed else types.uintp)
                first = fix_index(builder, first, size) if kind.signed else first
            else:
                first, length = _bounds(builder, values[axis], size)
                self.shape.append(length)
            place = place if place is None else builder.mul(place, size)
            if first is not None:
                place = first if place is None else builder.add(place, first)
        self.address = builder.gep(builder.extract_value(array, self._fields("data")), [place])

    def as_array(self, builder, array, value_type):
        """Return the view as an array; all fields but those of its shape are those of the whole array."""
        view = ir.Constant(value_type, ir.Undefined)
        for name in ("meminfo", "parent", "itemsize"):
            place = self._fields(name)
            view = builder.insert_value(view, builder.extract_value(array, place), place)
        n_items = self.shape[0]
        stride = builder.extract_value(array, self._fields("itemsize"))
        for axis in reversed(range(len(self.shape))):
            view = builder.insert_value(view, self.shape[axis], (self._fields("shape"), axis))
            view = builder.insert_value(view, stride, (self._fields("strides"), axis))
            stride = builder.mul(stride, self.shape[axis]) if axis else stride
            n_items = builder.mul(n_items, self.shape[axis], flags=["nsw"]) if axis else n_items
        view = builder.insert_value(view, n_items, self._fields("nitems"))
        return builder.insert_value(view, self.address, self._fields("data"))


def _bounds(builder, given, size):
    """Return the start and the length of a slice without a step, within an axis of a given size."""
    zero = size.type(0)

    def within(place):
        bound = fix_index(builder, builder.extract_value(given, place), size)
        bound = builder.select(builder.icmp_signed("<", bound, zero), zero, bound)
        return builder.select(builder.icmp_signed(">", bound, size), size, bound)

    start, stop = within(0), within(1)
    length = builder.sub(stop, start)
    return start, builder.select(builder.icmp_signed("<", length, zero), zero, length)


def _read(context, builder, signature, args):
    view = _View(context, builder, signature, *args)
    array_type, result_type = signature.args[0], signature.return_type
    if not isinstance(result_type, types.Array):
        return load_item(context, builder, array_type, view.address)
    result = view.as_array(builder, args[0], context.get_value_type(result_type))
    if context.enable_nrt:
        context.nrt.incref(builder, result_type, result)
    return result


def _write(context, builder, signature, args):
    array, index, value = args
    view = _View(context, builder, signature, array, index)
    array_type, _, value_type = signature.args
    store_item(context, builder, array_type, context.cast(builder, value, value_type, array_type.dtype), view.address)


_INDEXING = {operator.getitem: _read, operator.setitem: _write}
