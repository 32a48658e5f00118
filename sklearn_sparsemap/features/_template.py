"""The common part of templates of tokens and of arcs.

Used by `features/_arcs`, `features/_tokens`, `features/_triples`, `features/_vectors` and `_base.py`.
"""

from __future__ import annotations

import re
from numbers import Integral
from typing import ClassVar

from .._core.annotations import Any, Self
from .._core.template_grammar import read_template

_FIELD = re.compile(r"[^\s\[\]|]+")
_LARGEST_OFFSET = 1000  # tokens; sentences are padded by the largest offset, so larger ones cost memory
RELATIONS = ("direction", "distance")


class BaseTemplate:
    """A conjunction of atoms, which a subclass holds as a frozen dataclass.

    A subclass defines its syntax (`HOW`), its name and components in messages (`WHAT`, `MADE_OF`), the tokens that it
    reads (`SIDES`), the property `_side_atoms`, and the methods `_check_atom`, `_as_atom` (from the parts of a parsed
    string) and `_text_of`. With `HAS_ROOT`, the place before the first token is the root of a tree.
    """

    __slots__ = ()
    SIDES: ClassVar[tuple[str, ...]] = ("head",)
    HAS_ROOT: ClassVar = False
    HOW: ClassVar[str]
    WHAT: ClassVar[str]
    MADE_OF: ClassVar[str]

    def __post_init__(self):
        if isinstance(self.atoms, str):
            name = type(self).__name__
            raise ValueError(f"atoms must be {self.MADE_OF}; use {name}.parse({self.atoms!r}) for a string")
        atoms = tuple(map(self._check_atom, self.atoms))
        if not atoms:
            raise ValueError(f"{self.WHAT} needs at least one atom")
        if len(set(atoms)) < len(atoms):
            raise ValueError(f"{self.WHAT} names each atom once; got {self._join(atoms)!r}")
        object.__setattr__(self, "atoms", atoms)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a template from its string form.

        Parameters
        ----------
        text : str
            Atoms joined by ``|``, each as in the examples of the class.

        Returns
        -------
        template : the class

        Raises
        ------
        ValueError
            If `text` is not of that form.
        """
        if not isinstance(text, str):
            raise ValueError(f"{cls.WHAT} is parsed from a string; got {text!r}. {cls.HOW.capitalize()}")
        what = cls.WHAT.split(maxsplit=1)[1]
        return cls(tuple(read_template(text, cls._as_atom, what=what, how=cls.HOW)))

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields, each once, in order of appearance: tuple of str."""
        return tuple(dict.fromkeys(place[1] for place in self._side_atoms if len(place) > 1))

    @classmethod
    def _join(cls, atoms):
        return "|".join(map(cls._text_of, atoms))

    def __or__(self, other: Any) -> Self:
        """Return the conjunction of two templates."""
        if not isinstance(other, type(self)):
            return NotImplemented
        return type(self)(self.atoms + other.atoms)

    def __str__(self):
        return self._join(self.atoms)

    def __repr__(self):
        return f"{type(self).__name__}.parse({str(self)!r})"


class SidedTemplate(BaseTemplate):
    """A template of several tokens, called sides, and of relations between them.

    A subclass names its sides (`SIDES`), and the sides of several tokens (`SPANS`), which have a field but no offset.
    """

    __slots__ = ()
    HAS_ROOT: ClassVar = True
    SPANS: ClassVar[tuple[str, ...]] = ()
    MADE_OF: ClassVar = "tuples"

    @property
    def _side_atoms(self):
        return self.atoms

    @classmethod
    def _check_atom(cls, atom):
        atom = tuple(atom) if isinstance(atom, tuple | list) else (atom,)
        kind, *rest = atom or (None,)
        if kind in cls.SIDES and len(rest) == 2:
            return kind, *check_atom(*rest)
        if kind in cls.SPANS and len(rest) == 1:
            check_field(rest[0])
            return atom
        if kind in RELATIONS and not rest:
            return atom
        forms = [f"('{side}', field, offset)" for side in cls.SIDES] + [f"('{span}', field)" for span in cls.SPANS]
        raise ValueError(f"an atom is {', '.join(forms)}, ('direction',) or ('distance',); got {atom!r}")

    @classmethod
    def _as_atom(cls, side, field, offset, name):
        if side in cls.SIDES:
            return None if offset is None else (side, field, offset)
        if offset is not None:
            return None
        if side in cls.SPANS:
            return side, field
        return (field,) if side is None and field in RELATIONS else None

    @staticmethod
    def _text_of(atom):
        return f"{atom[0]}.{atom[1]}[{atom[2]}]" if len(atom) == 3 else ".".join(atom)


def check_field(field):
    """Raise ValueError unless this can be the name of a field in a template."""
    if not isinstance(field, str) or not _FIELD.fullmatch(field):
        raise ValueError(f"a field must be a name without spaces, '[', ']' and '|'; got {field!r}")


def check_atom(field, offset):
    """Check the field and the offset of an atom; return both, the offset as an int."""
    check_field(field)
    if not is_int(offset):
        raise ValueError(f"the offset of field {field!r} must be an integer; got {offset!r}")
    if abs(offset) > _LARGEST_OFFSET:
        raise ValueError(f"the offset of field {field!r} must be at most {_LARGEST_OFFSET}; got {offset}")
    return field, int(offset)


def is_int(value):
    """Return whether a value is an integer and not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def as_templates(templates, template_class):
    """Turn the templates that a user gives, objects of this kind or strings, into a tuple of distinct objects."""
    if isinstance(templates, str | template_class):
        raise ValueError(f"templates must be a list of templates; write [{str(templates)!r}]")
    try:
        given = list(templates)
    except TypeError:
        raise ValueError(f"templates must be a list of templates or strings; got {templates!r}") from None
    if not given:
        raise ValueError(f"templates is empty; give at least one: {template_class.HOW}")
    parsed = tuple(t if isinstance(t, template_class) else template_class.parse(t) for t in given)
    seen = set()
    for template in parsed:
        if template in seen:
            raise ValueError(f"the template {str(template)!r} is given twice; remove one")
        seen.add(template)
    return parsed
