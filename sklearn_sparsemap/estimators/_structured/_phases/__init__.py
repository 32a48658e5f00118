"""The phases of `GroupLassoPerceptron`: selecting groups, and learning the weights of those selected anew."""
