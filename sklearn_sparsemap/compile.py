"""``python -m sklearn_sparsemap.compile [what ...]``: compile ahead of time; see `sklearn_sparsemap.compile`."""

import argparse
import logging
import sys
from types import ModuleType

from ._compile_ahead import USES, compile


class _CallableModule(ModuleType):
    """A module under whose name the function of the package is called, whichever of the two was imported first."""

    def __call__(self, what=None, n_jobs=None):
        return compile(what, n_jobs)


def main(arguments=None):
    """Parse the command line, compile, and show progress on standard error."""
    about = compile.__doc__.splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m sklearn_sparsemap.compile", description=about)
    parser.add_argument("what", nargs="*", help=f"some of {', '.join(sorted(USES))}; all if nothing is given")
    parser.add_argument("--n-jobs", type=int, help="number of processes; one for each core if not given")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("sklearn_sparsemap").setLevel(logging.INFO)
    try:
        compile(options.what or None, options.n_jobs)
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
else:
    sys.modules[__name__].__class__ = _CallableModule
