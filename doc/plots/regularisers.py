"""Figure 1 of the structured-sparsity paper: five regularisers as Hasse diagrams of their groups."""

import matplotlib.pyplot as plt

from sklearn_sparsemap.penalties import GroupOrder
from sklearn_sparsemap.plotting import GroupOrderDisplay

FEATURES = ["1", "2", "3", "4"]
GROUPS = {"1, 2": ["1", "2"], "3, 4": ["3", "4"]}
TEMPLATES = ["pos[0]", "word[0]", "pos[-1]|pos[0]", "pos[-1]|word[0]", "word[-1]|word[0]"]
within = [(group, feature) for group, features in GROUPS.items() for feature in features]
orders = {
    "lasso": GroupOrder([], names=FEATURES),
    "group lasso": GroupOrder([], names=list(GROUPS)),
    "elastic net": GroupOrder([("1, 2, 3, 4", feature) for feature in FEATURES]),
    "sparse group lasso": GroupOrder(within),
    "coarse to fine": GroupOrder.from_templates(TEMPLATES),
}
figure, axes = plt.subplots(1, len(orders), figsize=(12, 2.2), width_ratios=(1, 1.2, 2.2, 2.2, 6), layout="constrained")
for ax, (name, order) in zip(axes, orders.items()):
    GroupOrderDisplay(order).plot(ax=ax)
    ax.set_title(name, fontsize=11, loc="left")
