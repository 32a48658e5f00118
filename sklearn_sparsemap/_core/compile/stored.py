"""Files of compiled code: those that came with the package, and those that this machine has compiled.

Wheels made by `.ci/compiled-wheel` have a folder ``_compiled`` in the package. It holds files named after the SHA-256
digests of their contents, and an index of them for each pair of Python and Numba. Code is used if the sources that it
was made of are the same, and the processor has all features that it uses. Else it is compiled, as without this folder.
The digests detect damage. Files are unpickled, so they are trusted as much as the modules beside them, and nothing
outside the package is read.
"""

import hashlib
import json
import os
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.resources import files
from uuid import uuid4

import numba

FOLDER = "_compiled"
_PACKAGE = __package__.partition(".")[0]
_DIGEST_BYTES = hashlib.sha256().digest_size


def index_name():
    """Return the name of the index for this Python, as it names its extensions, and this Numba."""
    return f"{EXTENSION_SUFFIXES[0].split('.')[1]}-numba-{numba.__version__}.json"


def _needed(features):
    """Return the features that code needs, which LLVM writes as ``+avx2,-avx512f``."""
    return {feature for feature in features.split(",") if feature.startswith("+")}


@lru_cache(maxsize=1)
def _index():
    try:
        index = json.loads((files(_PACKAGE) / FOLDER / index_name()).read_bytes())
        return index["triple"], _needed(index["features"]), dict(index["code"])
    except Exception:
        # There is none, or it is damaged.
        return "", set(), {}


def read_shipped(key, target):
    """Return code that came with the package; None if there is none for Numba's description of the target."""
    triple, features, code = _index()
    host, _, host_features = target
    if key not in code or triple != host or not features <= _needed(host_features):
        return None
    content = (files(_PACKAGE) / FOLDER / code[key]).read_bytes()
    # A name that leads elsewhere is not the digest of what is there.
    return content if hashlib.sha256(content).hexdigest() == code[key] else None


def _digest(key, target, code):
    return hashlib.sha256(f"{numba.__version__} {target} {key} ".encode() + code).digest()


def read(path, key, target):
    """Return code that this machine has compiled; None if there is none, or an old or damaged one."""
    with suppress(OSError), open(path, "rb") as file:
        digest = file.read(_DIGEST_BYTES)
        code = file.read()
        return code if digest == _digest(key, target, code) else None


def write(path, key, target, code):
    """Write code into a file at once, behind its digest; do nothing if there is no room."""
    unfinished = f"{path}.{uuid4().hex}"
    try:
        with open(unfinished, "xb") as file:
            file.write(_digest(key, target, code) + code)
        os.replace(unfinished, path)
    except OSError:
        with suppress(OSError):
            os.remove(unfinished)
