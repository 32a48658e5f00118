"""No reference counts in kernels that only read and write the arrays they are given.

Numba counts the references to each argument, field of a namedtuple and slice by atomic additions, which can take as
long as a kernel's work. The caller of a function keeps its arguments alive. So a function needs no counts if it makes,
stores and returns no array, and Numba has a switch for that.
"""

from numba.core import ir, types

from .addresses import ByAddress

# Operations whose result is part of their operands, or a view of it; and the types for which that is known.
_PARTS = {"build_tuple", "cast", "exhaust_iter", "getattr", "getitem", "phi", "static_getitem"}
_Plain = ByAddress | types.Array | types.BaseTuple | types.Number | types.Boolean | types.SliceType


def needs_counts(state):
    """Return whether a typed function creates, stores or returns a reference-counted object, or runs Python."""
    models, kinds = state.targetctx.data_model_manager, state.typemap

    def is_counted(numba_type):
        return models[numba_type].contains_nrt_meminfo()

    if is_counted(state.return_type) or any(isinstance(kind, types.ObjModeDispatcher) for kind in kinds.values()):
        return True
    for statement in (each for block in state.func_ir.blocks.values() for each in block.body):
        # A list of arrays keeps references to them.
        stores = isinstance(statement, ir.SetItem | ir.StaticSetItem | ir.SetAttr)
        if stores and is_counted(kinds[statement.value.name]):
            return True
        makes = isinstance(statement, ir.Assign) and not _is_borrowed(statement.value, kinds)
        if makes and is_counted(kinds[statement.target.name]):
            return True
    return False


def _is_borrowed(value, types_of):
    """Return whether an assigned value is an argument, a constant, or a part or view of a variable."""
    if isinstance(value, ir.Arg | ir.Var | ir.Global | ir.FreeVar | ir.Const):
        return True
    if not isinstance(value, ir.Expr):
        return False
    operands = [types_of[v.name] for v in value.list_vars()]
    if value.op == "call" and isinstance(types_of[value.func.name], types.NamedTupleClass):
        return all(isinstance(kind, types.NamedTupleClass | _Plain) for kind in operands)
    if value.op not in _PARTS:
        return False
    makes_copy = value.op == "getitem" and isinstance(operands[-1], types.Array)
    return not makes_copy and all(isinstance(kind, _Plain) for kind in operands)
