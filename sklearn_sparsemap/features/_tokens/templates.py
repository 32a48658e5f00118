"""Templates of tokens: the fields of a token and its neighbours in one feature.

Used by `vectorizer.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..._core.plain import add_form
from .._template import BaseTemplate, check_atom, is_int


@dataclass(frozen=True, slots=True, repr=False)
class Template(BaseTemplate):
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
        or an offset is not an integer.

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
    >>> Template.parse("word[-1] | word[+1]").atoms
    (('word', -1), ('word', 1))
    """

    atoms: tuple

    #: How to write one, for messages.
    HOW: ClassVar = "write it as field[offset], joined by '|': for example 'word[0]' or 'word[-1]|pos[0]'"

    WHAT: ClassVar = "a template"
    MADE_OF: ClassVar = "(field, offset) pairs"

    @property
    def _side_atoms(self) -> tuple[tuple, ...]:
        """The atoms in the form of those of `ArcTemplate`, with the current token as head: tuple of tuples."""
        return tuple(("head", *atom) for atom in self.atoms)

    @staticmethod
    def _check_atom(atom):
        if not isinstance(atom, tuple | list) or len(atom) != 2:
            raise ValueError(f"each atom must be a (field, offset) pair; got {atom!r}")
        return check_atom(*atom)

    @staticmethod
    def _as_atom(side, field, offset, name):
        # Here a dot belongs to the name of the field, and spaces around it are not allowed.
        return None if offset is None or len(name.split()) > 1 else (name, offset)

    @staticmethod
    def _text_of(atom):
        return f"{atom[0]}[{atom[1]}]"


add_form("features.Template", Template)


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
    if len(bounds) != 2 or not all(is_int(b) for b in bounds) or not 1 <= bounds[0] <= bounds[1]:
        raise ValueError(f"n must be a positive integer or a (lowest, highest) pair of them; got {n!r}")
    if not is_int(window) or window < 0:
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

    The templates of `chunking_templates`, with word shape up to 3-grams within 3 tokens (18 in all). In addition,
    prefixes and suffixes of 1 to 3 characters as 1- to 3-grams within 3 tokens (108), and case, digits and punctuation
    as 1- to 5-grams within 5 tokens (135). The tokens need the fields ``word`` and ``pos``; the others are derived from
    ``word``.

    Returns
    -------
    templates : list of Template

    See Also
    --------
    word_shape, word_case, word_digits, word_punctuation : The functions of the derived fields.

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
