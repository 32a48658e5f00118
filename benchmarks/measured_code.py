"""The code that a script measures: the files that it imports, from here and from the package, without their prose.

`digest` identifies that code. A record keeps it, so that a later run sees whether the figure is of the present code
(figures.py). Comments and docstrings do not count. Imports inside functions do, because the package imports much at
first use. A name that an ``__init__.py`` only passes on counts as the module that defines it, so that a script for
rankings is not older if a tree changes.
"""

import ast
import io
import tokenize
from functools import cache
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ROOT / "benchmarks"
BOOKKEEPING = {"results", "measured_code"}  # modules of this folder that change no figure


def file_of(parts):
    """Return the file of a module of the package or of this folder, given as its names; None of others."""
    folder = ROOT if parts[0] == "sklearn_sparsemap" else BESIDE
    place = folder.joinpath(*parts)
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def is_for_types(node):
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def nodes_of(path, types=False):
    """Yield the nodes of a file; those that only type checkers see if `types`."""
    waiting = [tree_of(path)]
    while waiting:
        node = waiting.pop()
        yield node
        if types or not is_for_types(node):
            waiting += ast.iter_child_nodes(node)


def base_of(path, node):
    """Return the names of the module from which an import statement takes names."""
    names = node.module.split(".") if node.module else []
    if not node.level:
        return names
    folder = path.parent.relative_to(ROOT).parts
    return [*folder[: len(folder) - node.level + 1], *names]


@cache
def exports(path):
    """Return where an ``__init__.py`` takes each of its names from: the names of a module, and the name in it."""
    return {
        alias.asname or alias.name: (base_of(path, node), alias.name)
        for node in nodes_of(path, types=True)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def source_of(parts, name):
    """Return the file that defines a name of a module; None if it is of another library."""
    module = file_of([*parts, name])
    if module is not None:
        return module
    path = file_of(parts)
    if path is not None and path.name == "__init__.py" and name in exports(path):
        return source_of(*exports(path)[name]) or path
    return path


@cache
def imports_of(path):
    """Return the files that a file imports: a set of paths."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {file_of(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = base_of(path, node)
            found |= {source_of(base, alias.name) for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            name = getattr(node.args[0], "value", "")
            if isinstance(name, str) and name.startswith("."):
                # A module of this name in each folder, such as the tensors of a structure.
                found |= set(path.parent.glob(f"**/{name.lstrip('.')}.py"))
    return found - {None}


def files_of(script):
    """Return the files that a script runs, itself included: a sorted list of paths."""
    found, waiting = set(), [BESIDE / f"{script}.py"]
    while waiting:
        path = waiting.pop()
        is_ours = path.parent != BESIDE or path.stem not in BOOKKEEPING
        if path not in found and is_ours:
            found.add(path)
            waiting += imports_of(path)
    return sorted(found)


@cache
def bare(path):
    """Return the code of a file without comments, docstrings and empty lines."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline) if "#" in text else ():
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            prose = node.body[0]
            lines[prose.lineno - 1 : prose.end_lineno] = [""] * (prose.end_lineno - prose.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())


@cache
def digest(script):
    """Return eight hexadecimal digits that identify the code that a script measures."""
    code = sha256()
    for path in files_of(script):
        code.update(f"{path.relative_to(ROOT).as_posix()}\n{bare(path)}\n".encode())
    return code.hexdigest()[:8]
