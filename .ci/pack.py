"""Packs compiled code of the installed package into a folder, which belongs into the package as `_compiled`.

    python .ci/pack.py FOLDER --level x86-64-v3
    python .ci/pack.py FOLDER --examples README.md

The first command compiles everything for all processors of a level; the second, for this processor, what the examples
of a page use. Both run in one process, so that Numba gives no two functions the same name. Code is taken over from
``NUMBA_CACHE_DIR``, if it is there for the same processor. Several versions of Numba can share a folder.
"""

import argparse
import hashlib
import json
import logging
import os
from pathlib import Path

# By level: Numba's name of the processor, and all features that code may use, as LLVM names them. The name must not
# imply others.
LEVELS = {
    "x86-64-v3": (
        "x86-64-v3",
        "+avx,+avx2,+bmi,+bmi2,+cmov,+crc32,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+popcnt,+sahf,+sse,+sse2,"
        "+sse3,+sse4.1,+sse4.2,+ssse3,+xsave",
    ),
    "armv8-a": ("generic", ""),
}


def pack(folder):
    """Write the code of all entries that this process has compiled or loaded; return their number and the bytes."""
    from numba.core.registry import cpu_target

    from sklearn_sparsemap._core.compile import stored
    from sklearn_sparsemap._core.jit import all_entries

    target = cpu_target.target_context.codegen().magic_tuple()
    caches = [entry.dispatcher._cache for entry in all_entries() if entry.is_compiled]
    index, n_bytes = {}, 0
    folder.mkdir(parents=True, exist_ok=True)
    for cache in caches:
        code = stored.read(cache.path(target), cache.key, target)
        assert code is not None, f"{cache.path(target)} is missing: is NUMBA_CACHE_DIR writable?"
        index[cache.key] = hashlib.sha256(code).hexdigest()
        (folder / index[cache.key]).write_bytes(code)
        n_bytes += len(code)
    triple, _, features = target
    content = json.dumps({"triple": triple, "features": features, "code": index}, indent=1, sort_keys=True)
    (folder / stored.index_name()).write_text(content)
    return len(index), n_bytes


def main():
    """Read the command line, compile and pack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--level", choices=LEVELS, help="by default, this processor")
    parser.add_argument("--examples", type=Path, help="a page; by default, everything is compiled")
    options = parser.parse_args()
    # Numba reads these variables at its import. Its code must not call Intel's library, which few installations have.
    os.environ["NUMBA_DISABLE_INTEL_SVML"] = "1"
    if options.level is not None:
        os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"] = LEVELS[options.level]
    logging.basicConfig(format="%(message)s")
    if options.examples is None:
        from sklearn_sparsemap import compile

        logging.getLogger("sklearn_sparsemap").setLevel(logging.INFO)
        compile(n_jobs=1)
    else:
        from readme import examples, run

        assert all([run(*example) for example in examples(options.examples)])
    n_entries, n_bytes = pack(options.folder)
    print(f"{n_entries} functions, {n_bytes / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
