"""A large set of arc templates to choose from, ordered from coarse to fine."""

from __future__ import annotations

from itertools import product

from ..._core.annotations import Sequence
from .._template import check_field
from .templates import ArcTemplate

# The relations with which fields are joined, from coarse to fine.
_RELATIONS = ((), (("direction",),), (("distance",),), (("direction",), ("distance",)))
_SIDES = ("head", "mod")
_NEAR, _FAR = (-1, 1), (-2, 2)


def arc_templates(
    tags: Sequence[str] = ("pos", "xpos"), words: Sequence[str] = ("shape", "lemma", "word")
) -> list[ArcTemplate]:
    """Return a large set of first-order arc templates, from coarse to fine, for a group lasso to choose from.

    All fields of the head, of the modifier, and of both; tags up to two tokens to each side of one of them or of both;
    words next to them; and tags between them. Each of these occurs alone, with direction, with distance, and with both.
    There are 596 templates with the default fields. Martins, Smith, Aguiar and Figueiredo (EMNLP 2011, section 5)
    select among 684 of this kind.

    Parameters
    ----------
    tags : sequence of str, default=("pos", "xpos")
        Fields with tags, from coarse to fine; at least one. Only tags are used around and between the two words.
    words : sequence of str, default=("shape", "lemma", "word")
        Fields with forms of words, from coarse to fine; ``shape``, ``prefix1`` and others are derived from ``word``.

    Returns
    -------
    templates : list of ArcTemplate
        Coarser templates come first. Template a is coarser than b if b has all places of a, each with the same field or
        with a field that comes later in `tags` followed by `words`. So the list is compatible with
        `GroupOrder.from_templates` for any order of fields that agrees with this one.

    Raises
    ------
    ValueError
        If there is no tag, or a field occurs twice or is not a name.

    See Also
    --------
    dependency_templates : The 40 or 50 templates of parsers without selection.
    sklearn_sparsemap.GroupLassoPerceptron : Selects templates.

    Notes
    -----
    Fields of the modifier alone are always joined with direction or distance; otherwise they would be equal for all
    heads.

    Arcs with hundreds of features take memory: see the notes of `ArcVectorizer`.

    Examples
    --------
    >>> from sklearn_sparsemap.features import arc_templates
    >>> templates = arc_templates()
    >>> len(templates), str(templates[0]), str(templates[12])
    (596, 'direction', 'between.xpos')
    >>> len(arc_templates(tags=["pos"], words=["word"]))
    246
    """
    tags = _check_fields("tags", tags)
    words = _check_fields("words", words)
    fields = tags + words
    if not tags:
        raise ValueError("tags is empty; name at least one field with tags, such as 'pos'")
    if len(set(fields)) < len(fields):
        twice = next(field for i, field in enumerate(fields) if field in fields[:i])
        raise ValueError(f"the field {twice!r} occurs twice in tags and words; name each once")
    rank = {field: i for i, field in enumerate(fields, 1)}
    seen = dict.fromkeys(
        tuple(sorted(atoms)) for atoms in [(), *_ends(fields), *_contexts(tags), *_words_around(tags[0], words),
                                           *_between(tags, words)]
    )  # fmt: skip
    templates = [
        ArcTemplate(_in_order(atoms) + relation)
        for atoms, relation in product(seen, _RELATIONS)
        if _tells(atoms, relation)
    ]

    def fineness(template):
        # A coarser template has a subset of the places, or lower ranks there, and hence a lower sum.
        return sum(1 + rank.get(atom[1], 0) if len(atom) > 1 else 1 for atom in template.atoms)

    return sorted(templates, key=fineness)


def _check_fields(name, fields):
    if isinstance(fields, str):
        raise ValueError(f"{name} must be a sequence of fields; write [{fields!r}]")
    fields = list(fields)
    for field in fields:
        check_field(field)
    return fields


def _tells(atoms, relation):
    """Return whether a template has different values for different heads of a word."""
    return bool(relation) or any(atom[0] != "mod" for atom in atoms)


def _in_order(atoms):
    """Return the places of the head, then those between, then those of the modifier, each from left to right."""
    head, middle, mod = (tuple(atom for atom in atoms if atom[0] == side) for side in ("head", "between", "mod"))
    return (*sorted(head, key=lambda atom: atom[2]), *middle, *sorted(mod, key=lambda atom: atom[2]))


def _ends(fields):
    """Yield the fields of head, of modifier, and of both."""
    for side, field in product(_SIDES, fields):
        yield ((side, field, 0),)
    for one, other in product(fields, fields):
        yield ("head", one, 0), ("mod", other, 0)


def _contexts(tags):
    """Yield the tags around one end, alone and with the tag of the other end."""
    windows = [(o,) for o in _NEAR + _FAR] + [(-1, 1), (-2, -1), (1, 2)]
    for tag, side in product(tags, _SIDES):
        for offsets in windows:
            yield tuple((side, tag, o) for o in (*offsets, 0))
    for tag in tags:
        both = ("head", tag, 0), ("mod", tag, 0)
        for side, offsets in product(_SIDES, windows[:5]):
            yield (*both, *((side, tag, o) for o in offsets))
        for reach in (_NEAR, _FAR):
            for one, other in product(reach, reach):
                yield (*both, ("head", tag, one), ("mod", tag, other))
        yield (*both, *((side, tag, o) for side in _SIDES for o in _NEAR))


def _words_around(tag, words):
    """Yield a word next to one end with the tags of both ends, and the word of one end with tags next to either end."""
    both = ("head", tag, 0), ("mod", tag, 0)
    for side, word, o in product(_SIDES, words, _NEAR + _FAR):
        yield (*both, (side, word, o))
    for word, (here, there) in product(words[-2:], (_SIDES, _SIDES[::-1])):
        for side, o in product(_SIDES, _NEAR):
            yield (here, word, 0), (there, tag, 0), (side, tag, o)


def _between(tags, words):
    """Yield the tags between, alone and with fields of the ends."""
    for tag in tags:
        head, middle, mod = ("head", tag, 0), ("between", tag), ("mod", tag, 0)
        yield from ((middle,), (head, middle), (middle, mod), (head, middle, mod))
    head, middle, mod = ("head", tags[0], 0), ("between", tags[0]), ("mod", tags[0], 0)
    for word in words[-2:]:
        yield ("head", word, 0), middle, mod
        yield head, middle, ("mod", word, 0)
