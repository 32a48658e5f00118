"""Tables with names: arguments are put in the order of the names that they belong to, or refused.

A table is a DataFrame or Series, of any library. Series of pandas have names of rows only; tables of polars and Arrow
have names of columns only. An axis with the names 0, 1, 2 and so on, in this order, counts as unnamed, because pandas
writes these if nobody gives names. It is taken by position, unless the names that are needed are the same numbers.

Most rooms use this file.
"""

from collections.abc import Iterator

from .errors import error_at

# Names of the columns of a table of arcs: the start of an arc, and its end. In a hierarchy arcs lead to children.
_STARTS = ("parent", "parent_id", "source", "from", "tail")
_ENDS = ("child", "child_id", "target", "to", "head", "id")
_BY_POSITION = "or pass {}.to_numpy() to give them by position"


def column_names(table, name="y"):
    """Return the names of the columns of a table as a list; None for other objects.

    Raises
    ------
    ValueError
        If two columns have the same name.
    """
    # The attribute `columns` of a table of Arrow has the columns themselves.
    names = getattr(table, "column_names", None)
    names = getattr(table, "columns", None) if names is None else names
    if names is None or getattr(table, "ndim", 2) != 2:
        return None
    names = list(names)
    seen = set()
    for each in names:
        if each in seen:
            raise ValueError(f"{name} has two columns {_shown(each)}; two labels have the same name, so rename one")
        seen.add(each)
    return names


def check_equal_columns(samples, name):
    """Raise ValueError unless samples that are tables have equal columns in one order.

    Parameters
    ----------
    samples : sequence
        The first one is a table.
    name : callable
        Maps the index of a sample to its name in messages.
    """
    names = None
    for i, sample in enumerate(samples):
        # The attribute `columns` of a table of Arrow has the columns themselves.
        own = list(getattr(sample, "column_names", getattr(sample, "columns", ())))
        names = own if names is None else names
        if own != names:
            raise error_at(name(i), f" has other columns than {name(0)}; give all samples the same, in the same order")


def row_names(table):
    """Return the index of a table of pandas as a list; None for other objects."""
    index = table.index if hasattr(table, "iloc") else None
    return index.tolist() if hasattr(index, "tolist") else None


def are_default(names):
    """Tell whether names are 0, 1, 2 and so on, in this order."""
    return names == list(range(len(names)))


def is_named(table):
    """Tell whether a table has names of rows or columns other than 0, 1, 2 and so on."""
    names = row_names(table), column_names(table)
    return any(own is not None and not are_default(own) for own in names)


def refuse_names(table, name):
    """Raise ValueError for a table with names, because the argument has no names to compare them with."""
    if is_named(table):
        names = row_names(table)
        names = column_names(table, name) if names is None or are_default(names) else names
        fault = f" has names, such as {_shown(names[0])}, but is taken by position; put it in order, and pass "
        raise error_at(name, "", fault, ".to_numpy()")


def order_by(given, wanted, name, noun, whose, *, more=False, default=True, remedy=None):
    """Return the places of wanted names among given ones; None if the order is the same, or given names are no names.

    Parameters
    ----------
    given : list or None
        The names of an axis.
    wanted : list
        The names in the order that is needed.
    name, noun, whose : str
        The argument, its kind of axis (such as "column"), and the origin of `wanted`, for messages.
    more : bool, default=False
        Whether the axis may have more names than are wanted, as a table of values that is made once.
    default : bool, default=True
        Whether the names 0, 1, 2 and so on are no names.
    remedy : str, default=None
        End of the message. By default, it says how to give the axis by position.

    Raises
    ------
    ValueError
        If the names are not those wanted, or one is there twice.
    """
    if given is None or given == wanted:
        return None
    place_of = {each: place for place, each in enumerate(given)}
    absent = [each for each in wanted if each not in place_of]
    fits = len(given) == len(wanted) or (more and not are_default(given))
    if fits and not absent and len(place_of) == len(given):
        return [place_of[each] for each in wanted]
    if default and are_default(given):
        return None
    remedy = f"name the {noun}s of {name} like these, {_BY_POSITION.format(name)}" if remedy is None else remedy
    if len(place_of) < len(given):
        twice = next(each for i, each in enumerate(given) if place_of[each] != i)
        raise ValueError(f"{name} has the {noun} {_shown(twice)} twice, so its order is ambiguous; {remedy}")
    known = set(wanted)
    unknown = [each for each in given if each not in known]
    found = [f"{name} has the {noun} {_shown(unknown[0])}, which is not among {whose}"] if unknown and not more else []
    found += [f"{name} has no {noun} {_shown(absent[0])}, which is among {whose}"] if absent else []
    # The same names, one of them several times in `wanted`.
    found = found or [f"{whose} contain names twice, so the order of {name} is ambiguous"]
    raise ValueError(f"{'; '.join(found)}; {remedy}")


def aligned(table, *axes, name, whose, more=False):
    """Return a table as an array in the order of names; arguments without names are returned as they are.

    Parameters
    ----------
    table : object
        An argument in the user's form.
    *axes : list
        The names of each axis, in the order that is needed.
    name, whose : str
        The argument, and the origin of the names, for messages.
    more : bool, default=False
        Whether the table may have more names than are needed.

    Raises
    ------
    ValueError
        If its names are not those needed.

    Notes
    -----
    If both axes need the same names, and only one of them has any, the other has the same order. So square tables of
    polars, which have no names of rows, can be read.
    """
    # Tables of polars have no `ndim`.
    if not hasattr(table, "to_numpy") or len(getattr(table, "shape", ())) != len(axes):
        return table
    given = (row_names(table), column_names(table, name))[: len(axes)]
    if len(axes) == 2 and axes[0] == axes[1]:
        named = [own for own in given if own is not None and not (are_default(own) and own != axes[0])]
        given = named * 2 if len(named) == 1 else given
    values = table.to_numpy()
    for axis, (own, wanted, noun) in enumerate(zip(given, axes, ("row", "column"))):
        order = order_by(own, list(wanted), name, noun, whose, more=more)
        values = values if order is None else values.take(order, axis)
    return values


def as_mapping(series, name):
    """Return a Series with names as a dict from name to value; other objects as they are.

    Parameters
    ----------
    series : object
        An argument in the user's form.
    name : str
        The argument, for messages.

    Raises
    ------
    ValueError
        If a name is there twice.
    """
    names = row_names(series) if getattr(series, "ndim", 0) == 1 else None
    if names is None or are_default(names):
        return series
    if len(set(names)) < len(names):
        twice = next(each for i, each in enumerate(names) if each in names[:i])
        raise ValueError(f"{name} has the entry {_shown(twice)} twice; give each name one value")
    return dict(zip(names, series.tolist()))


def rows_of(table):
    """Return the rows of a table, or of an array, as lists."""
    names = column_names(table, "the table")
    return list(map(list, table)) if names is None else list(map(list, zip(*(table[name].to_list() for name in names))))


def read_arcs(table, name, remedy="or pass a list of pairs"):
    """Return the rows (start, end) of a table of arcs, whose columns have known names; other columns are not read.

    Columns without names are the start and the end.

    Parameters
    ----------
    table : DataFrame
    name, remedy : str
        The argument, and the end of the message.

    Raises
    ------
    ValueError
        If there are not exactly one column of starts and one of ends.
    """
    columns = column_names(table, name)
    if are_default(columns) and len(columns) == 2:
        return rows_of(table)
    known = {each: str(each).lower() for each in columns}
    starts, ends = ([each for each in columns if known[each] in own] for own in (_STARTS, _ENDS))
    if len(ends) > 1:
        # In a table of nodes with a number each, such as id, child and parent, the number is not the end.
        ends = [each for each in ends if known[each] != "id"]
    if len(starts) != 1 or len(ends) != 1:
        raise ValueError(
            f"{name} has the columns {', '.join(map(_shown, columns))}; call the start of an arc one of "
            f"{', '.join(_STARTS)}, and its end one of {', '.join(_ENDS)}, {remedy}"
        )
    return [list(pair) for pair in zip(table[starts[0]].to_list(), table[ends[0]].to_list())]


def refuse_iterator(values, name):
    """Raise ValueError if an argument is an iterator, such as a generator, which can be read only once.

    Parameters
    ----------
    values : object
    name : str or Place
    """
    if isinstance(values, Iterator):
        raise error_of_iterator(values, name)


def error_of_iterator(values, name):
    """Return the error for an argument that is an iterator; see `refuse_iterator`."""
    fault = f" is an iterator ({type(values).__name__}), which can be read only once; write list("
    return error_at(name, "", fault, ")")


def by_samples(values, X, name, of="X"):
    """Return values of samples in the order of the index of X if both have an index; a Series becomes an array.

    Parameters
    ----------
    values : object
        One entry or row for each sample, in the user's form. If they are values of steps, a list of Series may have the
        indexes of tables in a list X.
    X : object
        The samples, in the user's form.
    name, of : str
        The two arguments, for messages.

    Raises
    ------
    ValueError
        If the indexes have different entries.
    """
    refuse_iterator(values, name)
    if isinstance(values, list | tuple) and any(hasattr(own, "iloc") for own in values):
        # Values of steps. A sample, too, may be a table with an index.
        samples = list(X) if isinstance(X, list | tuple) and len(X) == len(values) else [None] * len(values)
        return [by_samples(own, x, f"{name}[{i}]", f"{of}[{i}]") for i, (own, x) in enumerate(zip(values, samples))]
    if not hasattr(values, "iloc"):
        return values
    given = row_names(values)
    wanted = row_names(X)
    # A later check names different numbers of samples.
    if wanted is not None and len(given) == len(wanted):
        remedy = f"write {name}.loc[{of}.index], {_BY_POSITION.format(name)}"
        order = order_by(given, wanted, name, "index", f"the index of {of}", default=False, remedy=remedy)
        values = values if order is None else values.iloc[order]
    # Columns still have names.
    return values.to_numpy() if values.ndim == 1 else values


def _shown(name):
    text = repr(name)
    return text if len(text) <= 80 else f"{text[:77]}..."
