"""
Ambiguous sentences
===================

"She saw the man with the telescope": who has the telescope? Both readings are grammatical. A parser that returns only
the best tree hides this. SparseMAP returns *a few trees with their probabilities*, and shows where they differ. This
is Figure 3 of the SparseMAP paper.

The treebank has 32 short sentences, in which prepositional phrases belong to a verb ("ate pizza with a fork") or to a
noun ("ate pizza with cheese").
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.features import ArcVectorizer
from sklearn_sparsemap.plotting import TreeDisplay
from sklearn_sparsemap.structures import DependencyTree

# %%
# A treebank
# ----------
# A token is written as word/part of speech/head, where words count from 1 and 0 is the root. A preposition is the head
# of its noun.

TREEBANK = """
she/PRON/2 ate/VERB/0 pizza/NOUN/2 with/ADP/2 a/DET/6 fork/NOUN/4
she/PRON/2 ate/VERB/0 pizza/NOUN/2 with/ADP/3 cheese/NOUN/4
he/PRON/2 cut/VERB/0 the/DET/4 bread/NOUN/2 with/ADP/2 a/DET/7 knife/NOUN/5
he/PRON/2 bought/VERB/0 a/DET/4 bread/NOUN/2 with/ADP/4 seeds/NOUN/5
they/PRON/2 watched/VERB/0 the/DET/4 stars/NOUN/2 with/ADP/2 a/DET/7 telescope/NOUN/5
they/PRON/2 fed/VERB/0 a/DET/4 bird/NOUN/2 with/ADP/4 red/ADJ/7 feathers/NOUN/5
we/PRON/2 met/VERB/0 a/DET/4 man/NOUN/2 with/ADP/4 a/DET/7 beard/NOUN/5
we/PRON/2 opened/VERB/0 the/DET/4 box/NOUN/2 with/ADP/2 a/DET/7 key/NOUN/5
the/DET/2 girl/NOUN/3 played/VERB/0 in/ADP/3 the/DET/6 garden/NOUN/4
the/DET/2 dog/NOUN/6 in/ADP/2 the/DET/5 park/NOUN/3 barked/VERB/0
the/DET/2 book/NOUN/6 on/ADP/2 the/DET/5 table/NOUN/3 fell/VERB/0
an/DET/3 old/ADJ/3 man/NOUN/4 slept/VERB/0 on/ADP/4 the/DET/7 train/NOUN/5
she/PRON/2 put/VERB/0 the/DET/4 cup/NOUN/2 on/ADP/2 the/DET/7 table/NOUN/5
she/PRON/2 read/VERB/0 a/DET/4 book/NOUN/2 about/ADP/4 birds/NOUN/5
they/PRON/2 talked/VERB/0 about/ADP/2 the/DET/5 weather/NOUN/3
the/DET/2 man/NOUN/6 with/ADP/2 the/DET/5 hat/NOUN/3 laughed/VERB/0
he/PRON/2 painted/VERB/0 the/DET/4 door/NOUN/2 with/ADP/2 a/DET/7 brush/NOUN/5
I/PRON/2 like/VERB/0 the/DET/4 house/NOUN/2 with/ADP/4 the/DET/8 green/ADJ/8 door/NOUN/5
I/PRON/2 found/VERB/0 a/DET/4 coin/NOUN/2 in/ADP/2 the/DET/7 street/NOUN/5
the/DET/2 trees/NOUN/6 in/ADP/2 the/DET/5 garden/NOUN/3 grow/VERB/0
we/PRON/2 saw/VERB/0 a/DET/4 film/NOUN/2 about/ADP/4 the/DET/7 war/NOUN/5
she/PRON/2 saw/VERB/0 him/PRON/2 on/ADP/2 Monday/NOUN/4
he/PRON/2 wore/VERB/0 a/DET/4 coat/NOUN/2 in/ADP/2 the/DET/7 winter/NOUN/5
he/PRON/2 knows/VERB/0 the/DET/4 girl/NOUN/2 in/ADP/4 the/DET/8 red/ADJ/8 coat/NOUN/5
the/DET/2 children/NOUN/3 drew/VERB/0 a/DET/5 house/NOUN/3 with/ADP/3 crayons/NOUN/6
the/DET/2 children/NOUN/3 drew/VERB/0 a/DET/5 house/NOUN/3 with/ADP/5 \
two/NUM/8 windows/NOUN/6
the/DET/2 people/NOUN/6 on/ADP/2 the/DET/5 train/NOUN/3 complained/VERB/0 \
about/ADP/6 the/DET/9 delay/NOUN/7
they/PRON/2 discussed/VERB/0 the/DET/4 book/NOUN/2 on/ADP/2 the/DET/7 train/NOUN/5
a/DET/2 bird/NOUN/3 sang/VERB/0 in/ADP/3 the/DET/7 tall/ADJ/7 tree/NOUN/4
I/PRON/2 bought/VERB/0 the/DET/4 map/NOUN/2 of/ADP/4 the/DET/7 city/NOUN/5
the/DET/2 end/NOUN/6 of/ADP/2 the/DET/5 film/NOUN/3 surprised/VERB/0 us/PRON/6
he/PRON/2 hid/VERB/0 the/DET/4 key/NOUN/2 under/ADP/2 the/DET/7 mat/NOUN/5
"""
NEW = """
she/PRON saw/VERB the/DET man/NOUN with/ADP the/DET telescope/NOUN
I/PRON shot/VERB an/DET elephant/NOUN in/ADP my/DET pajamas/NOUN
they/PRON discussed/VERB a/DET film/NOUN about/ADP the/DET dog/NOUN \
on/ADP the/DET train/NOUN
he/PRON met/VERB the/DET girl/NOUN in/ADP the/DET park/NOUN with/ADP a/DET camera/NOUN
"""


def read(text):
    """Return sentences as lists of dicts, and the heads of their words, where
    they are given.
    """
    sentences, heads = [], []
    for line in text.split("\n"):
        if line:
            tokens = [token.split("/") for token in line.split()]
            sentences.append([{"word": word, "pos": pos} for word, pos, *_ in tokens])
            heads.append(
                np.array([int(head) for _, _, *given in tokens for head in given])
            )
    return sentences, heads


sentences, heads = read(TREEBANK)
new, _ = read(NEW)

# %%
# Learn
# -----
# `ArcVectorizer` makes a row of features for each possible arc: here, which parts of speech and which words it joins,
# in which direction, how far apart, and what follows the preposition. The loss asks for right trees to be ahead by a
# margin that grows with the number of wrong heads.

vectorizer = ArcVectorizer(
    [
        "head.pos[0]|mod.pos[0]|direction",
        "head.pos[0]|mod.pos[0]|direction|distance",
        "head.pos[0]|between.pos|mod.pos[0]",
        "head.pos[-1]|head.pos[0]|mod.pos[0]|direction",
        "head.pos[0]|mod.pos[-1]|mod.pos[0]|direction",
        "head.pos[0]|mod.pos[0]|mod.pos[+1]|direction",
        "head.word[0]|mod.word[0]",
        "head.pos[0]|mod.pos[0]|mod.word[+1]",
        "head.pos[0]|mod.pos[0]|mod.word[+2]",
    ]
)
X = vectorizer.fit_transform(sentences)
tree = DependencyTree(projective=True, single_root=True)
model = StructuredSparseMAPClassifier(tree, loss="margin_sparsemap", alpha=0.02)
start = perf_counter()
model.fit(X, heads)
print(f"Trained on {len(X)} sentences in {perf_counter() - start:.1f} s; ", end="")
print(f"{model.score(X, heads):.1%} of their heads are correct.\n")

# %%
# Read new sentences
# ------------------

X_new = vectorizer.transform(new)
for sentence, trees in zip(new, model.predict_structures(X_new)):
    print(" ".join(token["word"] for token in sentence))
    for tree, probability in trees:
        attached = [
            f"{token['word']} <- {sentence[head - 1]['word']}"
            for token, head in zip(sentence, tree)
            if token["pos"] == "ADP"
        ]
        print(f"  {probability:.2f}  {', '.join(attached)}")

# %%
# The picture
# -----------
# Arcs of all trees are black. The width of the other arcs is their probability.

figure, axes = plt.subplots(
    2,
    2,
    figsize=(10.6, 3.9),
    gridspec_kw={"width_ratios": (7, 11), "height_ratios": (5, 6)},
)
figure.subplots_adjust(
    left=0.01, right=0.99, top=0.98, bottom=0.01, wspace=0.02, hspace=0.04
)
for ax, x, sentence in zip(axes.T.flat, X_new, new):
    TreeDisplay.from_estimator(
        model, x, words=[token["word"] for token in sentence], ax=ax
    )

plt.show()
