"""Exact samples of Gibbs distributions: backward messages for chains, for others one place after the other."""

import numpy as np
from scipy.special import logsumexp

from ..structures import LinearChain
from ._places import bonus_for, places_of, require
from ._public import marginal_inference


def draw_structures(structure, sample, n, rng):
    """Draw structures from ``p(s) = exp(score(s)) / Z``.

    Parameters
    ----------
    structure : Structure
        With a marginal oracle.
    sample : Problem
    n : int
    rng : RandomState

    Returns
    -------
    structures : list of n structures
    """
    if isinstance(structure, LinearChain):
        return list(_draw_paths(sample, n, rng))
    return [structure.decode(slots, sample.dims) for slots in _draw_slots(structure, sample, n, rng)]


def _draw_paths(sample, n, rng):
    """Draw paths: what may follow is summed from the end, and each state drawn given the one before."""
    scores = sample.scores.reshape(sample.shape)
    n_steps, m = scores.shape
    given = sample.split_additional(sample.additional)
    transitions = np.broadcast_to(given.get("transitions", np.zeros((m, m))), (n_steps - 1, m, m))
    after = np.zeros((n_steps, m))
    after[-1] = given.get("end", 0.0)
    with np.errstate(divide="ignore"):
        for t in range(n_steps - 2, -1, -1):
            after[t] = logsumexp(transitions[t] + scores[t + 1] + after[t + 1], axis=1)
    paths = np.empty((n, n_steps), np.int64)
    logits = np.tile(scores[0] + given.get("start", 0.0) + after[0], (n, 1))
    for t in range(n_steps):
        paths[:, t] = _draw(logits, rng)
        if t + 1 < n_steps:
            logits = transitions[t][paths[:, t]] + scores[t + 1] + after[t + 1]
    return paths


def _draw_slots(structure, sample, n, rng):
    """Draw the part at each place from its marginals given those at the places before."""
    places, bonus = places_of(structure, sample.dims), bonus_for(sample) + 40.0
    given = sample.split_additional(sample.additional)
    # Draws that have been alike so far are one problem.
    groups = [(np.arange(n), sample.scores.copy(), ())]
    # Without places, a part is there or not.
    choices = range(sample.n_parts) if places is None else places
    for choice in choices:
        results = marginal_inference(structure, [s.reshape(sample.shape) for _, s, _ in groups], **given)
        divided = []
        for (members, scores, parts), result in zip(groups, results):
            marginals = result.marginals.ravel()
            if places is None:
                logits = np.log(np.maximum([1.0 - marginals[choice], marginals[choice]], 0.0) + 1e-300)
            else:
                with np.errstate(divide="ignore"):
                    logits = np.log(np.maximum(marginals[choice], 0.0))
            drawn = _draw(np.tile(logits, (len(members), 1)), rng)
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
    n_slots = int(sample.sizes[0])
    slots = np.full((n, n_slots), -1, np.int32)
    for members, _, parts in groups:
        slots[members] = _slots_of(structure, sample, parts, n_slots)
    return slots


def _slots_of(structure, sample, parts, n_slots):
    """Put parts into slots: those of a place by its number, others, of which each may be there, as structures say."""
    slots = np.full(n_slots, -1, np.int32)
    if places_of(structure, sample.dims) is None:
        slots[structure.slots_of(np.array(parts, np.int64), sample.dims)] = parts
    else:
        slots[: len(parts)] = parts
    return slots


def _draw(logits, rng):
    """Draw a column for each row: by Gumbel noise."""
    with np.errstate(divide="ignore"):
        return (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
