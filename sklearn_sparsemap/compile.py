"""``python -m sklearn_sparsemap.compile [what ...]``: compile ahead of time; see `sklearn_sparsemap.compile`."""

import sys

from ._compile_ahead import compile, main

if __name__ == "__main__":
    main()
else:
    # Under this name the package has a function. An import of this file must not hide it.
    sys.modules[__name__] = compile
