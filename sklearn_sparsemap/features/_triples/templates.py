"""Templates of triples: the fields of a head, of its modifier, and of a sibling or grandparent in one feature.

Used by `vectorizers.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..._core.plain import add_form
from .._template import SidedTemplate


@dataclass(frozen=True, slots=True, repr=False)
class SiblingTemplate(SidedTemplate):
    """A conjunction of fields of a head, of one of its modifiers, and of the next modifier on the same side.

    ``head.pos[0]`` is a field of the head, ``sib.pos[0]`` one of the modifier that is nearer to the head, and
    ``mod.pos[-1]`` one of the token before the modifier that is farther away. ``direction`` is the side of the head
    (``left`` or ``right``), and ``distance`` the number of words from the nearer modifier to the farther one (``1`` to
    ``5``, ``6-10`` or ``11+``).

    For the first modifier, the distance is that from the head, and all fields of ``sib`` are ``<root>``. After the last
    modifier, all fields of ``mod`` are ``<root>``, and the distance is 1.

    Parameters
    ----------
    atoms : sequence of tuples
        ``("head", field, offset)``, ``("sib", field, offset)``, ``("mod", field, offset)``, ``("direction",)`` or
        ``("distance",)``.

    Attributes
    ----------
    atoms : tuple of tuples
        As given.

    Raises
    ------
    ValueError
        If there is no atom, an atom occurs twice or is not of these forms, a name is empty or contains a space, ``[``,
        ``]`` or ``|``, or an offset is not an integer.

    Examples
    --------
    >>> from sklearn_sparsemap.features import SiblingTemplate
    >>> template = SiblingTemplate.parse("head.pos[0]|sib.pos[0]|mod.pos[0]|direction")
    >>> template.atoms
    (('head', 'pos', 0), ('sib', 'pos', 0), ('mod', 'pos', 0), ('direction',))
    """

    atoms: tuple

    #: How to write one, for messages.
    HOW: ClassVar = (
        "write it as head.field[offset], sib.field[offset], mod.field[offset], direction and distance, joined by '|': "
        "for example 'head.pos[0]|sib.pos[0]|mod.pos[0]'"
    )

    WHAT: ClassVar = "a sibling template"
    SIDES: ClassVar = ("head", "sib", "mod")


add_form("features.SiblingTemplate", SiblingTemplate)


def sibling_templates(*, fine_pos: str | None = None) -> list[SiblingTemplate]:
    """Return templates of siblings in the manner of McDonald and Pereira (EACL 2006) and Carreras (EMNLP 2007).

    The tags of both modifiers, with that of the head, with the words of one of the three, and with the distance between
    the modifiers: 12 templates. The tokens need the fields ``word`` and ``pos``.

    Parameters
    ----------
    fine_pos : str, default=None
        A field with finer tags, such as ``"xpos"`` of `load_conllu`: adds 3 templates.

    Returns
    -------
    templates : list of SiblingTemplate

    Examples
    --------
    >>> from sklearn_sparsemap.features import sibling_templates
    >>> len(sibling_templates()), str(sibling_templates()[2])
    (12, 'head.pos[0]|sib.pos[0]|mod.pos[0]|direction')
    >>> len(sibling_templates(fine_pos="xpos"))
    15
    """
    head, sib, mod = "head.pos[0]", "sib.pos[0]", "mod.pos[0]"
    seen = [
        *(f"{sib}|{mod}", f"{sib}|{mod}|distance", f"{head}|{sib}|{mod}", f"{head}|{sib}|{mod}|distance"),
        *(f"sib.word[0]|{mod}", f"{sib}|mod.word[0]", "sib.word[0]|mod.word[0]"),
        *(f"head.word[0]|{sib}|{mod}", f"{head}|sib.word[0]|{mod}", f"{head}|{sib}|mod.word[0]"),
        *(f"{head}|{sib}|{mod}|mod.pos[1]", f"{head}|{sib}|mod.pos[-1]|{mod}"),
    ]
    if fine_pos is not None:
        fine_sib, fine_mod = f"sib.{fine_pos}[0]", f"mod.{fine_pos}[0]"
        seen += [f"{fine_sib}|{fine_mod}", f"{head}|{fine_sib}|{fine_mod}", f"head.{fine_pos}[0]|{fine_sib}|{fine_mod}"]
    return [SiblingTemplate.parse(f"{atoms}|direction") for atoms in seen]


@dataclass(frozen=True, slots=True, repr=False)
class GrandparentTemplate(SidedTemplate):
    """A conjunction of fields of a head, of one of its modifiers, and of the grandparent: the head of the head.

    ``head.pos[0]`` is a field of the head, ``grand.pos[0]`` one of its own head, and ``mod.pos[-1]`` one of the token
    before the modifier. ``direction`` is the order of the three words (one of six), and ``distance`` the number of
    words from the grandparent to the modifier (``1`` to ``5``, ``6-10`` or ``11+``).

    Parameters
    ----------
    atoms : sequence of tuples
        ``("grand", field, offset)``, ``("head", field, offset)``, ``("mod", field, offset)``, ``("direction",)`` or
        ``("distance",)``.

    Attributes
    ----------
    atoms : tuple of tuples
        As given.

    Raises
    ------
    ValueError
        As of `SiblingTemplate`.

    Examples
    --------
    >>> from sklearn_sparsemap.features import GrandparentTemplate
    >>> GrandparentTemplate.parse("grand.pos[0]|head.pos[0]|mod.pos[0]|direction").fields
    ('pos',)
    """

    atoms: tuple

    #: How to write one, for messages.
    HOW: ClassVar = (
        "write it as grand.field[offset], head.field[offset], mod.field[offset], direction and distance, joined by "
        "'|': for example 'grand.pos[0]|head.pos[0]|mod.pos[0]'"
    )

    WHAT: ClassVar = "a grandparent template"
    SIDES: ClassVar = ("grand", "head", "mod")


add_form("features.GrandparentTemplate", GrandparentTemplate)


def grandparent_templates(*, fine_pos: str | None = None) -> list[GrandparentTemplate]:
    """Return templates of grandparents in the manner of Carreras (EMNLP 2007) and Koo and Collins (ACL 2010).

    The tags of modifier and grandparent, with that of the head, with the words of one of the three, and with the
    distance: 9 templates. The tokens need the fields ``word`` and ``pos``.

    Parameters
    ----------
    fine_pos : str, default=None
        A field with finer tags, such as ``"xpos"`` of `load_conllu`: adds 2 templates.

    Returns
    -------
    templates : list of GrandparentTemplate

    Examples
    --------
    >>> from sklearn_sparsemap.features import grandparent_templates
    >>> len(grandparent_templates()), str(grandparent_templates()[1])
    (9, 'grand.pos[0]|head.pos[0]|mod.pos[0]|direction')
    >>> len(grandparent_templates(fine_pos="xpos"))
    11
    """
    grand, head, mod = "grand.pos[0]", "head.pos[0]", "mod.pos[0]"
    seen = [
        *(f"{grand}|{mod}", f"{grand}|{head}|{mod}", f"{grand}|{head}|{mod}|distance"),
        *(f"grand.word[0]|{mod}", f"{grand}|mod.word[0]", "grand.word[0]|mod.word[0]"),
        *(f"grand.word[0]|{head}|{mod}", f"{grand}|head.word[0]|{mod}", f"{grand}|{head}|mod.word[0]"),
    ]
    if fine_pos is not None:
        fine_grand, fine_mod = f"grand.{fine_pos}[0]", f"mod.{fine_pos}[0]"
        seen += [f"{fine_grand}|{fine_mod}", f"{fine_grand}|head.{fine_pos}[0]|{fine_mod}"]
    return [GrandparentTemplate.parse(f"{atoms}|direction") for atoms in seen]
