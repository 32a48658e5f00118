"""Gibbs marginals and gradients of batches, compared with torch-struct: bracketings (CKY) and semi-Markov chains.

    python benchmarks/hyperpaths.py

torch-struct (Rush 2020) writes the recursion in batched tensor operations, and PyTorch differentiates it. Here the
bracketings are a `Hyperpath`, of a list of hyperarcs, and the semi-Markov chains a `Segmentation`. Both get the same
scores in float64, on one thread, and take turns; times are the least CPU time of `--repeats` runs. The values of both
must agree.

`pip install --no-deps torch-struct` installs the peer, version 0.5; it needs PyTorch only.
"""

import argparse
import time
import warnings

import numpy as np
import results
import torch
from torch_struct import SemiMarkovCRF, TreeCRF

from sklearn_sparsemap import map_inference, marginal_inference
from sklearn_sparsemap.inference import entropy
from sklearn_sparsemap.losses import ExpectedCost, FenchelYoungLoss
from sklearn_sparsemap.structures import Hyperpath, Segmentation

N_LABELS = 5  # of spans, in both tasks
LONGEST = 6  # longest span of a semi-Markov chain
FORBIDDEN = -1e9  # torch-struct gives NaN for -inf


class Bracketings:
    """Binary bracketings of n words, with labelled spans: a score for each span and label."""

    name = "CKY, {} words"

    def __init__(self, n, n_samples, rng):
        number, heads, tails, spans = {}, [], [], []
        for width in range(n):
            for first in range(n - width):
                last = first + width
                number[first, last] = node = 2 * len(number)
                # Splits have no score. The labels make the span of its splits.
                for middle in range(first, last):
                    heads.append(node)
                    tails.append([number[first, middle] + 1, number[middle + 1, last] + 1])
                for label in range(N_LABELS):
                    spans.append((len(heads), first, last, label))
                    heads.append(node + 1)
                    tails.append([node if width else -1, -1])
        self.structure = Hyperpath(heads, tails)
        arcs, *self.places = np.array(spans).T
        self.arcs = arcs
        shape = n_samples, n, n, N_LABELS
        self.theirs = rng.normal(size=shape)
        self.ours = np.zeros((n_samples, len(heads)))
        self.ours[:, arcs] = self.theirs[(slice(None), *self.places)]
        self.additional = {}
        self.distribution = TreeCRF

    def of_spans(self, marginals):
        """Return the marginals of torch-struct for our parts."""
        return marginals[(slice(None), *self.places)]

    def own_parts(self, flat):
        return flat[:, self.arcs]


class SemiMarkov:
    """Segmentations of n steps into labelled spans, with transitions."""

    name = "semi-Markov chain, {} steps"

    def __init__(self, n, n_samples, rng):
        self.structure = Segmentation(LONGEST, "spans")
        self.ours = rng.normal(size=(n_samples, n, LONGEST, N_LABELS))
        transitions = rng.normal(size=(N_LABELS, N_LABELS))
        self.additional = {"transitions": transitions}
        # Potentials of a span by its beginning, length, label, and the label before it.
        edges = np.full((n_samples, n, LONGEST + 1, N_LABELS, N_LABELS), FORBIDDEN)
        edges[:, :, 1:] = self.ours[..., None] + transitions.T
        edges[:, 0] = FORBIDDEN
        edges[:, 0, 1:, :, 0] = self.ours[:, 0]
        for length in range(2, LONGEST + 1):
            edges[:, n - length + 1 :, length] = FORBIDDEN
        self.theirs = edges
        self.distribution = SemiMarkovCRF
        # Spans that do not fit.
        steps = np.arange(n)[:, None] + np.arange(LONGEST)
        self.fits = steps < n

    def of_spans(self, marginals):
        return marginals[:, :, 1:].sum(-1)[:, self.fits]

    def own_parts(self, flat):
        return flat.reshape(self.ours.shape)[:, self.fits]


def timed(function, repeats):
    """Return the least CPU time in milliseconds, and the result."""
    found, least = None, np.inf
    for _ in range(repeats):
        start = time.process_time()
        found = function()
        least = min(least, time.process_time() - start)
    return 1e3 * least, found


def slopes_of(case, pairs):
    """Return the gradients in the scores of our parts, and the values, of pairs (value, gradient)."""
    slopes = np.array([gradient["scores"].ravel() for _, gradient in pairs])
    return case.own_parts(slopes), np.array([value for value, _ in pairs])


def derivative_of(case, value_of):
    """Return the same of a function of the distribution of torch-struct."""
    scores = torch.tensor(case.theirs, requires_grad=True)
    values = value_of(case.distribution(scores)).ravel()
    (slopes,) = torch.autograd.grad(values.sum(), scores)
    return case.of_spans(slopes.numpy()), values.detach().numpy()


def tasks_of(case):
    """Return functions that compute the same with both packages, by name: (ours, theirs)."""
    structure, additional = case.structure, case.additional
    samples = list(case.ours)
    gold = map_inference(structure, samples, **additional).structures
    their_gold = case.distribution(torch.tensor(case.theirs)).argmax.detach()
    crf = FenchelYoungLoss(structure, "crf")
    expected = ExpectedCost(structure)

    def marginals_here():
        batch = marginal_inference(structure, samples, n_jobs=1, **additional)
        return case.own_parts(batch.marginals.values.reshape(len(samples), -1)), batch.log_partition

    def marginals_there():
        own = case.distribution(torch.tensor(case.theirs))
        return case.of_spans(own.marginals.detach().numpy()), own.partition.detach().numpy().ravel()

    def wrong_and_missing(own):
        # Gold has the spans of one structure, so the expected numbers are sums of marginals.
        marginals = own.marginals
        return (marginals * (1.0 - 2.0 * their_gold) + their_gold).flatten(1).sum(1)

    return {
        "marginals": (marginals_here, marginals_there),
        "CRF loss and gradient": (
            lambda: slopes_of(case, crf.loss_gradient(samples, gold, n_jobs=1, **additional)),
            lambda: derivative_of(case, lambda own: -own.log_prob(their_gold)),
        ),
        "expected cost and gradient": (
            lambda: slopes_of(case, expected.loss_gradient(samples, gold, n_jobs=1, **additional)),
            lambda: derivative_of(case, wrong_and_missing),
        ),
        "entropy and gradient": (
            lambda: slopes_of(case, entropy(structure, samples, n_jobs=1, **additional)),
            lambda: derivative_of(case, lambda own: own.entropy),
        ),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 40], help="numbers of words or steps")
    parser.add_argument("--batch", type=int, default=32, help="number of samples")
    parser.add_argument("--repeats", type=int, default=3)
    args = results.parse(parser)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message=".*arg_constraints")
    print(f"{'':30}{'':28}{'ours':>10}{'torch-struct':>14}{'ratio':>8}")
    for kind in (Bracketings, SemiMarkov):
        for n in args.sizes:
            case = kind(n, args.batch, np.random.default_rng(0))
            name = kind.name.format(n)
            for what, (here, there) in tasks_of(case).items():
                here()
                ours, found = timed(here, args.repeats)
                theirs, wanted = timed(there, args.repeats)
                # The costs of bracketings count hyperarcs here, splits among them, and spans there. Their entropy sums
                # over the potentials of the chain, of which those of the first span are not all alike.
                if what in ("marginals", "CRF loss and gradient"):
                    for a, b in zip(found, wanted):
                        np.testing.assert_allclose(a, b, atol=1e-8)
                print(f"{name:30}{what:28}{ours:7.1f} ms{theirs:11.1f} ms{theirs / ours:8.1f}", flush=True)
                results.record(
                    f"{what}, batch of {args.batch}",
                    name,
                    "CPU time",
                    ours,
                    "ms",
                    "torch-struct",
                    theirs,
                    package="torch-struct",
                )


if __name__ == "__main__":
    main()
