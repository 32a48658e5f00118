"""The phases of `GroupLassoPerceptron`: selecting groups, and re-learning the weights of the selected groups."""
