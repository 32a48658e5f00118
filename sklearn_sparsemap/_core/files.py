"""Files that are replaced as a whole or not at all.

Used by `datasets` and `partition_files.py`.
"""

import os
from contextlib import contextmanager, suppress
from stat import S_IMODE, S_ISREG
from uuid import uuid4


@contextmanager
def replacing(path):
    """Open a file for writing bytes, which replaces the file at `path` once it is complete.

    If writing fails, because the disk is full, the process is killed, or an exception is raised, the old file remains.
    A killed process leaves a hidden file with the suffix ``.unfinished`` in the same folder.

    Parameters
    ----------
    path : str, bytes or path-like
        A symbolic link remains, and its target is replaced. Pipes and devices are written to directly.

    Yields
    ------
    file : binary file
    """
    target = os.path.realpath(os.fsdecode(path))
    mode = None
    with suppress(FileNotFoundError):
        mode = os.stat(target).st_mode
    if mode is not None and not S_ISREG(mode):
        with open(target, "wb") as file:
            yield file
        return
    unfinished = os.path.join(os.path.dirname(target), f".{uuid4().hex}.unfinished")
    try:
        with open(unfinished, "xb") as file:
            yield file
        if mode is not None:
            os.chmod(unfinished, S_IMODE(mode))
        os.replace(unfinished, target)
    except BaseException:
        with suppress(OSError):
            os.remove(unfinished)
        raise
