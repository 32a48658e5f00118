"""Templates of arcs: the fields around head and modifier in one feature of a possible dependency.

Used by `large.py` and `vectorizer.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..._core.plain import add_form
from .._template import SidedTemplate


@dataclass(frozen=True, slots=True, repr=False)
class ArcTemplate(SidedTemplate):
    """A conjunction of fields around the two ends of an arc, fields between them, direction and distance.

    ``head.pos[0]`` is a field of the head, ``mod.pos[-1]`` a field of the token before the modifier. ``direction``
    is the side of the modifier (``left`` or ``right`` of the head), ``distance`` its number of words from the head
    (``1`` to ``5``, ``6-10`` or ``11+``). ``between.pos`` stands for each distinct value of the field strictly
    between head and modifier. A template has exactly one value at each arc, or with ``between`` any number of
    values. Each value that occurs becomes one column.

    Parameters
    ----------
    atoms : sequence of tuples
        ``("head", field, offset)``, ``("mod", field, offset)``, ``("between", field)``, ``("direction",)`` or
        ``("distance",)``; at most one is ``between``.

    Attributes
    ----------
    atoms : tuple of tuples
        As given.

    Raises
    ------
    ValueError
        If there is no atom, an atom occurs twice or is not of these forms, there are two of ``between``, a
        name is empty or contains a space, ``[``, ``]`` or ``|``, or an offset is not an integer.

    Examples
    --------
    >>> from sklearn_sparsemap.features import ArcTemplate
    >>> template = ArcTemplate([("head", "pos", 0), ("mod", "word", -1), ("distance",)])
    >>> str(template)
    'head.pos[0]|mod.word[-1]|distance'
    >>> template == ArcTemplate.parse("head.pos[0]|mod.word[-1]|distance")
    True
    >>> ArcTemplate.parse("head.pos[0]|mod.pos[0]") | ArcTemplate.parse("between.pos")
    ArcTemplate.parse('head.pos[0]|mod.pos[0]|between.pos')
    >>> ArcTemplate.parse("head.pos[+1] | between.pos | direction").atoms
    (('head', 'pos', 1), ('between', 'pos'), ('direction',))
    """

    atoms: tuple

    #: How to write one, for messages.
    HOW: ClassVar = (
        "write it as head.field[offset], mod.field[offset], between.field, direction and distance, joined by '|': "
        "for example 'head.pos[0]|mod.word[-1]|distance'"
    )

    WHAT: ClassVar = "an arc template"
    SIDES: ClassVar = ("head", "mod")
    SPANS: ClassVar = ("between",)

    def __post_init__(self):
        SidedTemplate.__post_init__(self)
        if sum(atom[0] == "between" for atom in self.atoms) > 1:
            raise ValueError(f"an arc template has at most one atom of between; got {str(self)!r}")


add_form("features.ArcTemplate", ArcTemplate)


def dependency_templates(*, fine_pos: str | None = None) -> list[ArcTemplate]:
    """Return templates for dependency parsing in the manner of McDonald, Crammer and Pereira (ACL 2005, table 1).

    Fields of the head and of the modifier alone (4), of both together (4), of the tags around them (7), of the
    words next to them (4), and of the tags between them (1), each joined with direction, and with direction and
    distance: 40 templates, about 50 features an arc. The tokens need the fields ``word`` and ``pos``.

    Parameters
    ----------
    fine_pos : str, default=None
        A field with finer tags, such as ``"xpos"`` of `load_conllu`: adds 10 templates that join it with the
        others.

    Returns
    -------
    templates : list of ArcTemplate

    Notes
    -----
    All templates have the direction, because a feature of the modifier alone would be equal for all heads. A word and
    its own tag are not joined, because most words have one tag.

    Examples
    --------
    >>> from sklearn_sparsemap.features import dependency_templates
    >>> templates = dependency_templates()
    >>> len(templates), str(templates[4]), str(templates[-1])
    (40, 'head.word[0]|mod.word[0]|direction', 'head.pos[0]|between.pos|mod.pos[0]|direction|distance')
    >>> len(dependency_templates(fine_pos="xpos"))
    50
    """
    seen = [
        *("head.word[0]", "head.pos[0]", "mod.word[0]", "mod.pos[0]"),
        *("head.word[0]|mod.word[0]", "head.word[0]|mod.pos[0]", "head.pos[0]|mod.word[0]", "head.pos[0]|mod.pos[0]"),
        "head.pos[0]|head.pos[1]|mod.pos[-1]|mod.pos[0]",
        "head.pos[-1]|head.pos[0]|mod.pos[-1]|mod.pos[0]",
        "head.pos[0]|head.pos[1]|mod.pos[0]|mod.pos[1]",
        "head.pos[-1]|head.pos[0]|mod.pos[0]|mod.pos[1]",
        "head.pos[-1]|head.pos[0]|head.pos[1]",
        "mod.pos[-1]|mod.pos[0]|mod.pos[1]",
        "head.pos[-1]|head.pos[0]|head.pos[1]|mod.pos[-1]|mod.pos[0]|mod.pos[1]",
        *("head.word[-1]|head.pos[0]|mod.pos[0]", "head.pos[0]|head.word[1]|mod.pos[0]"),
        *("head.pos[0]|mod.word[-1]|mod.pos[0]", "head.pos[0]|mod.pos[0]|mod.word[1]"),
    ]
    if fine_pos is not None:
        head, mod = f"head.{fine_pos}[0]", f"mod.{fine_pos}[0]"
        seen += [f"{head}|{mod}", f"{head}|mod.pos[0]", f"head.pos[0]|{mod}"]
        seen += [f"{head}|mod.word[0]", f"head.word[0]|{mod}"]
    seen.append("head.pos[0]|between.pos|mod.pos[0]")
    return [
        ArcTemplate.parse(f"{atoms}|{relation}") for relation in ("direction", "direction|distance") for atoms in seen
    ]
