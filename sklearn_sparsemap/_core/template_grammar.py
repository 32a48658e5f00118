"""The grammar of templates, shared by features, orders of groups, and reports.

A template is a sequence of atoms joined by ``|``. An atom is a field with an optional side before it and an optional
offset after it: ``word[-1]|pos[0]``, ``head.pos[0]|between.pos|distance``.

Used by `features` and `penalties`.
"""

import re

_ATOM = re.compile(
    r"\s*(?P<name>(?:(?P<side>\w+)\s*\.\s*)?(?P<field>[^\s\[\]|]+?))\s*(?:\[\s*(?P<offset>[+-]?\d+)\s*\])?\s*"
)
HOW_TO_WRITE = "write it as field[offset], joined by '|': for example 'word[-1]|pos[0]'"


def read_template(text, as_atom, *, what="template", how=HOW_TO_WRITE):
    """Read a template.

    Parameters
    ----------
    text : str
    as_atom : callable
        Called with the side (or None), the field, the offset (or None), and the written form of side and field. Returns
        the atom, or None if this kind of template has no such atom.
    what, how : str
        The name of the template and its syntax, for messages.

    Returns
    -------
    atoms : list
    """
    atoms = []
    for part in text.split("|"):
        match = _ATOM.fullmatch(part)
        atom = None
        if match is not None:
            offset = match["offset"]
            atom = as_atom(match["side"], match["field"], None if offset is None else int(offset), match["name"])
        if atom is None:
            raise ValueError(f"cannot read {part!r} in the {what} {text!r}; {how}")
        atoms.append(atom)
    return atoms


def read_offsets(text):
    """Return ((side, offset), field) of each atom of a template of any kind."""
    return read_template(text, lambda side, field, offset, _: ((side, offset), field))
