"""Errors of single samples, which keep the argument and the position apart from the text until they are shown.

Code that splits, groups, renames or unwraps a batch maps the position and the argument of the error, and raises it
again. Nothing reads or rewrites its text.

Most rooms use this file.
"""

from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import numpy as np


class Place(NamedTuple):
    """The name of a sample or a part of it, for checks that take a name: ``str(Place("X", 2))`` is ``X[2]``."""

    argument: str
    sample: object = None
    part: str = ""

    def __str__(self):
        index = "" if self.sample is None else np.atleast_1d(self.sample).tolist()
        return f"{self.argument}{index}{self.part}"


def part_of(name, key):
    """Return the name of an entry of a dict; `name` is a `Place`, or the name of an argument."""
    place = name if isinstance(name, Place) else Place(name)
    return place._replace(part=f"{place.part}[{key!r}]")


class SampleError(ValueError):
    """An error in one sample of an argument.

    Parameters
    ----------
    argument : str
        The argument that holds the sample, by the user's name.
    sample : int, tuple of int or None
        The position of the sample in the batch that was given. None for a sample that is not in a batch.
    *message : str
        The message without the name of the sample, which joins these texts. It precedes a single text.
    infeasible : bool, default=False
        Whether the sample allows no structure.
    remedy, model_remedy : str, default=""
        The end of the message: for people who gave these scores, and for those whose model predicted them.
    names : tuple of (str or None), default=()
        The arguments whose sample is named between the texts, if not all are `argument`, for which None stands.

    Attributes
    ----------
    argument, sample, message, infeasible, remedy, model_remedy, names
        As above. All may be assigned: the message is formatted when it is shown.
    """

    def __init__(self, argument, sample, *message, infeasible=False, remedy="", model_remedy="", names=()):
        self.argument = argument
        self.sample = sample
        self.message = message if len(message) > 1 else ("", *message)
        self.infeasible = infeasible
        self.remedy = remedy
        self.model_remedy = model_remedy
        self.names = names or (None,) * (len(self.message) - 1)

    def renamed(self, samples=None, **arguments):
        """Map the position of the sample, and the names of arguments; return the error.

        Parameters
        ----------
        samples : sequence of int, default=None
            The position in the user's batch of each sample of the batch within. By default, positions do not change.
        **arguments : str
            The user's name of an argument, by its name within.
        """
        self.argument = arguments.get(self.argument, self.argument)
        self.names = tuple(arguments.get(name, name) for name in self.names)
        if samples is not None and self.sample is not None:
            self.sample = samples[self.sample]
        return self

    def within(self, whole):
        """Put the name of a part of the data, such as a file, before the message; return the error."""
        first, *rest = self.message
        self.message = (f"{whole}: {first}", *rest)
        return self

    def __str__(self):
        names = [str(Place(name or self.argument, self.sample)) for name in self.names]
        return "".join(chain.from_iterable(zip(self.message, [*names, self.remedy], strict=True)))


def error_at(name, *message):
    """Return a `SampleError`; `name` is a `Place`, or the name of an argument."""
    place = name if isinstance(name, Place) else Place(name)
    before, *after = message if len(message) > 1 else ("", *message)
    return SampleError(place.argument, place.sample, before, *(place.part + text for text in after))


@contextmanager
def naming(samples=None, **arguments):
    """Map the positions and names in a `SampleError`; see `SampleError.renamed`."""
    try:
        yield
    except SampleError as error:
        error.renamed(samples, **arguments)
        raise
