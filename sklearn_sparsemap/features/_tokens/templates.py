"""The template language: which fields of which neighbours make up one feature."""

from __future__ import annotations

import re
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing_extensions import Self

_ATOM = re.compile(r"\s*(?P<field>[^\s\[\]|]+)\s*\[\s*(?P<offset>[+-]?\d+)\s*\]\s*")
_FIELD = re.compile(r"[^\s\[\]|]+")
# Sentences are padded by the largest offset.
_LARGEST_OFFSET = 1000


@dataclass(frozen=True, slots=True, repr=False)
class Template:
    """A conjunction of fields of the current token and its neighbours.

    At every token a template has exactly one value: the values of its atoms, in order. Each value that occurs
    becomes one column.

    Parameters
    ----------
    atoms : sequence of (field, offset) pairs
        The name of a field, and the place of its token relative to the current one (-1 is the token before).

    Attributes
    ----------
    atoms : tuple of (str, int)
        As given.

    Raises
    ------
    ValueError
        If there is no atom, an atom occurs twice, a name is empty or contains a space, ``[``, ``]`` or ``|``,
        or an offset is no integer.

    Examples
    --------
    >>> from sklearn_sparsemap.features import Template
    >>> template = Template([("word", -1), ("pos", 0)])
    >>> str(template)
    'word[-1]|pos[0]'
    >>> template == Template.parse("word[-1]|pos[0]")
    True
    >>> template | Template.parse("pos[1]")
    Template.parse('word[-1]|pos[0]|pos[1]')
    """

    atoms: tuple

    #: How to write one, for messages.
    HOW: ClassVar = "write it as field[offset], joined by '|': for example 'word[0]' or 'word[-1]|pos[0]'"

    def __post_init__(self):
        if isinstance(self.atoms, str):
            raise ValueError(
                f"atoms must be (field, offset) pairs; use Template.parse({self.atoms!r}) for a string"
            )
        atoms = []
        for atom in self.atoms:
            if not isinstance(atom, tuple | list) or len(atom) != 2:
                raise ValueError(f"each atom must be a (field, offset) pair; got {atom!r}")
            check_field(atom[0])
            check_offset(*atom)
            atoms.append((atom[0], int(atom[1])))
        if not atoms:
            raise ValueError("a template needs at least one (field, offset) atom")
        if len(set(atoms)) < len(atoms):
            raise ValueError(f"a template names each atom once; got {_join(atoms)!r}")
        object.__setattr__(self, "atoms", tuple(atoms))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a template from its string form.

        Parameters
        ----------
        text : str
            ``field[offset]``, several of them joined by ``|``.

        Returns
        -------
        template : Template

        Raises
        ------
        ValueError
            If `text` is not of that form.

        Examples
        --------
        >>> from sklearn_sparsemap.features import Template
        >>> Template.parse("word[-1] | word[+1]").atoms
        (('word', -1), ('word', 1))
        """
        if not isinstance(text, str):
            raise ValueError(f"a template is parsed from a string; got {text!r}. {cls.HOW.capitalize()}")
        atoms = []
        for part in text.split("|"):
            match = _ATOM.fullmatch(part)
            if match is None:
                raise ValueError(f"cannot read {part!r} in the template {text!r}; {cls.HOW}")
            atoms.append((match["field"], int(match["offset"])))
        return cls(tuple(atoms))

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields, each once, in order of appearance: tuple of str."""
        return tuple(dict.fromkeys(field for field, _ in self.atoms))

    def __or__(self, other: Any) -> Template:
        """The conjunction of two templates."""
        if not isinstance(other, Template):
            return NotImplemented
        return Template(self.atoms + other.atoms)

    def __str__(self):
        return _join(self.atoms)

    def __repr__(self):
        return f"Template.parse({str(self)!r})"


def check_field(field):
    """Refuse what cannot be the name of a field in a template."""
    if not isinstance(field, str) or not _FIELD.fullmatch(field):
        raise ValueError(f"a field must be a name without spaces, '[', ']' and '|'; got {field!r}")


def check_offset(field, offset):
    """Refuse what cannot be the offset of a field in a template."""
    if not _is_int(offset):
        raise ValueError(f"the offset of field {field!r} must be an integer; got {offset!r}")
    if abs(offset) > _LARGEST_OFFSET:
        raise ValueError(f"the offset of field {field!r} must be at most {_LARGEST_OFFSET}; got {offset}")


def _join(atoms):
    return "|".join(f"{field}[{offset}]" for field, offset in atoms)


def ngrams(field: str, n: int | tuple[int, int], window: int) -> list[Template]:
    """Return the templates of all contiguous n-grams of a field near the current token.

    Parameters
    ----------
    field : str
        The name of the field.
    n : int or (int, int)
        The length of the n-grams, or the lowest and the highest length.
    window : int
        Every position of an n-gram lies in ``[-window, window]``.

    Returns
    -------
    templates : list of Template
        By length, then from left to right.

    Raises
    ------
    ValueError
        If a length is below 1 or does not fit into the window, or a value has the wrong type.

    Examples
    --------
    >>> from sklearn_sparsemap.features import ngrams
    >>> [str(template) for template in ngrams("pos", (1, 2), window=1)]
    ['pos[-1]', 'pos[0]', 'pos[1]', 'pos[-1]|pos[0]', 'pos[0]|pos[1]']
    """
    bounds = n if isinstance(n, tuple | list) else (n, n)
    if len(bounds) != 2 or not all(_is_int(b) for b in bounds) or not 1 <= bounds[0] <= bounds[1]:
        raise ValueError(f"n must be a positive integer or a (lowest, highest) pair of them; got {n!r}")
    if not _is_int(window) or window < 0:
        raise ValueError(f"window must be a non-negative integer; got {window!r}")
    lowest, highest = bounds
    if highest > 2 * window + 1:
        raise ValueError(
            f"an n-gram of length {highest} does not fit into the {2 * window + 1} positions of "
            f"window={window}; lower n or widen the window"
        )
    return [
        Template(tuple((field, offset) for offset in range(first, first + length)))
        for length in range(lowest, highest + 1)
        for first in range(-window, window - length + 2)
    ]


def chunking_templates() -> list[Template]:
    """Return the 72 templates for chunking of Martins, Smith, Aguiar and Figueiredo (EMNLP 2011, section 5).

    Part-of-speech 1- to 5-grams within 5 tokens (45), word 1- to 3-grams within 3 tokens (18), and word shape
    1- and 2-grams within 2 tokens (9). The tokens need the fields ``word`` and ``pos``; ``shape`` is derived
    from ``word``.

    Returns
    -------
    templates : list of Template

    Examples
    --------
    >>> from sklearn_sparsemap.features import chunking_templates
    >>> templates = chunking_templates()
    >>> len(templates), str(templates[11])
    (72, 'pos[-5]|pos[-4]')
    """
    return ngrams("pos", (1, 5), 5) + ngrams("word", (1, 3), 3) + ngrams("shape", (1, 2), 2)


def ner_templates() -> list[Template]:
    """Return 324 templates for named entities after Martins, Smith, Aguiar and Figueiredo (EMNLP 2011, section 5).

    Those of `chunking_templates`, and beside them word shape up to 3-grams within 3 tokens (18 in all), prefixes and
    suffixes of 1 to 3 characters as 1- to 3-grams within 3 tokens (108), and case, digits and punctuation as 1- to
    5-grams within 5 tokens (135). The tokens need the fields ``word`` and ``pos``; the others are derived from
    ``word``.

    Returns
    -------
    templates : list of Template

    See Also
    --------
    word_shape, word_case, word_digits, word_punctuation : What the derived fields hold.

    Examples
    --------
    >>> from sklearn_sparsemap.features import ner_templates, ngrams
    >>> len(ner_templates())
    324

    Own templates are one line each:

    >>> templates = ner_templates() + ngrams("suffix4", 1, 1) + ["word[0]|pos[1]", "lower[0]"]
    """
    affixes = [f"{kind}{length}" for kind in ("prefix", "suffix") for length in (1, 2, 3)]
    templates = ngrams("pos", (1, 5), 5)
    for field in ("word", "shape", *affixes):
        templates += ngrams(field, (1, 3), 3)
    for field in ("case", "digits", "punctuation"):
        templates += ngrams(field, (1, 5), 5)
    return templates


def as_templates(templates, kind=Template):
    """Turn the templates that a user gives, objects of this kind or strings, into a tuple of distinct objects."""
    if isinstance(templates, str | kind):
        raise ValueError(f"templates must be a list of templates; write [{str(templates)!r}]")
    try:
        given = list(templates)
    except TypeError:
        raise ValueError(f"templates must be a list of templates or strings; got {templates!r}") from None
    if not given:
        raise ValueError(f"templates is empty; give at least one: {kind.HOW}")
    parsed = tuple(t if isinstance(t, kind) else kind.parse(t) for t in given)
    seen = set()
    for template in parsed:
        if template in seen:
            raise ValueError(f"the template {str(template)!r} is given twice; remove one")
        seen.add(template)
    return parsed


def _is_int(value):
    return isinstance(value, Integral) and not isinstance(value, bool)
