"""Fitted estimators and transformers as a dict of arrays, which later versions read.

Used by `conformal`, `estimators`, `features` and `pipeline`.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._version import __version__
from .annotations import Any, NDArray, Self
from .moments import at_rest
from .plain import Form, NotPlainError, Reader, Writer, add_form, as_text, read_text

# Later versions read this format and all earlier ones.
FORMAT = 1
# Names of the entries for the text, and for the digest of all other entries.
_TEXT, _DIGEST = "json", "sha256"
# Attributes that are not part of the model: requests of metadata routing, callbacks and the form of outputs.
_NOT_OF_MODEL = ("_metadata_request", "_skl_callbacks", "_sklearn_output_config")


class ArraysMixin:
    """Conversion of a fitted estimator to a dict of arrays, and back.

    A subclass whose attributes have no plain form names one of them by `_special`. Its method `_described` returns the
    values that restore this attribute, or None. Its method `_restore` does so, and raises an exception unless all
    fitted attributes are consistent.
    """

    _special = None
    # Parameters without which the object is useless. They are not stored by name alone.
    _whole = ()

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        package, _, place = cls.__module__.partition(".")
        if package == __package__.partition(".")[0]:
            # Files name a class by its room and its name. The file of an estimator may hold others.
            add_form(f"{place.partition('.')[0]}.{cls.__name__}", cls, Form(cls._from_plain, cls._plain_parts))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted object as a dict of arrays, in a format that later versions of the package read.

        The arrays hold numbers and text, no pickled objects. Save them by
        ``numpy.savez(path, **model.to_arrays())``.

        Returns
        -------
        arrays : dict of str -> ndarray
            Copies of all arrays of the model. The entry ``"json"`` is a text: the version of the format, the class, its
            parameters and fitted attributes, with references to the other entries. ``"sha256"`` is a digest, which
            detects damage. A parameter that is a function, an object of your own class or a scikit-learn estimator, or
            that contains one, is stored only by its name. Metadata requests, callbacks and the choice of `set_output`
            are left out.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the object is not fitted.
        ValueError
            If a fitted attribute contains an object of your own class, such as a label, or a scikit-learn estimator.

        See Also
        --------
        from_arrays : Restores the object.

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

        A vectorizer alone, or a pipeline with its vectorizer, likewise:

        >>> from sklearn_sparsemap.features import TemplateVectorizer
        >>> from sklearn_sparsemap.pipeline import StructuredPipeline, make_structured_pipeline
        >>> tagger = make_structured_pipeline(TemplateVectorizer(["word[0]"]), StructuredSparseMAPClassifier("chain"))
        >>> tagger = tagger.fit([["the", "dog"], ["dogs", "bark"]], [["D", "N"], ["N", "V"]])
        >>> StructuredPipeline.from_arrays(tagger.to_arrays()).predict([["the", "dog"]])[0].tolist()
        ['D', 'N']
        """
        with at_rest(self) as view:
            return view._written()

    def _written(self):
        self._check_fitted()
        writer = Writer()
        parts = self._plain_parts()
        tree = {"format": FORMAT, "version": __version__, "class": type(self).__name__}
        given = parts["parameters"].items()
        tree["parameters"] = {name: writer.parameter(name, value) for name, value in given if name not in self._whole}
        try:
            for name in self._whole:
                tree["parameters"][name] = writer.write(parts["parameters"][name], f"parameters.{name}")
            tree["fitted"] = {name: writer.write(value, f"fitted.{name}") for name, value in parts["fitted"].items()}
            if parts["learned"] is not None:
                tree["learned"] = writer.write(parts["learned"], "learned")
        except NotPlainError as error:
            raise ValueError(f"{error}, so the model cannot be written as arrays; pickle it, or use skops") from error
        arrays = {_TEXT: as_text(tree), **writer.arrays}
        return {**arrays, _DIGEST: np.array(_digest_of(arrays))}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], **parameters: Any) -> Self:
        """Restore a fitted object from the arrays of `to_arrays`.

        No code in the arrays is run, and only objects of classes of this package are made, and pipelines. Predictions
        and rows of features are equal bit by bit. Training continues as from the original model, up to rounding.

        Parameters
        ----------
        arrays : mapping of str -> ndarray
            As `to_arrays` returned, or as ``numpy.load(path)`` opened.
        **parameters
            Parameters that replace the stored ones. Required for those that are stored only by name, such as
            ``structure=`` of a model of factor graphs, or ``derived_fields=`` with functions of your own.

        Returns
        -------
        model : object
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
            fitted = {name: reader.read(value) for name, value in tree["fitted"].items()}
            model = cls._from_plain({**own, **parameters}, fitted, reader.read(tree.get("learned")))
            model._check_fitted()
        except Exception as error:
            raise ValueError(f"no {cls.__name__} can be made of the arrays: {type(error).__name__}: {error}") from error
        return model

    def _check_fitted(self):
        check_is_fitted(self)

    def _plain_parts(self):
        """Return the arguments of `_from_plain`, by their names in files: all attributes, also private ones."""
        parameters = self.get_params(deep=False)
        left_out = {*parameters, *_NOT_OF_MODEL, self._special}
        fitted = {name: value for name, value in vars(self).items() if name not in left_out}
        return {"parameters": parameters, "fitted": fitted, "learned": self._described()}

    @classmethod
    def _from_plain(cls, parameters, fitted, learned):
        """Make an object from its parameters, its fitted attributes and the values of `_described`."""
        made = cls(**cls._from_former(parameters))
        made._restore(fitted, learned)
        return made

    def _described(self):
        return None

    def _restore(self, fitted, learned):
        vars(self).update(fitted)


def _digest_of(arrays):
    """Return the digest of the names, types, shapes and values of arrays."""
    found = sha256()
    for name in sorted(arrays):
        array = arrays[name]
        found.update(repr((name, array.dtype.str, array.shape)).encode())
        found.update(array.tobytes())
    return found.hexdigest()
