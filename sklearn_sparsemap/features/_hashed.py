"""A fixed number of columns for n-grams that were never seen: the hashed mode."""

from numbers import Integral

import numpy as np

from ._tokens import kernels as _kernels
from ._tokens.columns import MAX_COLUMNS, columns_of_ranges, template_of_columns


class HashedColumns:
    """Columns given by the hash of an n-gram alone; the stateless counterpart of `Vocabulary`.

    Every template has a separate range of columns, so that groups have the same meaning as with a vocabulary.

    Parameters
    ----------
    plan : Plan
    n_features : int
        The number of columns, shared equally among the templates.

    Attributes
    ----------
    column_ptr : int64 array of shape (n_templates + 1,)
        The columns of template j are ``column_ptr[j]:column_ptr[j + 1]``.

    Raises
    ------
    ValueError
        If `n_features` is not an integer, or too small or too large.
    """

    def __init__(self, plan, n_features):
        n_templates = len(plan.templates)
        is_int = isinstance(n_features, Integral) and not isinstance(n_features, bool)
        if not is_int or not n_templates <= n_features <= MAX_COLUMNS:
            raise ValueError(
                f"n_features must be None or an integer from {n_templates} (one column for each template) to "
                f"{MAX_COLUMNS}; got {n_features!r}"
            )
        self.plan = plan
        # The ranges differ in size by at most one column.
        self.column_ptr = np.arange(n_templates + 1, dtype=np.int64) * int(n_features) // n_templates

    @property
    def groups(self):
        """The template of each column: int32 array of shape (n_columns,)."""
        return template_of_columns(self.column_ptr)

    def columns(self, encoded, n_jobs):
        """Return the column of each (token, template), row by row: int32 array (n_tokens * n_templates,)."""
        plan = self.plan
        hashes, shifts = encoded.hashes(plan), plan.shifts(encoded.n_places)

        def hash_range(places, columns):
            _kernels.hash_columns(hashes, places, plan.atom_ptr, shifts, plan.factors, self.column_ptr, columns)

        return columns_of_ranges(hash_range, encoded.places, len(plan.templates), n_jobs)

    def names(self):
        """Return the names of all columns, such as ``word[0]#17``: object array of str."""
        sizes = np.diff(self.column_ptr).tolist()
        names = [f"{template}#{slot}" for template, size in zip(self.plan.templates, sizes) for slot in range(size)]
        return np.array(names, dtype=object)
