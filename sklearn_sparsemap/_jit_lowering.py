"""What Numba finds out again and again while it compiles, found out once.

A third of the time that kernels take to compile is Numba's search for what an operation is: for each ``a + b`` and
``array[i]`` of the source it tries all that is registered for strings, lists, dates and so on, several times. And it
writes some forty instructions for ``array[i]``, most of which LLVM then removes. Kernels are little else. So the types
of operations on numbers and arrays are remembered, and elements of arrays are read and written by few instructions.

A kernel's caller keeps what it passes alive until the kernel returns. So the kernel counts no references to its
arguments and the arrays in them: of a namedtuple these are dozens.
"""

import operator
from collections import Counter

from numba.core import cgutils, ir, types
from numba.core.compiler import DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering, NativeLowering

_NUMBERS = types.Number, types.Boolean, types.Literal
# Signatures of operations, with the function types that know them, by the id of these and the types of the arguments.
_signatures = {}


def _is_plain(kind):
    """Tell whether a type is that of numbers, of arrays, or of what they are indexed by."""
    if isinstance(kind, types.BaseTuple):
        return all(isinstance(own, types.Integer) for own in kind)
    return isinstance(kind, (*_NUMBERS, types.Array, types.SliceType))


class RememberingContext:
    """A typing context of Numba's that remembers the signatures of operations on numbers and arrays.

    Parameters
    ----------
    context : typing context
    """

    def __init__(self, context):
        self._context = context

    def __getattr__(self, name):
        return getattr(self._context, name)

    def resolve_function_type(self, function, args, kws):
        """Type a call."""
        if type(function) is not types.Function or kws or not all(map(_is_plain, args)):
            return self._context.resolve_function_type(function, args, kws)
        key = id(function), *args
        if key not in _signatures:
            found = self._context.resolve_function_type(function, args, kws)
            if found is None or function._impl_keys.get(found.args) is not function.typing_key:
                # What is written in Python is compiled with the options of each caller.
                return found
            _signatures[key] = found, function
        return _signatures[key][0]

    def resolve_setitem(self, target, index, value):
        """Type an assignment to an element."""
        function = self._context.resolve_value_type(operator.setitem)
        return self.resolve_function_type(function, (target, index, value), {})

    def resolve_getattr(self, kind, name):
        """Type an attribute."""
        if isinstance(kind, types.BaseNamedTuple) and name in kind.fields:
            return kind[kind.fields.index(name)]
        return self._context.resolve_getattr(kind, name)


def _is_element(array, index):
    """Tell whether an index is that of one number in an array without gaps."""
    indices = index if isinstance(index, types.BaseTuple) else (index,)
    return (
        isinstance(array, types.Array)
        and (array.layout, array.aligned, array.ndim) == ("C", True, len(indices))
        and isinstance(array.dtype, types.Number | types.Boolean)
        and all(isinstance(own, types.Integer) for own in indices)
    )


def _is_field(expr, kind, field):
    """Tell whether an expression is a field, of a type, of a variable of another type, which is a namedtuple."""
    return isinstance(kind, types.BaseNamedTuple) and kind[kind.fields.index(expr.attr)] == field


class _KernelLower(Lower):
    """Writes LLVM's instructions for a kernel."""

    def pre_lower(self):
        super().pre_lower()
        self._borrowed = set() if self._disable_sroa_like_opt else self._find_borrowed()

    def lower_getitem(self, resty, expr, value, index, signature):
        array = self.typeof(value.name)
        if not _is_element(array, self.typeof(index.name)) or self.context.enable_boundscheck:
            return super().lower_getitem(resty, expr, value, index, signature)
        found = self.context.unpack_value(self.builder, array.dtype, self._element(value, index))
        return self.context.cast(self.builder, found, array.dtype, resty)

    def lower_setitem(self, target_var, index_var, value_var, signature):
        array, kind = self.typeof(target_var.name), self.typeof(value_var.name)
        is_number = isinstance(kind, types.Number | types.Boolean)
        if not is_number or not _is_element(array, self.typeof(index_var.name)) or self.context.enable_boundscheck:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        value = self.context.cast(self.builder, self.loadvar(value_var.name), kind, array.dtype)
        self.context.pack_value(self.builder, array.dtype, value, self._element(target_var, index_var))
        return None

    def lower_assign(self, ty, inst):
        value = inst.value
        if inst.target.name not in self._borrowed:
            return super().lower_assign(ty, inst)
        return self.fnargs[value.index] if isinstance(value, ir.Arg) else self._field(value.value, value.attr)

    def lower_expr(self, resty, expr):
        if expr.op != "getattr" or not _is_field(expr, self.typeof(expr.value.name), resty):
            return super().lower_expr(resty, expr)
        field = self._field(expr.value, expr.attr)
        self.incref(resty, field)
        return field

    def storevar(self, value, name, argidx=None):
        if name not in self._borrowed or name in self._singly_assigned_vars:
            super().storevar(value, name, argidx)
        else:
            # There is no earlier value to let go.
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))

    def delvar(self, name):
        if name not in self._borrowed:
            super().delvar(name)

    def _find_borrowed(self):
        """Return the names of what the caller keeps alive: arguments, and fields of those that are namedtuples."""
        assigned = [inst for _, block in sorted(self.blocks.items()) for inst in block.find_insts(ir.Assign)]
        times, borrowed = Counter(inst.target.name for inst in assigned), set()
        for inst in assigned:
            name, value, lasts = inst.target.name, inst.value, False
            if isinstance(value, ir.Arg):
                lasts = self.typeof(f"arg.{value.name}") == self.typeof(name)
            elif isinstance(value, ir.Expr) and value.op == "getattr" and value.value.name in borrowed:
                lasts = _is_field(value, self.typeof(value.value.name), self.typeof(name))
            if lasts and times[name] == 1:
                borrowed.add(name)
        return borrowed

    def _field(self, variable, name):
        """Load one field of a namedtuple or an array."""
        kind = self.typeof(variable.name)
        if isinstance(kind, types.BaseNamedTuple):
            place = kind.fields.index(name)
        else:
            place = self.context.data_model_manager[kind].get_field_position(name)
        if variable.name in self._blk_local_varmap:
            return self.builder.extract_value(self.loadvar(variable.name), place)
        return self.builder.load(cgutils.gep_inbounds(self.builder, self.getvar(variable.name), 0, place))

    def _element(self, array, index):
        """Return the address of an element; what is negative counts from the end, as in Python."""
        builder, kind, number = self.builder, self.typeof(index.name), self.loadvar(index.name)
        data, shape = self._field(array, "data"), self._field(array, "shape")
        kinds, numbers = [kind], [number]
        if isinstance(kind, types.BaseTuple):
            kinds, numbers = kind, cgutils.unpack_tuple(builder, number, len(kind))
        place = None
        for axis, (own, i) in enumerate(zip(kinds, numbers, strict=True)):
            length = builder.extract_value(shape, axis)
            i = self.context.cast(builder, i, own, types.intp if own.signed else types.uintp)
            if own.signed:
                i = builder.select(builder.icmp_signed("<", i, i.type(0)), builder.add(i, length), i)
            place = i if place is None else builder.add(builder.mul(place, length), i)
        return builder.gep(data, [place], inbounds=True)


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(BaseNativeLowering):
    """The pass from typed code to LLVM's instructions."""

    _name = "kernel_lowering"

    @property
    def lowering_class(self):
        return _KernelLower


def pipeline_of(state):
    """Return the passes of a compiler: Numba's, but for the above."""
    state.typingctx = RememberingContext(state.typingctx)
    pipeline = DefaultPassBuilder.define_nopython_pipeline(state)
    own = {NativeLowering: KernelLowering}
    pipeline.passes = [(own.get(each, each), description) for each, description in pipeline.passes]
    return pipeline
