"""The options of the scripts of benchmarks, read from their sources."""

import ast


def options_of(path):
    """Return the options that a script declares."""
    options = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            options.add(node.args[0].value)
    return options
