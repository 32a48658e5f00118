"""Slow, obvious twin of the features of arcs: sets of names, built arc by arc."""

from naive_features import naive_value


def naive_arc_value(sentence, place, field):
    """The value of a field at a place of a sentence: words from 1, the root at 0."""
    if place == 0:
        return "<root>"
    if place < 0:
        return f"<begin-{-place}>"
    return naive_value(sentence, place - 1, field)


def naive_distance(h, m):
    """The name of the distance between two places."""
    distance = max(h, m) - min(h, m)
    if distance <= 5:
        return str(distance)
    return "6-10" if distance <= 10 else "11+"


def naive_arc_names(sentence, h, m, templates):
    """The names of the features of one arc: for each template a set."""
    names = []
    for template in map(str, templates):
        ngrams = [[]]
        for atom in template.split("|"):
            if atom == "direction":
                values = ["left" if m < h else "right"]
            elif atom == "distance":
                values = [naive_distance(h, m)]
            elif atom.startswith("between."):
                field = atom.removeprefix("between.")
                inside = range(min(h, m) + 1, max(h, m))
                values = sorted({naive_arc_value(sentence, place, field) for place in inside})
            else:
                side, rest = atom.rstrip("]").split(".", 1)
                field, offset = rest.split("[")
                place = (h if side == "head" else m) + int(offset)
                values = [naive_arc_value(sentence, place, field)]
            ngrams = [[*ngram, value] for ngram in ngrams for value in values]
        names.append({f"{template}={'|'.join(ngram)}" for ngram in ngrams})
    return names


def naive_arcs(sentence, templates):
    """The names of the features of each row, arcs from heads 0..n to modifiers 1..n: for each a list of sets."""
    n = len(sentence)
    return [
        naive_arc_names(sentence, h, m, templates) if h != m else [set() for _ in templates]
        for h in range(n + 1)
        for m in range(1, n + 1)
    ]


def naive_sides(n):
    """Return the words on each side of each head of a sentence of n words, nearest first: list of (head, words)."""
    sides = [(h, side) for h in range(n + 1) for side in (list(range(h - 1, 0, -1)), list(range(h + 1, n + 1)))]
    return [(h, side) for h, side in sides if side]


def naive_siblings(sentence, templates):
    """Return the names of the features of each row of siblings: a set for each pair of places on a side of a head."""
    rows = []
    for h, side in naive_sides(len(sentence)):
        for i in range(len(side) + 1):
            for j in range(len(side) + 1):
                sib, mod = side[i - 1] if i else None, side[j] if j < len(side) else None
                is_row = j >= i
                rows.append({_sibling_name(sentence, h, sib, mod, side[0] > h, t) for t in templates if is_row})
    return rows


def _sibling_name(sentence, h, sib, mod, is_right, template):
    """Return the name of one feature; `sib` is None at the start, `mod` at the end."""
    direction = "right" if is_right else "left"
    distance = "1" if mod is None else naive_distance(h if sib is None else sib, mod)
    words = {"head": h, "sib": sib or 0, "mod": mod or 0}
    return _triple_name(sentence, words, direction, distance, template)


def naive_grandparents(sentence, templates):
    """Return the names of the features of each row of grandparents: a set for each candidate and modifier of a side."""
    rows, n = [], len(sentence)
    for h, side in naive_sides(n):
        for grand in [g for g in range(n + 1) if g != h and h > 0]:
            for mod in side:
                words = {"head": h, "grand": grand, "mod": mod}
                order, distance = "<".join(sorted(words, key=words.get)), naive_distance(grand, mod)
                is_row = grand != mod
                rows.append({_triple_name(sentence, words, order, distance, t) for t in templates if is_row})
    return rows


def _triple_name(sentence, words, direction, distance, template):
    """Return the name of one feature of words with these numbers, of which 0 is the root."""
    values = []
    for atom in str(template).split("|"):
        if atom in ("direction", "distance"):
            values.append(direction if atom == "direction" else distance)
        else:
            side, rest = atom.rstrip("]").split(".", 1)
            field, offset = rest.split("[")
            values.append(naive_arc_value(sentence, words[side] + int(offset), field))
    return f"{template}={'|'.join(values)}"
