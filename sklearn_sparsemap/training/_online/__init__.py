"""Online training, sample after sample: step rules, stores of weights, and the loop over samples."""
