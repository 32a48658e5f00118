"""Namedtuples that compiled functions get by their address.

Numba passes each number of each array of a namedtuple by itself, in each call: seven for an array, and so a hundred
for some tuples. Most of the code of an entry was to take them apart and to put them together.
"""

import hashlib

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, models, register_model, unbox


class ByAddress(types.Type):
    """The type of a namedtuple that an entry gets from Python, and passes on by its address. It is never changed."""

    def __init__(self, of_tuple):
        self.of_tuple, self.instance_class = of_tuple, of_tuple.instance_class
        # The name becomes part of the names of functions, which should be short.
        about = f"{of_tuple} {of_tuple.fields} {of_tuple.instance_class.__module__}"
        digest = hashlib.sha256(about.encode()).hexdigest()[:12]
        super().__init__(f"{of_tuple.instance_class.__name__}_{digest}")

    def can_convert_from(self, typing_context, other):
        return Conversion.safe if other == self.of_tuple else None


def by_address(fields, cls):
    """Return the type of a namedtuple of this class, whose fields have these types, as an argument of entries."""
    return ByAddress(types.BaseTuple.from_types(tuple(getattr(each, "of_tuple", each) for each in fields), cls))


@register_model(ByAddress)
class _AddressModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        fields = [_value_type(manager, kind) for kind in numba_type.of_tuple.types]
        super().__init__(manager, numba_type, ir.LiteralStructType(fields).as_pointer())


def _value_type(manager, numba_type):
    model = manager[ByAddress(numba_type) if isinstance(numba_type, types.BaseNamedTuple) else numba_type]
    found = model.get_value_type()
    return found.pointee if isinstance(numba_type, types.BaseNamedTuple) else found


@infer_getattr
class _Fields(AttributeTemplate):
    key = ByAddress

    def generic_resolve(self, address, name):
        if name in (fields := address.of_tuple.fields):
            kind = address.of_tuple.types[fields.index(name)]
            return ByAddress(kind) if isinstance(kind, types.BaseNamedTuple) else kind


@lower_getattr_generic(ByAddress)
def _field(context, builder, typ, value, name):
    place = typ.of_tuple.fields.index(name)
    kind = typ.of_tuple.types[place]
    where = cgutils.gep_inbounds(builder, value, 0, place)
    is_tuple = isinstance(kind, types.BaseNamedTuple)
    return where if is_tuple else impl_ret_borrowed(context, builder, kind, builder.load(where))


@unbox(ByAddress)
def _unbox_fields(typ, given, c):
    """Store the fields in memory of the caller."""
    where = cgutils.alloca_once(c.builder, c.context.get_value_type(typ).pointee)
    return NativeValue(where, is_error=_store_fields(typ, given, c, where))


def _store_fields(typ, given, c, where):
    is_error = cgutils.false_bit
    for place, kind in enumerate(typ.of_tuple.types):
        item = c.pyapi.tuple_getitem(given, place)
        target = cgutils.gep_inbounds(c.builder, where, 0, place)
        if isinstance(kind, types.BaseNamedTuple):
            failed = _store_fields(ByAddress(kind), item, c, target)
        elif isinstance(kind, types.Array):
            # Without a reference, because the caller keeps the array alive.
            signature = ir.FunctionType(ir.IntType(32), [c.pyapi.pyobj, c.pyapi.voidptr])
            adapt = c.pyapi._get_function(signature, "numba_adapt_ndarray")
            code = c.builder.call(adapt, (item, c.builder.bitcast(target, c.pyapi.voidptr)))
            failed = cgutils.is_not_null(c.builder, code)
        else:
            native = c.unbox(kind, item)
            c.builder.store(native.value, target)
            failed = native.is_error
        is_error = c.builder.or_(is_error, failed)
    return is_error
