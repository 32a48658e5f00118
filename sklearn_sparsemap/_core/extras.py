"""Libraries of the extras, which are imported when they are needed.

Used by `distributed` and `plotting`.
"""

from importlib import import_module


def import_extra(module, extra, purpose):
    """Import a module of an extra.

    Parameters
    ----------
    module : str
        Such as ``"matplotlib.pyplot"``.
    extra : str
        Name of the extra that installs it: ``"plot"``, ``"torch"``, ``"jax"`` or ``"dask"``.
    purpose : str
        Subject of the message: "this plot".

    Returns
    -------
    module : module

    Raises
    ------
    ImportError
        If it is not installed. The message has the command that installs it. Errors of a library that is installed, but
        cannot be loaded, are not changed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != library:
            # The library is there, but one that it needs is not.
            raise
        raise ImportError(
            f"{purpose} needs {library}, which is not installed; in a clone of the repository, run: "
            f"pip install '.[{extra}]' (or, if a package index has the package: pip install "
            f"'sklearn-sparsemap[{extra}]')"
        ) from error
