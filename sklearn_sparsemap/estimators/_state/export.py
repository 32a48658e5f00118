"""Fitted estimators as a dict of arrays, which later versions read."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..._core.annotations import Any, NDArray, Self
from ..._version import __version__
from .learned import Learned
from .optimizers import read_optimizer, write_optimizer
from .plain import NotPlainError, Reader, Writer, as_text, read_text
from .state import TrainingState

# Later versions read this format and all earlier ones.
FORMAT = 1
# Names of the entries for the text, and for the digest of all other entries.
_TEXT, _DIGEST = "json", "sha256"
# Attributes that are not part of the model: requests of metadata routing, callbacks and the form of outputs.
_NOT_OF_MODEL = ("_metadata_request", "_skl_callbacks", "_sklearn_output_config")


class ArraysMixin:
    """Conversion of a fitted estimator to a dict of arrays, and back."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted estimator as a dict of arrays, in a format that later versions of the package read.

        The arrays hold numbers and text, no pickled objects. Save them by
        ``numpy.savez(path, **model.to_arrays())``.

        Returns
        -------
        arrays : dict of str -> ndarray
            Copies of all arrays of the model. The entry ``"json"`` is a text: the version of the format, the class, its
            parameters and fitted attributes, with references to the other entries. ``"sha256"`` is a digest, which
            detects damage. A parameter that is a function, or an object of your own class, is stored only by its name.
            Metadata requests and callbacks are left out.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError
            If the model contains an object of your own class, such as a label.

        See Also
        --------
        from_arrays : Restores the estimator.

        Examples
        --------
        >>> import io
        >>> import numpy as np
        >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
        >>> model = StructuredSparseMAPClassifier().fit(np.eye(3), ["a", "b", "a"])
        >>> file = io.BytesIO()
        >>> np.savez(file, **model.to_arrays())
        >>> _ = file.seek(0)
        >>> StructuredSparseMAPClassifier.from_arrays(np.load(file)).predict(np.eye(3)).tolist()
        ['a', 'b', 'a']
        """
        check_is_fitted(self)
        writer, parameters = Writer(), self.get_params(deep=False)
        tree = {"format": FORMAT, "version": __version__, "class": type(self).__name__}
        tree["parameters"] = {name: writer.parameter(name, value) for name, value in parameters.items()}
        fitted = {
            name: value for name, value in vars(self).items() if name not in (*parameters, *_NOT_OF_MODEL, "_learned")
        }
        try:
            tree["fitted"] = {name: writer.write(value, f"fitted.{name}") for name, value in fitted.items()}
            if "_learned" in vars(self):
                tree["learned"] = writer.write(_described(self._learned), "learned")
        except NotPlainError as error:
            raise ValueError(f"{error}, so the model cannot be written as arrays; pickle it, or use skops") from error
        arrays = {_TEXT: as_text(tree), **writer.arrays}
        return {**arrays, _DIGEST: np.array(_digest_of(arrays))}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], **parameters: Any) -> Self:
        """Restore a fitted estimator from the arrays of `to_arrays`.

        No code in the arrays is run, and only objects of classes of this package are made. Predictions are equal bit by
        bit. Training continues as from the original model, up to rounding.

        Parameters
        ----------
        arrays : mapping of str -> ndarray
            As `to_arrays` returned, or as ``numpy.load(path)`` opened.
        **parameters
            Parameters of the estimator that replace the stored ones. Required for functions and objects of your own
            classes, such as ``structure=`` of a model of factor graphs.

        Returns
        -------
        model : estimator
            Fitted.

        Raises
        ------
        ValueError
            If the arrays belong to another class or have a later format, were damaged, or a parameter is missing.
        """
        try:
            arrays = {name: arrays[name] for name in arrays}
            digest = str(arrays.pop(_DIGEST))
            tree = read_text(arrays[_TEXT])
            number, name, stored = tree["format"], tree["class"], tree["parameters"]
            absent = [name for name, value in stored.items() if isinstance(value, dict) and "absent" in value]
        except Exception as error:
            raise ValueError(f"these are no arrays of to_arrays: {type(error).__name__}: {error}") from error
        if number != FORMAT:
            raise ValueError(
                f"the arrays have the format {number!r}, written by version {tree.get('version')!r}, and version "
                f"{__version__} reads up to {FORMAT}; update the package"
            )
        if name != cls.__name__:
            raise ValueError(f"the arrays are of the class {name!r}; call its from_arrays, not that of {cls.__name__}")
        if digest != _digest_of(arrays):
            raise ValueError("the arrays were damaged or edited since they were written; take another copy")
        for name in absent:
            if name not in parameters:
                raise ValueError(
                    f"the parameter {name} was {stored[name]['absent']}, which arrays do not hold; pass it: "
                    f"{cls.__name__}.from_arrays(arrays, {name}=...)"
                )
        try:
            reader = Reader(arrays, parameters)
            own = {name: reader.read(value) for name, value in stored.items() if name not in parameters}
            model = cls(**own, **parameters)
            model._restore(reader, tree)
        except Exception as error:
            raise ValueError(f"the arrays are no {cls.__name__}: {type(error).__name__}: {error}") from error
        return model

    def _restore(self, reader, tree):
        """Set the fitted attributes."""
        vars(self).update({name: reader.read(value) for name, value in tree["fitted"].items()})
        if "learned" in tree:
            learned = reader.read(tree["learned"])
            model, state = learned["model"], learned["state"]
            optimizer = None
            if state is not None:
                state._check()
                rng = check_random_state(self.random_state)
                optimizer = write_optimizer(state, getattr(self, "_new_optimizer", None), rng)
            for array in [model.coef, model.intercept, model.additional] if hasattr(model, "coef") else model.arrays:
                _check_weights(array)
            self._learned = Learned(model, optimizer, learned["final"])
            self._check_whole()


def _described(learned):
    """Return the parts of a `Learned` that have a plain form."""
    optimizer = learned.optimizer
    state = None if optimizer is None else TrainingState(**read_optimizer(optimizer))
    return {"model": learned.model, "state": state, "final": learned.final}


def _check_weights(array):
    values = array.data if sparse.issparse(array) else array
    if not isinstance(values, np.ndarray) or values.dtype not in (np.float64, np.float32):
        raise ValueError("weights must be arrays of float64 or float32")


def _digest_of(arrays):
    """Return the digest of the names, types, shapes and values of arrays."""
    found = sha256()
    for name in sorted(arrays):
        array = arrays[name]
        found.update(repr((name, array.dtype.str, array.shape)).encode())
        found.update(array.tobytes())
    return found.hexdigest()
