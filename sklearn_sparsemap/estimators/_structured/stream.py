"""The base class of linear structured estimators that also learn from streams and partitions of data.

Used by `classifier.py` and `perceptron.py`.
"""

from .._partitions import PartitionsMixin
from .._state.fitted import TrainingStateMixin
from .base import LinearStructuredModel
from .targets import resolve_structure, targets_of


class LinearStructuredClassifier(TrainingStateMixin, PartitionsMixin, LinearStructuredModel):
    """Base class of linear structured estimators that also learn online, from a stream or partitions."""

    # Name of the parameter for the step size.
    _step_size = "eta0"
    # Weights have the type of X in the first call.
    _dtype = None

    def _check_stream(self, X, y, classes, sample_weight):
        """Check the parameters and a mini-batch, also for consistency with earlier calls of `partial_fit`.

        Returns
        -------
        first : bool
            Whether this is the first call.
        structure : Structure or GraphBuilder
            The structure of the first call.
        classes : array or None
            All labels; None if structures are not made of labels.
        X : RaggedArray
        task : Task
        """
        structure = self._check_params(X)
        first = not hasattr(self, "_structure")
        if self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' needs all of y at once; pass a dict of weights to partial_fit")
        if not first:
            self._check_same_structure(structure)
            self._check_whole()
            structure = self._structure
        known = None if first else vars(self).get("classes_")
        classes = targets_of(structure).given_classes(structure, classes, known)
        X, _, _, task = self._training_data(structure, X, y, sample_weight, reset=first, classes=classes, stream=True)
        return first, structure, classes, X, task if first else self._check_task(task)

    # `_partitions.py`, `estimators/_selection/path.py` and `distributed/_rounds.py` call this method.
    def _labels_in(self, y):
        """Return the labels that occur as the keys of a dict; None if structures are not made of labels."""
        return targets_of(resolve_structure(self.structure, fitted=vars(self).get("_structure"))).labels_in(y)
