"""Fused kernels of the hot loops, with the plain form of each and the choice between them.

- `leaves`: the log values of the paper's leaves, by `leaves_triton` (float32 on CUDA) or, in
  training, by `leaves_plain`; the form that autograd differentiates is in `leaves/neural.py`.
- `tree`: the contraction of a hierarchical tensor, by `tree_triton` (float32 on CUDA) or, in
  training, by `tree_plain`; the form that autograd differentiates is in `tensors/hierarchical.py`.
- `inversion`: draws from leaves that are chosen cell by cell, by `inversion_triton`; plain in
  `leaves/neural.py`.
- `choice`: whether Triton is used; `compiled`: when the plain kernels of a fit are compiled;
  `products`: training steps and the precision of their matrix products.

Every fused kernel is compared with the plain form in float64 in `tests/runtime`, where Triton's
interpreter runs it on a CPU.
"""

from marginals.runtime.kernels.choice import fused, use_fused
from marginals.runtime.kernels.products import Precision, precision_in_training, product, training

__all__ = [
    "Precision",
    "fused",
    "precision_in_training",
    "product",
    "training",
    "use_fused",
]
