"""
A code of bits, without sampling
================================

An autoencoder describes a picture of a digit by a few bits. Which bits to set is
discrete, so that the gradient of the expected loss must be estimated, usually from
samples: by the score function (REINFORCE), which is unbiased and noisy, or by relaxed
samples (Gumbel), which are biased.

With SparseMAP the distribution over all codes has few codes with any probability. The
expected loss is a sum over these, exact and without sampling (Correia, Niculae, Aziz
and Martins, "Efficient Marginalization of Discrete and Structured Latent Variables via
Sparsity", NeurIPS 2020). The layer is :func:`~sklearn_sparsemap.torch.sparsemap` over
:class:`~sklearn_sparsemap.structures.Subset`, with ``return_structures=True``.

The example needs PyTorch (``pip install ".[torch]"``).
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from sklearn_sparsemap.structures import Subset
from sklearn_sparsemap.torch import sparsemap

torch.set_num_threads(1)
N_BITS, N_STEPS = 8, 300
pictures = torch.tensor(load_digits().data / 16.0, dtype=torch.float32)
order = np.random.default_rng(0).permutation(len(pictures))
train, test = pictures[order[:1400]], pictures[order[1400:]]
ALL_CODES = torch.tensor(np.array(list(np.ndindex(*[2] * N_BITS))), dtype=torch.float32)


# %%
# The loss
# --------
# For a distribution q over codes: the expected error of the decoded picture, plus the
# distance of q from the uniform distribution of the codes. All in nats.


class Autoencoder(nn.Module):
    def __init__(self, size=64):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Linear(64, size), nn.ReLU(), nn.Linear(size, N_BITS)
        )
        self.decode = nn.Sequential(
            nn.Linear(N_BITS, size), nn.ReLU(), nn.Linear(size, 64)
        )

    def error(self, codes, pictures):
        """Return the cross-entropy of the decoded pixels, for each code."""
        pixels = self.decode(2.0 * codes - 1.0)
        return (nn.functional.softplus(pixels) - pixels * pictures).sum(-1)


def expected_bits(p):
    """Return the distance of independent bits from uniform ones."""
    entropy = -(torch.xlogy(p, p) + torch.xlogy(1 - p, 1 - p)).sum(-1)
    return N_BITS * np.log(2.0) - entropy


def few_codes(model, pictures):
    """Return the codes with a probability; a bit with a score of 1/2 is even."""
    return sparsemap(Subset(), model.encode(pictures) + 0.5, return_structures=True)


def by_sparsemap(model, pictures):
    """Return the exact expected loss of each picture, a sum over few codes."""
    found = few_codes(model, pictures)
    sizes = torch.tensor([len(codes) for codes in found.structures])
    codes = np.concatenate([np.stack(codes) for codes in found.structures])
    weights = torch.cat(list(found.weights)).float()
    which = torch.repeat_interleave(torch.arange(len(pictures)), sizes)
    errors = model.error(torch.tensor(codes, dtype=torch.float32), pictures[which])
    terms = weights * errors + torch.xlogy(weights, weights)
    total = torch.zeros(len(pictures)).index_add(0, which, terms)
    return total + N_BITS * np.log(2.0)


def by_score_function(model, pictures):
    """Return a loss whose gradient is the score-function estimate, from two samples.

    Each sample is the baseline of the other.
    """
    logits = model.encode(pictures)
    codes = torch.bernoulli(torch.sigmoid(logits).expand(2, -1, -1).detach())
    errors = model.error(codes, pictures)
    log_q = -nn.functional.binary_cross_entropy_with_logits(
        logits.expand(2, -1, -1), codes, reduction="none"
    ).sum(-1)
    advantage = (errors - errors.flip(0)).detach()
    signal = (advantage * log_q).mean(0)
    return errors.mean(0) + signal - signal.detach() + expected_bits(logits.sigmoid())


def by_gumbel(model, pictures, temperature=0.5):
    """Return the loss of a straight-through sample: bits ahead, relaxed bits back."""
    logits = model.encode(pictures)
    noise = torch.rand_like(logits).clamp(1e-6, 1 - 1e-6).logit()
    soft = torch.sigmoid((logits + noise) / temperature)
    codes = (soft > 0.5).float() + soft - soft.detach()
    return model.error(codes, pictures) + expected_bits(logits.sigmoid())


def by_enumeration(model, pictures):
    """Return the exact expected loss of independent bits, over all codes."""
    logits = model.encode(pictures)
    log_q = nn.functional.logsigmoid(logits) @ ALL_CODES.T
    log_q = log_q + nn.functional.logsigmoid(-logits) @ (1 - ALL_CODES).T
    errors = model.error(ALL_CODES[:, None], pictures).T
    return (log_q.exp() * (errors + log_q)).sum(1) + N_BITS * np.log(2.0)


# %%
# Training
# --------
# The loss on test pictures is exact for all: by the few codes of SparseMAP, and for the
# others by all 256 codes. These are also a way to train, but 20 bits would have a
# million codes, and SparseMAP at most 21 with a probability. The variance is that of
# the gradient of the encoder on one batch, over repeated draws, divided by the squared
# norm of the mean gradient. Without sampling it is zero.
#
# In this small problem, noise does little harm: after as many steps, samples reach a
# lower loss than SparseMAP, whose distributions over few codes are further from
# uniform.

ESTIMATORS = {
    "SparseMAP, exact": (by_sparsemap, by_sparsemap),
    "score function": (by_score_function, by_enumeration),
    "Gumbel, straight-through": (by_gumbel, by_enumeration),
    "all 256 codes, exact": (by_enumeration, by_enumeration),
}


def gradient(model, estimate, batch):
    loss = estimate(model, batch).mean()
    found = torch.autograd.grad(loss, model.encode.parameters())
    return torch.cat([g.ravel() for g in found])


def relative_variance(model, estimate, batch, n_draws=40):
    drawn = torch.stack([gradient(model, estimate, batch) for _ in range(n_draws)])
    mean = drawn.mean(0)
    return float(((drawn - mean) ** 2).sum(1).mean() / (mean**2).sum())


curves, models = {}, {}
for name, (estimate, evaluate) in ESTIMATORS.items():
    torch.manual_seed(0)
    model = models[name] = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    curve = []
    for step in range(N_STEPS + 1):
        if step % 25 == 0:
            with torch.no_grad():
                curve.append(float(evaluate(model, test).mean()))
        if step == N_STEPS // 5:
            variance = relative_variance(model, estimate, train[:64])
        loss = estimate(model, train[torch.randint(len(train), (64,))]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    curves[name] = curve
    print(f"{name:25} test loss {curve[-1]:.2f}, variance {variance:.4f}")

with torch.no_grad():
    found = few_codes(models["SparseMAP, exact"], test)
sizes = [len(codes) for codes in found.structures]
print(f"codes with a probability: {np.mean(sizes):.1f} of 256 on average")

# %%
# The picture
# -----------
# Test loss by step, and pictures with what SparseMAP's most probable code says of them.

INK = "#222222"
figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 3.6), width_ratios=(1, 1.3), layout="constrained"
)
for (name, curve), style in zip(curves.items(), ("-", "--", ":", "-.")):
    left.plot(25 * np.arange(len(curve)), curve, style, label=name)
left.set(xlabel="step", ylabel="loss of test pictures (nats)")
left.legend(frameon=False)
left.spines[["top", "right"]].set_visible(False)
best = torch.tensor(np.array([codes[0] for codes in found.structures[:10]]))
with torch.no_grad():
    decoded = models["SparseMAP, exact"].decode(2.0 * best.float() - 1.0).sigmoid()
rows = [np.hstack(images.reshape(-1, 8, 8).numpy()) for images in (test[:10], decoded)]
right.imshow(np.vstack(rows), cmap="gray_r", vmin=0, vmax=1)
for place, code in enumerate(best.int().tolist()):
    right.text(8 * place + 3.5, 17, "".join(map(str, code)), ha="center", fontsize=7)
right.set_title("pictures, as decoded, and their codes", color=INK, fontsize=10)
right.axis("off")

plt.show()
