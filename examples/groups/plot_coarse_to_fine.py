"""
Coarse to fine: details only where they are needed
==================================================

A template looks at the word, at the part of speech, or at nothing, for each of three neighbouring tokens. This makes
26 templates with an order: one template is coarser than another if the other sees everything it sees. With a
`GroupOrder` a template is selected only together with all coarser ones, so that a rare combination of words has
something to fall back on.
"""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np

from sklearn_sparsemap import GroupLassoPerceptron
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.penalties import GroupOrder
from sklearn_sparsemap.plotting import GroupOrderDisplay

# %%
# A language with exceptions
# --------------------------
# The label of a word follows from its own part of speech and that of the previous word. But every third word has labels
# of its own, one after each part of speech. In 5 places of 100 the label is random.

LABELS, POS, N_WORDS = np.array(list("ABCDE")), np.array(list("NVJPR")), 600
rng = np.random.default_rng(1)
words = np.array([f"w{i}" for i in range(N_WORDS)])
pos_of_word = rng.integers(len(POS), size=N_WORDS)
frequency = 1.0 / np.arange(1, N_WORDS + 1)
frequency /= frequency.sum()
# The last row is for the beginning of a sentence.
by_pos = rng.integers(len(LABELS), size=(len(POS) + 1, len(POS)))
by_word = by_pos[:, pos_of_word].copy()
exceptions = rng.random(N_WORDS) < 1 / 3
by_word[:, exceptions] = rng.integers(
    len(LABELS), size=(len(POS) + 1, exceptions.sum())
)


def draw_sentences(n):
    """Return the tokens and the labels of n sentences, as two lists."""
    X, y = [], []
    for _ in range(n):
        chosen = rng.choice(N_WORDS, size=rng.integers(4, 12), p=frequency)
        pos = pos_of_word[chosen]
        labels = by_word[np.concatenate([[len(POS)], pos[:-1]]), chosen]
        is_wrong = rng.random(len(labels)) < 0.05
        labels = np.where(is_wrong, rng.integers(len(LABELS), size=len(labels)), labels)
        X.append(
            [{"word": str(w), "pos": str(p)} for w, p in zip(words[chosen], POS[pos])]
        )
        y.append(LABELS[labels].tolist())
    return X, y


X, y = draw_sentences(500)
X_test, y_test = draw_sentences(500)

# %%
# All templates, and their order
# ------------------------------

templates = [
    "|".join(f"{field}[{offset}]" for field, offset in zip(fields, (-1, 0, 1)) if field)
    for fields in product((None, "pos", "word"), repeat=3)
    if any(fields)
]
vectorizer = TemplateVectorizer(templates)
features, features_test = vectorizer.fit_transform(X), vectorizer.transform(X_test)
order = GroupOrder.from_templates(vectorizer.templates_)
print(
    f"{order}\n{len(order.covers)} edges, {order.levels.max() + 1} levels, "
    f"{features.values.shape[1]:,} features.\n"
)

# %%
# The same budgets, with and without the order
# --------------------------------------------
# In an order, the group of a template holds the features of all finer ones, too. It weighs as much as the template
# alone would: by the size of the whole group the coarsest would be the dearest, and all that is finer die with it.

models = {}
print(f"{'':6}  {'templates by themselves':^42}  {'coarse to fine':^42}")
print(
    f"{'budget':>6}"
    + f"  {'selected':>10}{'closed':>9}{'weights':>11}{'accuracy':>12}" * 2
)
for budget in (1, 2, 3, 4, 5, 7, 10, 20):
    line = f"{budget:6}"
    for kind, groups in (("flat", "templates"), ("ordered", order)):
        model = GroupLassoPerceptron(
            "chain",
            groups=groups,
            group_weights="log2",
            budget=budget,
            shrink_every=200,
            random_state=0,
        ).fit(features, y)
        models[kind, budget] = model
        selected = np.isin(np.arange(order.n_groups), model.selected_groups_)
        # Is all that is coarser than a selected template selected?
        closed = (
            "no" if (order.precedes & ~selected[:, None] & selected).any() else "yes"
        )
        accuracy = model.score(features_test, y_test)
        n_weights = model.n_nonzero_coefs_
        line += f"  {selected.sum():10}{closed:>9}{n_weights:11,}{accuracy:12.3f}"
    print(line)

# %%
# The pictures
# ------------
# Coarse to fine, the model has just the template that the exceptions need, ``pos[-1]|word[0]``, and all that are
# coarser. By themselves, templates are selected whether or not coarser ones are. With fewer than five the order costs
# accuracy: the way to the exceptions is longer. With five or more there is little between the two.

BUDGET = 5
figure, axes = plt.subplots(2, 1, figsize=(10, 5.9), facecolor="white")
figure.subplots_adjust(left=0.02, right=0.98, top=0.94, bottom=0.06, hspace=0.28)
for ax, (kind, title) in zip(
    axes, (("flat", "Templates by themselves"), ("ordered", "Coarse to fine"))
):
    GroupOrderDisplay.from_estimator(models[kind, BUDGET], order, ax=ax)
    ax.set_title(f"{title}, with a budget of {BUDGET}", fontsize=12)
plt.show()
