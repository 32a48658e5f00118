"""
Which templates a language needs
================================

In this generated language the label of a word depends on a few fields in its neighbourhood. The model may choose a
few of 55 templates, and does not know which ones matter. The number of templates is chosen on held-out sentences. A
table lists the kinds of the selected templates, and a filter that ranks each template by itself serves as a
comparison.
"""

from collections import Counter
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline

from sklearn_sparsemap import GroupLassoPerceptron, perceptron_path, stability_selection
from sklearn_sparsemap.estimators import GroupPath
from sklearn_sparsemap.features import (
    InformationGainSelector,
    Template,
    TemplateVectorizer,
    ngrams,
)
from sklearn_sparsemap.plotting import GroupPathDisplay

# %%
# The language
# ------------
# A word is a stem with one of eight endings; stems have a part of speech. Five templates say something about the label
# of a word, each less than the one before: every value of a template votes for and against labels. The label with most
# votes wins, after some noise. There are 3,000 stems, most of them rare.

N_STEMS, LABELS, POS = 3000, np.array(list("ABCD")), np.array(list("NVJP"))
ENDINGS = np.array(["an", "en", "in", "on", "un", "as", "es", "is"])
TRUE = {
    "pos[-1]|suffix2[0]": 2.4,
    "pos[0]|pos[1]": 1.8,
    "suffix2[1]": 1.4,
    "pos[-2]": 1.0,
    "suffix2[-1]": 0.8,
}
rng = np.random.default_rng(0)
stems = np.array(
    ["".join(rng.choice(list("bdgklmnrst"), 2)) + f"{i:x}" for i in range(N_STEMS)]
)
pos_of_stem = rng.integers(len(POS), size=N_STEMS)
frequency = 1.0 / np.arange(1, N_STEMS + 1) ** 0.8
frequency /= frequency.sum()
# Beyond the ends of a sentence there is one more part of speech, and one more ending.
p, e = len(POS) + 1, len(ENDINGS) + 1
shapes = [(p, e), (p, p), (e,), (p,), (e,)]
votes = [
    size * rng.normal(size=(*shape, len(LABELS)))
    for size, shape in zip(TRUE.values(), shapes)
]


def draw_sentence():
    """Draw the tokens and labels of one sentence, and count how many labels are
    those with most votes before noise.
    """
    n = rng.integers(5, 15)
    chosen, end = (
        rng.choice(N_STEMS, size=n, p=frequency),
        rng.integers(len(ENDINGS), size=n),
    )
    # Two places beyond either end.
    pos = np.pad(pos_of_stem[chosen], 2, constant_values=len(POS))
    ends = np.pad(end, 2, constant_values=len(ENDINGS))
    at = np.arange(2, n + 2)
    places = [
        (pos[at - 1], ends[at]),
        (pos[at], pos[at + 1]),
        (ends[at + 1],),
        (pos[at - 2],),
        (ends[at - 1],),
    ]
    total = sum(vote[place] for vote, place in zip(votes, places))
    labels = (total + rng.gumbel(size=total.shape)).argmax(axis=1)
    tokens = [
        {"word": str(stems[s]) + str(ENDINGS[k]), "pos": str(POS[pos_of_stem[s]])}
        for s, k in zip(chosen, end)
    ]
    return tokens, LABELS[labels].tolist(), (labels == total.argmax(axis=1)).mean()


def draw_sentences(n):
    """Return the tokens and the labels of n sentences, and the best accuracy
    that is possible.
    """
    X, y, right = zip(*(draw_sentence() for _ in range(n)))
    return list(X), list(y), np.average(right, weights=[len(labels) for labels in y])


X, y, _ = draw_sentences(800)
X_val, y_val, ceiling = draw_sentences(600)

# %%
# The templates to choose from
# ----------------------------
# All n-grams of words, parts of speech, endings (the last two letters) and beginnings within two words, and the ending
# of the current word joined with the parts of speech around it.

templates = [
    *ngrams("pos", (1, 3), 2),
    *ngrams("word", (1, 2), 2),
    *ngrams("suffix2", (1, 2), 2),
    *ngrams("prefix2", (1, 2), 2),
    *ngrams("prefix3", (1, 2), 2),
    *(f"pos[{offset}]|suffix2[0]" for offset in range(-2, 3)),
    "pos[0]|word[0]",
    "pos[0]|word[-1]",
]
vectorizer = TemplateVectorizer(templates)
model = GroupLassoPerceptron(
    "chain", groups="templates", shrink_every=200, random_state=0
)
features, features_val = vectorizer.fit_transform(X), vectorizer.transform(X_val)
print(f"{len(templates)} templates, {features.values.shape[1]:,} features.\n")

# %%
# Paths
# -----
# Two ways to weigh groups, and the filter, which ranks templates by information gain.

budgets = [1, 2, 3, 4, 5, 8, 12, 20, 40]
start, paths = perf_counter(), {}
for weights in ("uniform", "log2"):
    each = make_pipeline(
        vectorizer,
        GroupLassoPerceptron(**{**model.get_params(), "group_weights": weights}),
    )
    paths[weights] = perceptron_path(
        each, X, y, budgets, X_val=X_val, y_val=y_val, n_jobs=2, return_estimators=True
    )
scores, n_weights, selected = [], [], []
for budget in budgets:
    selector = InformationGainSelector(budget)
    # The model keeps all templates that pass the filter.
    model.set_params(budget=budget).fit(selector.fit_transform(features, y), y)
    scores.append(model.score(selector.transform(features_val), y_val))
    n_weights.append(model.n_nonzero_coefs_)
    selected.append(selector.selected_groups_)
paths["information gain"] = GroupPath(
    budgets, np.array(scores), np.c_[scores], n_weights, selected, templates
)
full = model.set_params(budget=len(templates)).fit(features, y)
print(f"Fitted {3 * len(budgets) + 1} models in {perf_counter() - start:.1f} s.\n")
for name, path in paths.items():
    best = int(np.argmax(path.scores))
    print(
        f"{name:17} best with {path.budgets[best]:2} templates, "
        f"{path.n_nonzero_coefs[best]:7,} weights: "
        f"accuracy {path.scores[best]:.3f}"
    )
print(
    f"{'all templates':38} {full.n_nonzero_coefs_:7,} weights: accuracy "
    f"{full.score(features_val, y_val):.3f}"
)
print(f"{'The truth, without the noise':62}{ceiling:.3f}\n")

# %%
# The selected templates
# ----------------------
# The kinds of templates in the better path's best model, and how often they are selected from halves of the data.

path = max((paths["uniform"], paths["log2"]), key=lambda path: path.scores.max())
best = path.estimators[path.best_index]
vectorizer, selected_model = best.steps[0][1], best.steps[-1][1]


def kind_of(name):
    """Return the fields of a template, and how many it joins."""
    template = Template.parse(name)
    return " ".join(sorted(template.fields)), len(template.atoms)


offered = Counter(map(kind_of, vectorizer.template_names_))
names = [vectorizer.template_names_[g] for g in selected_model.selected_groups_]
chosen = Counter(map(kind_of, names))
print(f"{'fields':20} order  selected")
for (fields, order), n in offered.items():
    print(f"{fields:20} {order:5}  {chosen[fields, order]:2} of {n:2}")
weights = selected_model.coef_.tocoo()
norms = np.sqrt(np.bincount(vectorizer.groups_[weights.col], weights.data**2))
print(f"\n{'template':30}  norm")
for group in sorted(selected_model.selected_groups_, key=lambda group: -norms[group]):
    print(f"{vectorizer.template_names_[group]:30} {norms[group]:5.3g}")
print()
selected = path.selected_names(path.best_budget)
print(
    f"Of the five that matter, {len(set(selected) & set(TRUE))} are among the "
    f"{len(selected)} selected."
)
stability = stability_selection(best, X, y, n_resamples=20, random_state=0, n_jobs=2)
stable = stability.stable(0.9)
print(
    "Selected from at least nine of ten halves:",
    ", ".join(stability.names[g] for g in stable),
)

# %%
# The picture
# -----------
# With log2, which makes large groups pay, the accuracy rises until the five templates are there, close to what the
# truth itself would reach; more templates only add noise. With uniform weights large templates come in early: n-grams
# of words have thousands of features, whose weights have a large norm together although none of them says anything. The
# filter fails for a similar reason: any rare feature tells the labels that it was seen with.

display = GroupPathDisplay.from_path(
    paths,
    full=(full.n_nonzero_coefs_, full.score(features_val, y_val)),
    score_name="accuracy on held-out sentences",
)
display.figure_.suptitle(
    "Templates of a made-up language: accuracy by budget", fontsize=12
)
plt.show()
