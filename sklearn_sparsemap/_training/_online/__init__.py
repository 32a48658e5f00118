"""Online training, one sample at a time: step rules, stores of weights, and the loop over samples."""
