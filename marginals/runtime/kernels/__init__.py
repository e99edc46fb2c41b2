"""Kernels of the hot loops, each with its own backward pass.

    loop               Triton on CUDA            hand-written for CPU training   plain reference
    leaf log values    leaf_values_triton        leaf_values_cpu          leaves/neural.py
    tree contraction   tree_contraction_triton   tree_contraction_cpu     tensors/hierarchical.py
    leaf inversion     leaf_inversion_triton     -                        leaves/neural.py

The plain reference is differentiated by autograd. The `*_cpu` modules write the backward pass by
hand in tensor operations, which saves memory and time in a training step. `leaf_values`,
`tree_contraction` and `leaf_inversion` make the kernels callable. `tests/runtime` compares every
kernel with the reference in float64, in Triton's interpreter where there is no GPU.
"""
