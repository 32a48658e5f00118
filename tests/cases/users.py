"""The users of each file of the package, which the sentence "Used by ..." at its head names.

    python tests/cases/users.py

writes the sentence of each file anew, except in `_core/compile`, where a change of any text compiles all kernels again.
A user is another room, another folder of the same room, or a file of the same
folder. Names that come through the `__init__.py` of a private folder count as uses of the file that defines them; those
of public rooms are for everybody.
"""

import ast
import re
import textwrap
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "sklearn_sparsemap"
SENTENCE = re.compile(r"^Used by .+?\.$", re.MULTILINE | re.DOTALL)
EVERYWHERE = re.compile(r"^Most rooms use ", re.MULTILINE)
_MANY = 6  # files of the same folder, of more of which the names would say less than their number


@lru_cache(maxsize=1)
def imports_by_path():
    """Return the relative imports of each file: path -> list of (module or folder, names)."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        places = (
            (node, path.parents[node.level - 1].joinpath(*(node.module or "").split(".")))
            for node in nodes
            if node.level
        )
        found[path] = [(place, [alias.name for alias in node.names]) for node, place in places]
    return found


@lru_cache(maxsize=1)
def files_of_names():
    """Return the files of the names that the `__init__.py` of each private folder imports: folder -> name -> file."""
    return {
        path.parent: {
            name: place.with_suffix(".py")
            for place, names in imports
            for name in names
            if place.with_suffix(".py").exists()
        }
        for path, imports in imports_by_path().items()
        if path.name == "__init__.py" and path.parent.name.startswith("_")
    }


def files_used(path):
    """Yield the files of the package that a file uses."""
    for place, names in imports_by_path()[path]:
        if place.with_suffix(".py").exists():
            yield place.with_suffix(".py")
        for name in names:
            if (place / name).with_suffix(".py").exists():
                yield (place / name).with_suffix(".py")
            elif name in files_of_names().get(place, {}):
                yield files_of_names()[place][name]


def users_by_path():
    """Return the users of each file: path -> set of rooms, folders and names of files."""
    users = {path: set() for path in imports_by_path() if path.name != "__init__.py"}
    for path in users:
        there = path.relative_to(PACKAGE).parts
        for used in files_used(path):
            if used.relative_to(PACKAGE).parts[0] != there[0]:
                user = there[0].removesuffix(".py")
            else:
                user = path.name if used.parent == path.parent else "/".join(there[:-1])
            users[used].add(user)
    return users


def sentence_of(users):
    """Return the sentence that names some users; None if there are none."""
    here = sorted(user for user in users if user.endswith(".py"))
    names = [f"`{user}`" for user in sorted(users - set(here))]
    names += ["most files here"] if len(here) > _MANY else [f"`{user}`" for user in here]
    if not names:
        return None
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return textwrap.fill(f"Used by {listed}.", 120, break_long_words=False, break_on_hyphens=False)


def head_of(path):
    """Return the docstring of a file."""
    return ast.get_docstring(ast.parse(path.read_text()), clean=False) or ""


def write_sentence(path, wanted):
    """Replace the sentence at the head of a file, add it at the end of the head, or take it out."""
    text = path.read_text()
    head = head_of(path)
    old = SENTENCE.search(head)
    if old:
        new = head.replace(old[0], wanted or "")
    elif wanted:
        new = f"{head.rstrip()}\n\n{wanted}\n"
    else:
        return
    path.write_text(text.replace(f'"""{head}"""', f'"""{new}"""', 1))


def files_with_sentences():
    """Yield the files whose heads must name their users, and the sentences; None for files without users."""
    for path, users in users_by_path().items():
        if not path.is_relative_to(PACKAGE / "_core" / "compile") and not EVERYWHERE.search(head_of(path)):
            yield path, sentence_of(users)


if __name__ == "__main__":
    for each, sentence in list(files_with_sentences()):
        write_sentence(each, sentence)
