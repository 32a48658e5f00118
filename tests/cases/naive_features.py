"""Slow, obvious twins of the features: names of n-grams, built token by token."""

import math
import string


def naive_shape(word):
    """The shape of an ASCII word, run by run."""
    shape = ""
    while word:
        kind = _kind(word[0])
        length = 1
        while length < len(word) and _kind(word[length]) == kind:
            length += 1
        shape += "0+" if kind == "0" and length > 1 else kind
        word = word[length:]
    return shape


def _kind(character):
    if character in "0123456789":
        return "0"
    if character in "abcdefghijklmnopqrstuvwxyz":
        return "a"
    if character in "ABCDEFGHIJKLMNOPQRSTUVWXYZ":
        return "A"
    return character


def naive_case(word):
    """How an ASCII word is capitalised, letter by letter."""
    letters = "".join(_kind(character) for character in word if _kind(character) in "aA")
    if not letters:
        return "none"
    if letters == "a" * len(letters):
        return "lower"
    if letters == "A" + "a" * (len(letters) - 1):
        return "initial"
    return "upper" if letters == "A" * len(letters) else "mixed"


def naive_amount(word, characters):
    """How many of the characters of a word are among these."""
    n_keys = len([character for character in word if character in characters])
    return "none" if n_keys == 0 else "all" if n_keys == len(word) else "some"


def naive_value(sentence, position, field):
    """The value of a field at a position, which may lie outside the sentence."""
    if position < 0:
        return f"<begin-{-position}>"
    if position >= len(sentence):
        return f"<end+{position - len(sentence) + 1}>"
    token = sentence[position]
    if isinstance(token, str):
        token = {"word": token}
    if field in token:
        return str(token[field])
    word = token["word"]
    if field[:-1] in ("prefix", "suffix"):
        n = min(int(field[-1]), len(word))
        return word[:n] if field[0] == "p" else word[len(word) - n :]
    return {
        "shape": naive_shape,
        "lower": str.lower,
        "case": naive_case,
        "digits": lambda word: naive_amount(word, "0123456789"),
        "punctuation": lambda word: naive_amount(word, string.punctuation),
    }[field](word)


def naive_feature_names(sentence, templates):
    """For each token, the list of its features' names, one for each template."""
    rows = []
    for t in range(len(sentence)):
        row = []
        for template in templates:
            atoms = [atom.rstrip("]").split("[") for atom in str(template).split("|")]
            values = [naive_value(sentence, t + int(offset), field) for field, offset in atoms]
            row.append(f"{template}={'|'.join(values)}")
        rows.append(row)
    return rows


def naive_information_gain(rows, labels, groups):
    """The information gain of each group, from the definition: a dict of group to bits."""
    n = len(rows)
    gains = dict.fromkeys(groups, 0.0)
    for f, group in enumerate(groups):
        for a in set(labels):
            joint = sum(row[f] != 0 and label == a for row, label in zip(rows, labels)) / n
            if joint > 0:
                of_feature = sum(row[f] != 0 for row in rows) / n
                of_label = sum(label == a for label in labels) / n
                gains[group] += joint * math.log2(joint / (of_feature * of_label))
    return gains


def naive_token_dict(token, separator=":"):
    """Return the features of a token as CRFsuite reads them: a dict from name to weight."""
    found = {}

    def add(name, weight):
        found[name] = found.get(name, 0.0) + weight

    def read(name, value):
        if isinstance(value, str):
            add(f"{name}{separator}{value}", 1.0)
        elif isinstance(value, dict):
            for below, inner in value.items():
                read(f"{name}{separator}{below}", inner)
        elif isinstance(value, list | tuple | set):
            for i, inner in enumerate(value):
                if isinstance(inner, int | float):
                    add(f"{name}{separator}{i}", float(inner))
                else:
                    read(name, inner)
        else:
            add(name, float(value))

    if isinstance(token, dict):
        for name, value in token.items():
            read(name, value)
    else:
        for name in [token] if isinstance(token, str) else token:
            add(name, 1.0)
    return found


def _naive_vector(word, vectors, lower):
    if word in vectors:
        return vectors[word]
    return vectors.get(word.lower()) if lower else None


def naive_vector_rows(sentence, vectors, window, lower, unknown, normalize):
    """For each token, the values that are not zero by their names."""

    def scaled(vector):
        length = math.sqrt(sum(value * value for value in vector))
        return [value / length for value in vector] if normalize and length else list(vector)

    all_vectors = [scaled(vector) for vector in vectors.values()]
    mean = [sum(column) / len(all_vectors) for column in zip(*all_vectors)]
    rows = []
    for t in range(len(sentence)):
        row = {}
        for offset in range(-window, window + 1):
            block = f"vector[{offset}]"
            if not 0 <= t + offset < len(sentence):
                row[f"{block}=<outside>"] = 1.0
                continue
            vector = _naive_vector(sentence[t + offset], vectors, lower)
            if vector is None and unknown == "indicator":
                row[f"{block}=<unknown>"] = 1.0
                continue
            for j, value in enumerate(mean if vector is None else scaled(vector)):
                row[f"{block}.{j}"] = value
        rows.append(row)
    return rows


def naive_cluster_names(sentence, labels, window, lower):
    """For each token, the names of its features; `labels` maps a field to a dict from word to cluster."""
    rows = []
    for t in range(len(sentence)):
        row = []
        for field, cluster_of in labels.items():
            for offset in range(-window, window + 1):
                value = naive_value([dict.fromkeys([field], None)] * len(sentence), t + offset, field)
                if value == "None":
                    cluster = _naive_vector(sentence[t + offset], cluster_of, lower)
                    value = "<unknown>" if cluster is None else cluster
                row.append(f"{field}[{offset}]={value}")
        rows.append(row)
    return rows
