"""Exact sampling from Gibbs distributions, by a specialised algorithm or one place at a time.

Used by `estimators` and `testing`.
"""

import numpy as np

from .._numerics.draw import draw_rows
from ._public import map_inference, marginal_inference


def draw_structures(structure, sample, n, rng):
    """Draw structures from ``p(s) = exp(score(s)) / Z``.

    Parameters
    ----------
    structure : Structure
        It must have a marginal oracle.
    sample : StructureBatch
        A batch of one problem.
    n : int
    rng : RandomState

    Returns
    -------
    structures : list of n structures
    """
    drawn = structure.draw(sample, n, rng)
    if drawn is not None:
        return drawn
    return _draw_places(structure, sample, n, rng)


def _draw_places(structure, sample, n, rng):
    """Draw the part at each place from its marginals, given the parts at earlier places."""
    places = structure.exclusive_parts(sample.dims)
    bonus = _bonus_for(sample)
    additional = sample.split_additional(sample.additional)
    # Draws with the same parts so far are grouped, because they have the same problem.
    groups = [(np.arange(n), sample.scores.copy())]
    # Without places, each part is either on or off.
    choices = range(sample.n_parts) if places is None else places
    for choice in choices:
        results = marginal_inference(structure, [s.reshape(sample.shape) for _, s in groups], **additional)
        divided = []
        for (members, scores), result in zip(groups, results):
            marginals = result.marginals.ravel()
            p = np.array([1.0 - marginals[choice], marginals[choice]]) if places is None else marginals[choice]
            with np.errstate(divide="ignore"):
                logits = np.log(np.maximum(p, 0.0))
            drawn = draw_rows(np.tile(logits, (len(members), 1)), rng)
            for number in np.unique(drawn).tolist():
                restricted = scores.copy()
                if places is not None:
                    # The alternatives of the drawn part are forbidden.
                    restricted[choice] = -np.inf
                    restricted[choice[number]] = scores[choice[number]]
                elif number:
                    restricted[choice] += bonus
                else:
                    restricted[choice] = -np.inf
                divided.append((members[drawn == number], restricted))
        groups = divided
    # Only the drawn structure is left of each group, so the oracle returns it.
    chosen = map_inference(structure, [s.reshape(sample.shape) for _, s in groups], **additional)
    structures = [None] * n
    for i, (members, _) in enumerate(groups):
        for number in members.tolist():
            structures[number] = chosen[i].structure
    return structures


def _bonus_for(sample):
    """Return a number that exceeds any difference of the scores of two structures, by so much that no draw differs."""
    scores, additional = (array[np.isfinite(array)] for array in (sample.scores, sample.additional))
    # An additional part can be in each additional slot.
    n_slots = max(1, int(sample.sizes[1]))
    return 1.0 + 2.0 * (np.abs(scores).sum() + n_slots * np.abs(additional).max(initial=0.0)) + 40.0
