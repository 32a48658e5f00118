"""The common part of the layers in PyTorch and JAX, in NumPy: padded batches in, marginals and Jacobian products out.

Data are copied in these cases, all in one call:

- into float64 on the CPU, unless they are that already (the packages of the layers);
- from a padded array into the flat array of all samples, if any sample is shorter than the array (`padding`);
- additional scores that all samples share are stored once; those of each sample are joined;
- marginals, and products with the Jacobian, back into padded arrays, if any sample is shorter; else they are views;
- into the dtype and to the device of the input, if these differ.
"""
