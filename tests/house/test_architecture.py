"""The package's imports go one way, and importing it is cheap."""

import ast
import gc
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from internals import Entry, with_modules
from users import SENTENCE, files_with_sentences, head_of

from sklearn_sparsemap import sparsemap, structures

PACKAGE = Path(__file__).resolve().parents[2] / "sklearn_sparsemap"
ROOT_FILES = {"_compile_ahead", "compile"}


@lru_cache(maxsize=1)
def nodes_by_path():
    """Return all nodes of the syntax trees of the package's files: path -> list of nodes."""
    # All nodes stay, so that looking for garbage among them finds none, and takes longer than to parse.
    gc.disable()
    try:
        return {path: list(ast.walk(ast.parse(path.read_text()))) for path in sorted(PACKAGE.rglob("*.py"))}
    finally:
        gc.enable()


def read_picture():
    """Return the picture of the rooms in ARCHITECTURE.md: room -> rooms that it imports."""
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^(\w+) +->((?: \w+)*)(?:  .*)?$", text, re.MULTILINE)
    return {room: set(imported.split()) for room, imported in rows}


def rooms_imported(path):
    """Return the top-level modules of the package that a file imports."""
    inside = path.relative_to(PACKAGE).with_suffix("").parts
    for node in nodes_by_path()[path]:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = inside[: len(inside) - node.level]
            target = base + tuple((node.module or "").split(".")) if node.module else base
            if target:
                yield target[0]
            else:
                yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            assert not any(name.startswith("sklearn_sparsemap") for name in names), f"{path}: import relatively"


def files_imported(path):
    """Yield the files of the package that a file imports."""
    for node in nodes_by_path()[path]:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for name in [base, *(base / alias.name for alias in node.names)]:
                if name.with_suffix(".py").exists():
                    yield name.with_suffix(".py")


def files_used_by_other_rooms():
    """Return the rooms that import each file of another room, by its path: path -> sorted rooms.

    Not `__init__.py`, which has the public names, nor files of rooms that all may use.
    """
    users, picture = {}, read_picture()
    for path in nodes_by_path():
        room = path.relative_to(PACKAGE).parts[0]
        for used in files_imported(path) if room in picture else ():
            inside = used.relative_to(PACKAGE)
            if inside.parts[0] in picture.keys() - {room}:
                users.setdefault(inside.with_suffix("").as_posix(), set()).add(room)
    return {path: sorted(rooms) for path, rooms in sorted(users.items())}


def test_imports_go_one_way_as_the_picture_shows():
    found, picture = {}, read_picture()
    for path in nodes_by_path():
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room != "__init__" and room not in ROOT_FILES:
            found.setdefault(room, set()).update(set(rooms_imported(path)) - {room})
    foundation = {room for room in found if room.startswith("_") and room not in picture}
    assert {room: found[room] - foundation for room in picture} == picture
    assert set(found) == foundation | set(picture)
    assert all(found[room] <= foundation for room in foundation)
    # Rooms that import nothing but rooms that are done can be done next.
    order = []
    while len(order) < len(picture):
        ready = [room for room in picture if room not in order and picture[room] <= set(order)]
        assert ready, f"rooms import each other: {set(picture) - set(order)}"
        order += ready


def test_the_files_that_other_rooms_use_are_listed():
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^(\w+) +for +([\w ]+): (.+(?:\n +.+)*)$", text, re.MULTILINE)
    listed = {f"{room}/{file}": users.split() for room, users, files in rows for file in files.split()}
    assert listed == files_used_by_other_rooms()


def test_solvers_of_label_sets_read_only_parameters_of_estimators():
    names = "solvers", "cross_validation", "linear", "epochs", "trees", "comparison", "trials"
    nodes = [node for name in names for node in nodes_by_path()[PACKAGE / f"estimators/_multilabel/{name}.py"]]
    attributes = [node for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) != "self"]
    assert len(attributes) > 100
    assert not [ast.unparse(node) for node in attributes if re.match(r"_(?!_)", node.attr)]


def test_files_name_their_users():
    wrong, named = [], 0
    for path, wanted in files_with_sentences():
        found = SENTENCE.search(head_of(path))
        named += found is not None
        if (found and found[0]) != wanted:
            wrong.append(path.relative_to(PACKAGE).as_posix())
    assert not wrong, f"`python tests/cases/users.py` writes the users at the head of {wrong}"
    assert named > 300


# Private attributes of objects of other rooms: the weights of an estimator, of which `_core/moments.py` gives readers a
# view; scikit-learn's own name; and the method by which PyTorch's compiler, which reads no types, tells structures. Add
# none: give the object a method, or its room a function.
PRIVATE_USES = {
    ("_core/moments.py", "_learned"), ("_core/validation.py", "_parameter_constraints"), ("torch/_calls.py", "_params"),
}  # fmt: skip
# Parts of protocols of Python, of namedtuples and of scikit-learn.
NOT_PRIVATE = {"_replace", "_asdict", "_fields", "_validate_params", "_make"}


def names_made(node):
    """Yield the private names of attributes, methods and classes that a node defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr
    if isinstance(node, ast.ClassDef):
        for line in node.body:
            targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
            for target in targets:
                yield from (leaf.id for leaf in ast.walk(target) if isinstance(leaf, ast.Name)) if target else ()


def attribute_used(node):
    """Return the name of an attribute of an object other than `self`, also one in a text for `getattr`; else None."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr", "setattr"):
        return node.args[1].value if isinstance(node.args[1], ast.Constant) else None
    if not isinstance(node, ast.Attribute) or getattr(node.value, "id", "") in ("self", "cls"):
        return None
    is_super = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super"
    return None if is_super else node.attr


def test_few_private_attributes_cross_rooms():
    makers, uses = {}, set()
    for path, nodes in nodes_by_path().items():
        inside = path.relative_to(PACKAGE)
        for node in nodes:
            for name in names_made(node):
                makers.setdefault(name, set()).add(inside.parts[0])
            uses.add((inside.as_posix(), attribute_used(node)))
    is_private = re.compile(r"_(?!_)").match
    uses = {(path, name) for path, name in uses if name and is_private(name) and name not in NOT_PRIVATE}
    crossing = {(path, name) for path, name in uses if path.split("/")[0] not in makers.get(name, {path.split("/")[0]})}
    assert len(uses) > 100, len(uses)
    assert crossing == PRIVATE_USES, sorted(crossing ^ PRIVATE_USES)
    assert len(PRIVATE_USES) <= 5


STRUCTURES = {name for name in structures.__all__ if name != "Structure"}


def test_no_room_but_structures_asks_which_structure_it_is():
    for path, nodes in nodes_by_path().items():
        if path.relative_to(PACKAGE).parts[0] == "structures":
            continue
        for node in nodes:
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "type"):
                named = {leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name)} & STRUCTURES
                assert not named, f"{path.relative_to(PACKAGE)}:{node.lineno} asks for {named}"


def test_one_folder_knows_numbas_inside():
    n_lines = 0
    for path in PACKAGE.rglob("*.py"):
        text, is_backend = path.read_text(), path.parent == PACKAGE / "_core" / "compile"
        if re.search(r"^\s*(from|import) (numba\.|llvmlite)", text, re.MULTILINE):
            assert is_backend, path
            n_lines += len(text.splitlines())
        if not is_backend and path != PACKAGE / "_core" / "jit.py":
            assert not re.search(r"\b(njit|jit|jitclass)\(|import .*\b(njit|jitclass)\b", text), path
    assert 0 < n_lines <= 956


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_importing_imports_no_more_than_it_must_and_names_the_extra():
    code = """
import sys, sklearn_sparsemap
print(*(name in sys.modules for name in ("numba", "sklearn")))
from sklearn_sparsemap.plotting import TreeDisplay
TreeDisplay([[0, 1]], [1.0])
print(*(name in sys.modules for name in ("matplotlib", "numba")))
for name in dir(sklearn_sparsemap):
    getattr(sklearn_sparsemap, name)
print(*(name in sys.modules for name in ("torch", "jax", "dask")))
for name in ("torch", "jax"):
    sys.modules[name] = None
    try:
        __import__(f"sklearn_sparsemap.{name}")
    except ImportError as error:
        print("pip install '.[" + name in str(error))
"""
    assert run_python(code) == ["False"] * 7 + ["True"] * 2


def test_only_who_is_made_for_them_imports_torch_jax_and_dask():
    named = {"torch": set(), "jax": set(), "dask": set(), "distributed": set()}
    for path, nodes in nodes_by_path().items():
        for node in nodes:
            absolute = [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            absolute += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_extra":
                absolute += [node.args[0].value] if isinstance(node.args[0], ast.Constant) else []
            for name in {name.split(".")[0] for name in absolute} & named.keys():
                # The batched operations of a structure; `tensor_solver` imports them when a layer asks for them.
                if not path.stem.endswith("tensors"):
                    named[name].add(path.relative_to(PACKAGE).parts[0])
    assert named["torch"] | named["jax"] == {"torch", "jax"}
    assert named["dask"] == named["distributed"] == {"distributed"}


USE_EVERYTHING = with_modules("""
import numpy as np
from sklearn_sparsemap import (
    StructuredSparseMAPClassifier, lp_sparsemap, map_inference, marginal_inference, sparsemap
)
from sklearn_sparsemap.factors import FactorGraph, Pair, StructureFactor, Xor
from {jit} import compile_statistics
from sklearn_sparsemap.features import ArcVectorizer, TemplateVectorizer
from sklearn_sparsemap.penalties import GroupLasso
from sklearn_sparsemap.structures import CustomStructure, DependencyTree, LinearChain, Matching, Simplex, Subset

print(sum(compile_statistics().values()))
X, y = [np.eye(3), np.eye(3)[::-1]], [[0, 1, 1], [1, 0, 0]]
for array in (np.zeros((2, 2)), np.asfortranarray(np.ones((2, 2), np.float32)), [[1, 2]]):
    sparsemap(LinearChain(), array, transitions=np.eye(2)).vjp(np.ones(np.shape(array)))
sparsemap(LinearChain(), np.eye(3), transitions=np.eye(3), solver="flow").vjp(np.eye(3))
sparsemap(DependencyTree(), np.eye(4, 3), solver="facets").vjp(np.eye(4, 3))
custom = CustomStructure(lambda scores: [int(np.argmax(scores))])
trees = DependencyTree(), DependencyTree(projective=True)
for structure in *trees, LinearChain(), Matching(), Simplex(), Subset(), custom:
    scores = np.ones(structure.example_shapes()[-1])
    map_inference(structure, scores)
    sparsemap(structure, scores).vjp(scores)
    sparsemap(structure, scores, solver="active_set").vjp(scores)
    if structure.marginal_oracle is not None:
        marginal_inference(structure, scores)
for options in ({"solver": "lbfgs"}, {"solver": "adagrad"}, {"solver": "mira", "loss": "hinge"}, {"loss": "crf"}):
    model = StructuredSparseMAPClassifier("chain", **{"tol": 1e-2, "alpha": 0.1, **options})
    model.fit(X, y).predict_structures(X)
graph = FactorGraph()
u = graph.variables((2, 2))
graph.add(Xor(u[0]), Pair(u[0], u[1], name="pairs"), StructureFactor(LinearChain(), u, name="chain"))
for options in ({}, {"solver": "block"}, {"solver": "admm"}):
    lp_sparsemap(graph, np.eye(2), additional={"pairs": 0.5}, **options).vjp(np.eye(2))
map_inference(graph, np.eye(2), additional={"pairs": 0.5})
TemplateVectorizer().fit_transform([["a", "b"]])
for groups in (None, [[0, 1], [1, 2]]):
    GroupLasso(groups).prox(np.arange(3.0))
ArcVectorizer(["distance", "head.word[0]|mod.word[0]"]).fit_transform([[{"word": "a"}, {"word": "b"}]])
statistics = compile_statistics()
print(statistics["loaded"] > 20, statistics["compiled"])
""")


def test_a_second_process_compiles_nothing(fresh_python):
    at_import, loaded, compiled = fresh_python(USE_EVERYTHING).stdout.split()
    for _ in range(2):
        if compiled != "0":
            # The first one, with an empty cache. Other tests that run beside it may replace what it wrote to an index.
            at_import, loaded, compiled = fresh_python(USE_EVERYTHING).stdout.split()
    assert at_import == "0", "importing compiles or loads kernels"
    assert (loaded, compiled) == ("True", "0")


# Private modules that tests/cases/internals.py names. If fewer are left, write the lower number here.
MAX_PRIVATE_MODULES = 53


def is_private(name):
    return any(re.match(r"_(?!_)", part) for part in name.split(".")[1:])


def private_modules(path):
    """Return the private modules of the package that a file names, in imports or in strings."""
    text = path.read_text()
    named = set(re.findall(rf"\b{PACKAGE.name}(?:\.\w+)+", text))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == PACKAGE.name:
            # A private module of a public room, too.
            imported = {f"{node.module}.{alias.name}" for alias in node.names}
            named |= imported if node.module == PACKAGE.name or not is_private(node.module) else set()
    return {name for name in named if is_private(name)}


def test_tests_name_private_modules_in_one_file():
    named = {path.name: private_modules(path) for path in Path(__file__).parents[1].rglob("*.py")}
    few = named.pop("internals.py")
    for name, modules in named.items():
        assert not modules, f"{name} names {modules}: test through public names, or import from internals.py"
    assert 1 < len(few) <= MAX_PRIVATE_MODULES, sorted(few)


# Called as first-class functions, which have one signature: those of oracles and solvers.
FIRST_CLASS = {"as_oracle", "as_solver"}


def kernels():
    """Yield each kernel of the package: its path, its name, its decorators and the number of its parameters."""
    for path, nodes in nodes_by_path().items():
        for node in nodes:
            if isinstance(node, ast.FunctionDef):
                called = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
                decorators = {getattr(d, "id", getattr(d, "attr", None)) for d in called}
                if decorators & {"kernel", "entry", *FIRST_CLASS}:
                    yield path, node.name, decorators, len(node.args.posonlyargs + node.args.args)


def test_no_kernel_has_more_than_ten_parameters():
    counted = 0
    for path, name, decorators, n_parameters in kernels():
        counted += 1
        if not decorators & FIRST_CLASS:
            assert n_parameters <= 10, f"{path.relative_to(PACKAGE)}: {name} has {n_parameters}"
    assert counted > 150


def test_few_frames_are_between_a_call_and_its_kernel(monkeypatch):
    """At most 9 of the package's own from `sparsemap` on, and 12 from a layer on."""
    call, counts = Entry.__call__, []

    def counted(self, *args):
        frame, count = sys._getframe(1), 1
        while frame is not None:
            count += frame.f_globals.get("__name__", "").startswith("sklearn_sparsemap")
            frame = frame.f_back
        counts.append(count)
        return call(self, *args)

    monkeypatch.setattr(Entry, "__call__", counted)
    scores = np.random.default_rng(0).normal(size=(6, 5))
    sparsemap(structures.DependencyTree(), scores)
    assert 1 < max(counts) <= 9
    torch = pytest.importorskip("torch")
    from sklearn_sparsemap.torch import sparsemap as layer

    counts.clear()
    layer(structures.DependencyTree(), torch.tensor(scores[None]))
    assert 1 < max(counts) <= 12
