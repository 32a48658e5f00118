"""Exact sampling from Gibbs distributions, by a specialised algorithm or one place at a time."""

import numpy as np

from ..numerics.draw import draw_rows
from ._places import bonus_for, require
from ._public import marginal_inference


def draw_structures(structure, sample, n, rng):
    """Draw structures from ``p(s) = exp(score(s)) / Z``.

    Parameters
    ----------
    structure : Structure
        It must have a marginal oracle.
    sample : Problem
    n : int
    rng : RandomState

    Returns
    -------
    structures : list of n structures
    """
    drawn = structure.draw(sample, n, rng)
    if drawn is not None:
        return drawn
    return [structure.decode(slots, sample.dims) for slots in _draw_slots(structure, sample, n, rng)]


def _draw_slots(structure, sample, n, rng):
    """Draw the part at each place from its marginals, given the parts at earlier places."""
    places, bonus = structure.places(sample.dims), bonus_for(sample) + 40.0
    given = sample.split_additional(sample.additional)
    # Draws with the same parts so far are grouped, because they have the same problem.
    groups = [(np.arange(n), sample.scores.copy(), ())]
    # Without places, each part is either on or off.
    choices = range(sample.n_parts) if places is None else places
    for choice in choices:
        results = marginal_inference(structure, [s.reshape(sample.shape) for _, s, _ in groups], **given)
        divided = []
        for (members, scores, parts), result in zip(groups, results):
            marginals = result.marginals.ravel()
            p = np.array([1.0 - marginals[choice], marginals[choice]]) if places is None else marginals[choice]
            with np.errstate(divide="ignore"):
                logits = np.log(np.maximum(p, 0.0))
            drawn = draw_rows(np.tile(logits, (len(members), 1)), rng)
            for which in np.unique(drawn).tolist():
                own = scores.copy()
                part = choice if places is None else int(choice[which])
                if places is None and not which:
                    own[part] = -np.inf
                    now = parts
                else:
                    require(own, places, [part], bonus)
                    now = (*parts, part)
                divided.append((members[drawn == which], own, now))
        groups = divided
    slots = np.full((n, int(sample.sizes[0])), -1, np.int32)
    for members, _, parts in groups:
        if places is None:
            own = structure.slots_of(np.array(parts, np.int64), sample.dims)
        else:
            # The slot of a part is the index of its place.
            own = np.arange(len(parts))
        slots[members[:, None], own] = parts
    return slots
