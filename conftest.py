"""Kernels run on a CPU by Triton's interpreter, which must be asked for before they are made."""

import importlib.util
import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

if importlib.util.find_spec("triton") is None:
    collect_ignore_glob = ["marginals/runtime/kernels/*_triton.py"]
