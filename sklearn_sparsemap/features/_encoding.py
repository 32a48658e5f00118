"""Templates and tokens, laid out as the flat arrays that the kernels read."""

import numpy as np

from ._fields import Tokens, hash_values


class BasePlan:
    """The plan of an encoding: templates of any kind, and their fields.

    Parameters
    ----------
    templates : tuple of Template or ArcTemplate
    derived_fields : mapping
        Name to (source field, function).

    Attributes
    ----------
    fields : tuple of str
        Every field that a template names, once.
    before, after : int
        How many places are needed beyond a sentence, to the left and to the right; set by subclasses.
    """

    def __init__(self, templates, derived_fields):
        self.templates = templates
        self.derived_fields = derived_fields
        self.fields = tuple(dict.fromkeys(field for template in templates for field in template.fields))

    def needed_by(self, field):
        """Name the first template that reads a field, for messages."""
        template = next(template for template in self.templates if field in template.fields)
        return f"the template {str(template)!r}"


class Plan(BasePlan):
    """Templates of tokens as arrays.

    Parameters
    ----------
    templates : tuple of Template
    derived_fields : mapping
        Name to (source field, function).

    Attributes
    ----------
    before, after : int
        How many places templates reach beyond the current token, to the left and to the right.
    atom_ptr : int64 array of shape (n_templates + 1,)
        The atoms of template j are ``atom_ptr[j]:atom_ptr[j + 1]``.
    factors : uint64 array of shape (n_atoms,)
        The odd factor of each atom's hash.
    """

    def __init__(self, templates, derived_fields):
        super().__init__(templates, derived_fields)
        atoms = [atom for template in templates for atom in template.atoms]
        lengths = [len(template.atoms) for template in templates]
        self.atom_ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._atom_fields = np.array([self.fields.index(field) for field, _ in atoms], dtype=np.int64)
        self._atom_offsets = np.array([offset for _, offset in atoms], dtype=np.int64)
        self.before = max(0, -int(self._atom_offsets.min()))
        self.after = max(0, int(self._atom_offsets.max()))
        odd = odd_factors(max(lengths))
        self.factors = np.concatenate([odd[:length] for length in lengths])

    def shifts(self, n_places):
        """Where each atom is read, relative to a token's place, when a padded field has `n_places` places."""
        return self._atom_fields * n_places + self._atom_offsets

    def atoms(self, j):
        """The (index of the field, offset) pairs of template `j`."""
        atoms = slice(self.atom_ptr[j], self.atom_ptr[j + 1])
        return list(zip(self._atom_fields[atoms].tolist(), self._atom_offsets[atoms].tolist()))

    @property
    def padding(self):
        """The values of the places outside a sentence, by their distance from it, nearest first."""
        begin = [("begin", -d) for d in range(1, self.before + 1)]
        return begin + [("end", d) for d in range(1, self.after + 1)]


class EncodedTokens:
    """The fields of all tokens as codes, every sentence padded at both ends.

    Code c of a field means padding value c, or value ``c - len(plan.padding)`` of the field.

    Parameters
    ----------
    plan : BasePlan
    X : sequence of sentences
        The user's input; see `Tokens`.

    Attributes
    ----------
    indptr : int64 array of shape (n_sentences + 1,)
        The beginning of each sentence.
    places : int64 array of shape (n_tokens,)
        The place of each token in a padded field.
    codes : list of integer arrays of shape (n_places,)
        For each field of the plan.
    values : list of lists
        The distinct values of each field.
    n_places : int
        Number of places of a padded field.
    """

    def __init__(self, plan, X):
        tokens = Tokens(X, plan.derived_fields)
        lengths = tokens.lengths
        self.indptr = np.concatenate([[0], np.cumsum(lengths)])
        n_tokens = int(self.indptr[-1])
        reach = plan.before + plan.after
        starts = self.indptr[:-1] + plan.before + np.arange(len(lengths)) * reach
        self.places = np.arange(n_tokens) + np.repeat(starts - self.indptr[:-1], lengths)
        self.n_places = n_tokens + len(lengths) * reach
        padded = np.empty(self.n_places, dtype=np.int32)
        for d in range(1, plan.before + 1):
            padded[starts - d] = d - 1
        for d in range(1, plan.after + 1):
            padded[starts + lengths - 1 + d] = plan.before + d - 1
        self.codes = []
        self.values = []
        for field in plan.fields:
            codes, values = tokens.field(field, plan.needed_by(field))
            padded[self.places] = codes + reach
            # The smallest type that holds the codes: a fitted vectorizer keeps them.
            self.codes.append(padded.astype(np.min_scalar_type(len(values) + reach)))
            self.values.append(values)

    def hashes(self, plan):
        """The hashes of all padded fields, one field after the other: uint64 array (n_fields * n_places,)."""
        return hash_codes(plan, self.codes, self.values)


def hash_codes(plan, codes, values):
    """Look up the hash of each code of each field; see `EncodedTokens`."""
    if not codes:
        return np.empty(0, dtype=np.uint64)
    padding = hash_values(plan.padding)
    return np.concatenate([np.concatenate([padding, hash_values(v)])[c] for c, v in zip(codes, values)])


def odd_factors(n):
    """The first n outputs of the generator splitmix64, made odd so that multiplying by them loses nothing."""
    mask = 2**64 - 1
    factors = []
    for i in range(1, n + 1):
        z = i * 0x9E3779B97F4A7C15 & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        factors.append(z ^ z >> 31 | 1)
    return np.array(factors, dtype=np.uint64)
