"""Features of a word's characters, and the derived fields that hold them.

Used by `_fields.py`.
"""

from __future__ import annotations

from functools import partial
from unicodedata import category

from .._core.annotations import Any, Callable

_LONGEST_AFFIX = 5  # characters of the longest derived prefix and suffix


def word_shape(word: str) -> str:
    """Return the shape of a word: the types of its characters, repeats collapsed.

    Upper-case and title-case letters become ``A``, lower-case letters ``a``, letters without case ``x``,
    digits ``0``; all other characters are kept. A run of one symbol is written once; a run of two
    or more digits is written ``0+``.

    Parameters
    ----------
    word : str

    Returns
    -------
    shape : str

    Examples
    --------
    >>> from sklearn_sparsemap.features import word_shape
    >>> word_shape("Confidence"), word_shape("2,664,098"), word_shape("McDonald's"), word_shape("--")
    ('Aa', '0,0+,0+', "AaAa'a", '-')
    """
    shape = ""
    previous = ""
    for character in word:
        if character.isdigit():
            symbol = "0"
        elif character.islower():
            symbol = "a"
        elif character.isupper() or character.istitle():
            symbol = "A"
        elif character.isalpha():
            symbol = "x"
        else:
            symbol = character
        if symbol != previous:
            shape += symbol
        elif symbol == "0" and shape[-1] == "0":
            shape += "+"
        previous = symbol
    return shape


def word_case(word: str) -> str:
    """Return how a word is capitalised.

    Parameters
    ----------
    word : str

    Returns
    -------
    case : str
        ``"initial"`` if its first letter is in upper or title case and no other, ``"upper"`` if all of two or
        more letters are in upper case, ``"lower"`` if none is, else ``"mixed"``; ``"none"`` if it has no letter
        with a case.

    Examples
    --------
    >>> from sklearn_sparsemap.features import word_case
    >>> [word_case(word) for word in ("Madrid", "U.S.", "de", "McDonald's", "1992")]
    ['initial', 'upper', 'lower', 'mixed', 'none']
    """
    is_upper = [not character.islower() for character in word if character.upper() != character.lower()]
    if not is_upper:
        return "none"
    if not any(is_upper):
        return "lower"
    if not any(is_upper[1:]):
        return "initial"
    return "upper" if all(is_upper) else "mixed"


def word_digits(word: str) -> str:
    """Return how many characters of a word are digits: none, some or all.

    Parameters
    ----------
    word : str

    Returns
    -------
    amount : str
        ``"none"``, ``"some"`` or ``"all"``.

    Examples
    --------
    >>> from sklearn_sparsemap.features import word_digits
    >>> [word_digits(word) for word in ("1992", "1990s", "Madrid")]
    ['all', 'some', 'none']
    """
    return _amount([character.isdigit() for character in word])


def word_punctuation(word: str) -> str:
    """Return how many characters of a word are punctuation marks or symbols: none, some or all.

    Parameters
    ----------
    word : str

    Returns
    -------
    amount : str
        ``"none"``, ``"some"`` or ``"all"``; characters of the Unicode categories P and S count.

    Examples
    --------
    >>> from sklearn_sparsemap.features import word_punctuation
    >>> [word_punctuation(word) for word in ("...", "U.S.", "Madrid")]
    ['all', 'some', 'none']
    """
    return _amount([category(character)[0] in "PS" for character in word])


def _amount(flags):
    if not any(flags):
        return "none"
    return "all" if all(flags) else "some"


def _lower(word):
    # Not `str.lower`, because all ways of saving a vectorizer find the functions of this module by their names.
    return word.lower()


def _prefix(word, n):
    return word[:n]


def _suffix(word, n):
    return word[-n:]


#: The fields that vectorizers derive from a token's ``word`` by default: ``shape``, ``lower``, ``case``, ``digits``,
#: ``punctuation``, and ``prefix1`` to ``prefix5`` and ``suffix1`` to ``suffix5``. To add fields, pass a copy:
#: ``derived_fields={**DERIVED_FIELDS, "length": ("word", len)}``.
DERIVED_FIELDS: dict[str, tuple[str, Callable[..., Any]]] = {
    "shape": ("word", word_shape),
    "lower": ("word", _lower),
    "case": ("word", word_case),
    "digits": ("word", word_digits),
    "punctuation": ("word", word_punctuation),
    **{f"prefix{n}": ("word", partial(_prefix, n=n)) for n in range(1, _LONGEST_AFFIX + 1)},
    **{f"suffix{n}": ("word", partial(_suffix, n=n)) for n in range(1, _LONGEST_AFFIX + 1)},
}
