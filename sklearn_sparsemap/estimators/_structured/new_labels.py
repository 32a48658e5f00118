"""Labels that are new in a mini-batch of a stream."""

from .._partitions import flat_labels
from .._state.growth import with_more_outputs
from .labels import codes_of, sorted_labels


def add_labels(estimator, structure, y, classes):
    """Add the new labels of a mini-batch to an estimator, with weights of zero.

    Parameters
    ----------
    estimator : StructuredSparseMAPClassifier
    structure : Structure
    y : sequence of labels, or of label sequences
    classes : sequence or None
        Further labels.

    Returns
    -------
    labels : ndarray
        All labels.
    """
    if not structure.labelled:
        raise ValueError(f"on_new_labels='add' is for structures made of labels; got {structure!r}")
    known = estimator.classes_.tolist() if estimator.__sklearn_is_fitted__() else []
    given = [] if classes is None else list(classes)
    labels = sorted_labels([*known, *given, *(label for label in flat_labels(y) if label is not None)])
    if known and len(labels) > len(known):
        estimator._check_whole()
        places, shapes_of = codes_of(known, labels), estimator._structure.learned_shapes
        state = with_more_outputs(estimator.get_training_state(), places, len(labels), shapes_of)
        forbidden = estimator._forbidden(structure, labels)
        mask = 0.0 if forbidden is None else forbidden.mask()
        state.attributes = state.attributes | {"classes_": labels, "_mask": mask}
        estimator.set_training_state(state)
    return labels
