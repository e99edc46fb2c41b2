"""Fused kernels of the hot loops, with the plain form of each and the choice between them.

- `leaves`: the log values of the paper's leaves; `leaves_plain` (any device and dtype) and
  `leaves_triton` (float32 on CUDA).
- `inversion`: draws from leaves that are chosen cell by cell; plain in `leaves/neural.py` and
  `inversion_triton`.
- `tree`: the contraction of a hierarchical tensor; plain in `tensors/hierarchical.py` (any device
  and dtype) and `tree_triton` (float32 on CUDA).
- `choice`: which is used; `products`: the precision of matrix products in training.

Every fused kernel is compared with the plain form in float64 in `tests/kernels`, where Triton's
interpreter runs it on a CPU.
"""

from marginals.kernels.choice import fused, use_fused
from marginals.kernels.products import Precision, product, products

__all__ = ["Precision", "fused", "product", "products", "use_fused"]
