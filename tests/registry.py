"""Every structure, with random small instances: a structure listed here joins all tests that loop over them."""

from dataclasses import dataclass
from typing import Any

import naive
import numpy as np

from sklearn_sparsemap.structures import LinearChain, Simplex


@dataclass
class Instance:
    structure: Any
    scores: np.ndarray
    additional: dict

    def enumerate(self):
        """Return (structures, unary indicators, total scores) of everything that can be predicted."""
        enumerate_all = {Simplex: naive.enumerate_simplex, LinearChain: naive.enumerate_chain}
        return enumerate_all[type(self.structure)](self.scores, **self.additional)

    def __repr__(self):
        return f"{self.structure!r} {self.scores.shape} with {sorted(self.additional)}"


def draw(rng, shape, scale, ties):
    values = rng.normal(size=shape) * scale
    return np.round(values) if ties else values


def random_simplex(rng, scale=1.0, ties=False, forbid=False):
    scores = draw(rng, rng.integers(1, 9), scale, ties)
    if forbid and len(scores) > 1:
        scores[rng.integers(len(scores))] = -np.inf
    return Instance(Simplex(), scores, {})


def random_chain(rng, scale=1.0, ties=False, forbid=False, most_paths=700):
    while True:
        n, m = int(rng.integers(1, 8)), int(rng.integers(1, 6))
        if m**n <= most_paths:
            break
    additional = {}
    if rng.random() < 0.7:
        stationary = rng.random() < 0.5
        additional["transitions"] = draw(rng, (m, m) if stationary else (n - 1, m, m), scale, ties)
    for name in ("start", "end"):
        if rng.random() < 0.5:
            additional[name] = draw(rng, (m,), scale, ties)
    scores = draw(rng, (n, m), scale, ties)
    if forbid and m > 1:
        # State 0 stays allowed everywhere, so that a path is left.
        mask = rng.random((n, m)) < 0.3
        mask[:, 0] = False
        scores[mask] = -np.inf
        if "transitions" in additional:
            mask = rng.random(additional["transitions"].shape) < 0.2
            mask[..., 0, 0] = False
            additional["transitions"][mask] = -np.inf
    return Instance(LinearChain(), scores, additional)


RANDOM = {"simplex": random_simplex, "chain": random_chain}
