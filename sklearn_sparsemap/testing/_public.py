"""Checks that `map_inference` agrees with the oracle: in a batch, in threads, and from copies of the structure.

Used by `_check.py`.
"""

import copy
import pickle

import numpy as np

from ..inference import map_inference
from ._oracle import is_same


def check_public(case, n_instances):
    """Check that results depend on the arguments and the attributes of the structure only.

    `case` is a `Case`. Its `call_oracle` returns the value of the best structure and its index in ``case.slots``, which
    is None if the value is -inf.
    """
    problems = [case.draw(k) for k in range(4 * n_instances)]
    answers = [(values, *case.call_oracle(values)) for values in problems]
    answers = [(values, value, i) for values, value, i in answers if i is not None]
    problems, values_found, places = zip(*answers)
    expected = [case.structure.decode(case.slots[i][0].copy(), case.dims) for i in places]
    for who, results in _call_in_many_ways(case, problems).items():
        for values, value, decoded, result in zip(problems, values_found, expected, results):
            if result.value != value or not is_same(result.structure, decoded):
                case.fail(
                    f"{who} found {result.structure!r} with the value {result.value}, but the oracle alone "
                    f"{decoded!r} with {value}",
                    "the oracle must depend on its arguments only and keep nothing between calls, because all threads "
                    "call it; parameters of the structure must be in its attributes",
                    values,
                )
    nothing = np.full(case.n, -np.inf)
    if case.call_oracle(nothing)[0] == -np.inf:
        scores, additional = case.split(nothing)
        try:
            result = map_inference(case.structure, scores, **additional)
        except ValueError:
            return
        case.fail(f"map_inference returned {result}", "the value must be -inf if no structure is allowed", nothing)


def _call_in_many_ways(case, problems):
    """Return the results of all problems, by the name of the way to compute them."""
    scores, additional = zip(*(case.split(values) for values in problems))
    scores = list(scores)
    additional = {name: [given[name] for given in additional] for name in case.given}

    def infer(structure, **options):
        return map_inference(structure, scores, **additional, **options)

    found = {
        "map_inference": [case.infer(map_inference, values) for values in problems],
        "map_inference in two threads": infer(case.structure, n_jobs=2),
        "a deep copy": infer(copy.deepcopy(case.structure)),
    }
    try:
        unpickled = pickle.loads(pickle.dumps(case.structure))
    except (pickle.PicklingError, AttributeError, TypeError):
        # Lambdas and local classes cannot be pickled, and need not be.
        return found
    return {**found, "an unpickled copy": infer(unpickled)}
