"""The difference of the linear scores of two structures, as a sum of terms.

Used by `estimators/_multilabel`, `base.py` and `face.py`.
"""

import numpy as np
from scipy import sparse


def terms_of_difference(batch, model, first, second, names, labels):
    """Return the score of a structure of a sample minus that of another one, and its terms.

    Parameters
    ----------
    batch : Batch
        One sample.
    model : LinearModel
    first, second : structures
        As the task predicts them.
    names : list of str
        The names of the features.
    labels : list or None
        The labels of the outputs, if structures are made of labels.

    Returns
    -------
    difference : float
    terms : list of (name, row, label, amount)
    is_first : list of bool
        Whether the first structure has the part of a term.
    """
    task = batch.task
    parts, joint = (_nonzero(signs) for signs in task.difference(first, second))
    values = [sign * float(batch.scores.flat[part]) for part, sign in parts]
    values += [sign * float(batch.additional[part]) for part, sign in joint]
    entries = _of_parts(batch, model, parts, names, labels)
    shown = _names_of(task.additional_shapes, labels, task.names_of_pairs())
    for part, sign in joint:
        if batch.additional[part]:
            entries.append(((shown[part], -1, None, sign * float(batch.additional[part])), sign))
    return float(sum(values)), [entry for entry, _ in entries], [sign > 0.0 for _, sign in entries]


def not_linear(name):
    """Return the message that something is for linear scores only."""
    return (
        f"{name} is for score_model='linear', whose scores are sums over features; use decision_function or "
        "sklearn.inspection.permutation_importance, or fit with score_model='linear'"
    )


def joined(terms, label):
    """Return one term for each source of a single label: its contributions to both labels together."""
    totals = {}
    for name, row, _, amount in terms:
        totals[name, row] = totals.get((name, row), 0.0) + amount
    return [(name, row, label, amount) for (name, row), amount in totals.items()]


def _nonzero(signs):
    """Return the parts in which two structures differ, with their signs; repeated parts are counted."""
    return [(part, float(signs[part])) for part in np.flatnonzero(signs).tolist()]


def _names_of(shapes, labels, pairs):
    """Return a name for each additional score, such as ``transitions[N, V]``; `pairs` are those of pairs in a graph."""
    names = []
    for name, shape in shapes.items():
        if isinstance(shape, dict):
            names += [f"{name}.{own}" for own in _names_of(shape, labels, {})]
        elif shape == ():
            names.append(name)
        elif name in pairs:
            names += pairs[name]
        else:
            places = (", ".join(str(i if labels is None else labels[i]) for i in index) for index in np.ndindex(shape))
            names += [f"{name}[{place}]" for place in places]
    return names


def _of_parts(batch, model, parts, names, labels):
    """Return the terms of features and intercepts, each with the sign of its part."""
    rows = sparse.csr_array(batch.rows)
    intercepts = model.intercept.tolist()
    varies = bool(np.any(batch.task.varies))
    entries = []
    for part, sign in parts:
        row, output = divmod(part, len(intercepts))
        x = rows[[row]]
        weights = model.of_features(x.indices)
        weights = weights.toarray() if sparse.issparse(weights) else weights
        products = x.data * weights[:, output]
        label = batch.task.describe(part, labels)
        intercept = intercepts[output]
        found = [(names[f], row, label, sign * p) for f, p in zip(x.indices.tolist(), products.tolist()) if p]
        if intercept:
            found.append(("intercept", row, label, sign * intercept))
        if varies:
            # Inference adds this to the linear score of a part if structures differ in their number of parts.
            rest = float(batch.scores.flat[part]) - float(products.sum()) - intercept
            found.append(("size", row, label, sign * rest))
        entries += [(entry, sign) for entry in found]
    return entries
