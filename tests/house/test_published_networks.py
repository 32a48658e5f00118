"""The networks of the benchmarks that train many at a time, compared with plain ones."""

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def parsing():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import published_parsing

        yield published_parsing
        for name in ("published_parsing", "results", "batches"):
            sys.modules.pop(name, None)


def plain_scores(parsing, weights, words, tags, n):
    """Return the scores of the arcs of one sentence by one network, with PyTorch's LSTM."""
    lstm = torch.nn.LSTM(parsing.WORD + parsing.TAG, parsing.UNITS, batch_first=True, bidirectional=True)
    with torch.no_grad():
        for k, suffix in enumerate(("", "_reverse")):
            getattr(lstm, f"weight_ih_l0{suffix}").copy_(weights["read"][k].T)
            getattr(lstm, f"weight_hh_l0{suffix}").copy_(weights["recur"][k].T)
            getattr(lstm, f"bias_ih_l0{suffix}").copy_(weights["bias"][k])
            getattr(lstm, f"bias_hh_l0{suffix}").zero_()
    states = lstm(torch.cat([words, tags], 1)[None, : n + 2])[0][0, 1:-1]
    scores = torch.zeros(n + 1, n)
    for head in range(n + 1):
        from_head = states[head - 1] @ weights["head"] if head else weights["root"]
        for word in range(n):
            hidden = torch.tanh(from_head + weights["shift"] + states[word] @ weights["modifier"])
            scores[head, word] = hidden @ weights["out"]
    return scores


def test_many_parsers_at_a_time_score_arcs_as_single_ones(parsing):
    torch.manual_seed(0)
    lengths = torch.tensor([3, 5, 1])
    single = [parsing.new_weights(9, 5, seed) for seed in (0, 1)]
    stacked = {name: torch.stack([own[name] for own in single]) for name in single[0]}
    words, tags = torch.randn(2, 3, 7, parsing.WORD), torch.randn(2, 3, 7, parsing.TAG)
    scores = parsing.arc_scores(stacked, words, tags, lengths)
    for m, weights in enumerate(single):
        for i, n in enumerate(lengths.tolist()):
            expected = plain_scores(parsing, weights, words[m, i], tags[m, i], n)
            torch.testing.assert_close(scores[m, i, : n + 1, :n], expected, rtol=1e-4, atol=1e-5)


def test_many_rates_at_a_time_take_the_steps_of_adam(parsing):
    rates, starts = (1e-2, 1e-1), torch.randn(2, 4, 3)
    plain = [start.clone().requires_grad_() for start in starts]
    optimizers = [torch.optim.Adam([own], rate) for own, rate in zip(plain, rates)]
    weights = {"own": starts.clone()}
    together = parsing.Adam(weights, torch.tensor(rates))
    for _ in range(3):
        used = {"own": weights["own"].clone().requires_grad_()}
        # Gradients of at most the norm at which they are clipped.
        used["own"].sin().sum().backward()
        with torch.no_grad():
            together.step(used, {})
        for own, optimizer in zip(plain, optimizers):
            optimizer.zero_grad()
            own.sin().sum().backward()
            optimizer.step()
    torch.testing.assert_close(weights["own"], torch.stack(plain).detach(), rtol=1e-4, atol=1e-6)


def test_the_published_attention_has_as_many_weights_as_published():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import nli
    options = type("Options", (), {"size": 64, "dropout": 0.2, "temperature": 1.0, "jobs": 1})
    network = nli.Decomposable("softmax", 10, options)
    layers = (network.attend, network.compare, network.decide)
    assert sum(own.numel() for layer in layers for own in layer.parameters()) == 130_803
    lengths, first = torch.tensor([[3, 2], [1, 2]]), torch.tensor([[2, 3, 4], [5, 0, 0]])
    scores, aligned = nli.ESIM("matching", 10, options)(first, torch.tensor([[6, 7], [8, 9]]), lengths)
    assert scores.shape == (2, 3) and 0.0 < float(aligned) <= 1.0 and np.isfinite(scores.detach().numpy()).all()
    sys.modules.pop("nli", None)
