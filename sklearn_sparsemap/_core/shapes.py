"""Arrays that are joined in one flat array, by their names and shapes."""

from math import prod


def size_of(shapes):
    """Return the number of entries of arrays of these shapes: name -> shape, or name -> a dict of these."""
    return sum(size_of(shape) if isinstance(shape, dict) else prod(shape) for shape in shapes.values())


def split_flat(flat, shapes):
    """Return views of the joined arrays by name; `shapes` is as in `size_of`."""
    found, start = {}, 0
    for name, shape in shapes.items():
        is_nested = isinstance(shape, dict)
        stop = start + (size_of(shape) if is_nested else prod(shape))
        part = flat[start:stop]
        found[name] = split_flat(part, shape) if is_nested else part.reshape(shape)
        start = stop
    return found
