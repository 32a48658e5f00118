"""
Attention with heads and a padding mask
=======================================

Each row of attention is a mixture of sets of at most two words, and exactly zero for most words. The mask is the same
for all heads. Rows of padding, and the sentence without words, have zero attention and zero gradients.
"""

import torch

from sklearn_sparsemap.structures import Subset
from sklearn_sparsemap.torch import SparseMAP

torch.manual_seed(0)
n_words = torch.tensor([5, 3, 0])
words = torch.arange(5) < n_words[:, None]
queries, keys, values = torch.randn(3, 3, 4, 5, 8, requires_grad=True)
scores = queries @ keys.transpose(-1, -2) / 8**0.5
mask = words[:, None, :, None] & words[:, None, None, :]
attention = SparseMAP(Subset(max_size=2))(scores, mask=mask)
(attention @ values).square().sum().backward()
print("attention", tuple(attention.shape), "by sentence", attention.count_nonzero((1, 2, 3)).tolist())
