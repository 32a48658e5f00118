"""Slow, obvious twin of the trees of ListOps: by recursion over the nested brackets."""


def naive_trees(tokens):
    """The heads, counted from 1, and the numbers of arguments of an expression."""
    heads, valencies = [0] * len(tokens), [0] * len(tokens)

    def read(i, head):
        """Read the argument that begins at token i; return where the next one begins."""
        heads[i] = head
        if not tokens[i].startswith("["):
            return i + 1
        number, n_arguments, i = i, 0, i + 1
        while tokens[i] != "]":
            i = read(i, number + 1)
            n_arguments += 1
        heads[i] = number + 1
        valencies[number] = n_arguments
        return i + 1

    assert read(0, 0) == len(tokens)
    return heads, valencies
