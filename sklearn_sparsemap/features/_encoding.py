"""Templates and tokens, laid out as the flat arrays that the kernels read.

Used by `features/_arcs`, `features/_tokens`, `features/_triples` and `_base.py`.
"""

import numpy as np

from .._core.errors import SampleError
from .._core.jit import readonly
from ._fields import Tokens, check_derived_fields, hash_values


class Plan:
    """Templates as arrays, and their fields.

    Parameters
    ----------
    templates : tuple of templates of one class
    derived_fields : mapping or None
        Name to (source field, function). None is `DERIVED_FIELDS`.

    Attributes
    ----------
    fields : tuple of str
        Every field that a template names, once.
    n_roots : int
        1 if the place just before each sentence is a root, with a separate value for all fields; otherwise 0.
    before, after : int
        Number of padding places to the left and to the right of a sentence.
    """

    def __init__(self, templates, derived_fields):
        self.templates = templates
        self.derived_fields = derived_fields
        kind = type(templates[0])
        self.n_roots = int(kind.HAS_ROOT)
        places = [template._side_atoms for template in templates]
        odd = odd_factors(max(map(len, places)))
        # The places of each template, each with its odd factor.
        self._atoms = [list(zip(own, odd)) for own in places]
        # The first template that reads each field, for messages.
        self._readers = {}
        for template, own in zip(templates, places):
            for _, field, *_ in (place for place in own if len(place) > 1):
                self._readers.setdefault(field, template)
        self.fields = tuple(self._readers)
        offsets = [place[2] for own in places for place in own if len(place) == 3]
        self.before = self.n_roots + max(0, -min(offsets, default=0))
        self.after = max(0, max(offsets, default=0))
        self._sides = {side: self._pack_side(side) for side in kind.SIDES}

    def needed_by(self, field):
        """Name the first template that reads a field, for messages."""
        return f"the template {str(self._readers[field])!r}"

    @property
    def padding(self):
        """The values of the places outside a sentence, by their distance from it, nearest first."""
        begin = [("begin", -d) for d in range(1, self.before - self.n_roots + 1)]
        return [("root", 0)] * self.n_roots + begin + [("end", d) for d in range(1, self.after + 1)]

    def side(self, side, n_positions):
        """Return the atoms of all templates at one side, in the form that kernels take.

        Parameters
        ----------
        side : str
            One of `SIDES` of the templates; "head" is the current token in templates of tokens.
        n_positions : int
            Number of places of a padded field.

        Returns
        -------
        atom_ptr : int64 array of shape (n_templates + 1,)
            The atoms of template j are ``atom_ptr[j]:atom_ptr[j + 1]``.
        shifts : int64 array of shape (n_atoms,)
            The place that each atom reads, relative to a token's place.
        factors : uint64 array of shape (n_atoms,)
            The odd factor of each atom's hash.
        """
        atom_ptr, fields, offsets, factors = self._sides[side]
        shifts = fields * n_positions + offsets
        return readonly(atom_ptr, np.int64), readonly(shifts, np.int64), readonly(factors, np.uint64)

    def atoms_of(self, side):
        """For each template, list its atoms of a kind, each with its odd factor."""
        return [[(place, factor) for place, factor in own if place[0] == side] for own in self._atoms]

    def _pack_side(self, side):
        atoms = self.atoms_of(side)
        fields = [self.fields.index(place[1]) for own in atoms for place, _ in own]
        offsets = [place[2] for own in atoms for place, _ in own]
        factors = [factor for own in atoms for _, factor in own]
        atom_ptr = np.concatenate([[0], np.cumsum([len(own) for own in atoms])])
        return atom_ptr, np.array(fields, np.int64), np.array(offsets, np.int64), factors


class EncodedTokens:
    """The fields of all tokens as codes, with padding at both ends of each sentence.

    Code c of a field is padding value c, or value ``c - len(plan.padding)`` of the field.

    Parameters
    ----------
    plan : Plan
    X : sequence of sentences
        The user's input; see `Tokens`.

    Attributes
    ----------
    indptr : int64 array of shape (n_sentences + 1,)
        The beginning of each sentence.
    token_indices : int64 array of shape (n_tokens,)
        The index of each token in a padded field.
    codes : list of integer arrays of shape (n_positions,)
        For each field of the plan.
    values : list of lists
        The distinct values of each field.
    n_positions : int
        Number of places of a padded field.
    """

    def __init__(self, plan, X):
        tokens = Tokens(X, check_derived_fields(plan.derived_fields))
        self.indptr = tokens.indptr
        lengths = np.diff(self.indptr)
        if plan.n_roots and not lengths.all():
            raise SampleError("X", np.argmin(lengths), " has no tokens; remove empty sentences, which have no tree")
        n_tokens = int(self.indptr[-1])
        reach = plan.before + plan.after
        starts = self.indptr[:-1] + plan.before + np.arange(len(lengths)) * reach
        self.token_indices = np.arange(n_tokens) + np.repeat(starts - self.indptr[:-1], lengths)
        self.n_positions = n_tokens + len(lengths) * reach
        padded = np.empty(self.n_positions, dtype=np.int32)
        for d in range(1, plan.before + 1):
            padded[starts - d] = d - 1
        for d in range(1, plan.after + 1):
            padded[starts + lengths - 1 + d] = plan.before + d - 1
        self.codes = []
        self.values = []
        for field in plan.fields:
            codes, values = tokens.field(field, plan.needed_by(field))
            padded[self.token_indices] = codes + reach
            # The smallest type that holds the codes: a fitted vectorizer keeps them.
            self.codes.append(padded.astype(np.min_scalar_type(len(values) + reach)))
            self.values.append(values)


def hash_codes(plan, codes, values, key=b""):
    """Look up the hash of each code of each field (see `EncodedTokens`): uint64 array (n_fields * n_positions,).

    For `key` see `hash_values`.
    """
    if not codes:
        return np.empty(0, dtype=np.uint64)
    padding = hash_values(plan.padding, key)
    return np.concatenate([np.concatenate([padding, hash_values(v, key)])[c] for c, v in zip(codes, values)])


def odd_factors(n):
    """Return the first n outputs of the generator splitmix64, made odd, because odd factors have inverses mod 2^64.

    Hashed columns of models in files follow from them, so they must not change.
    """
    mask = 2**64 - 1
    factors = []
    for i in range(1, n + 1):
        z = i * 0x9E3779B97F4A7C15 & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        factors.append(z ^ z >> 31 | 1)
    return np.array(factors, dtype=np.uint64)
