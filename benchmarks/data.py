"""Where the real data are, and what to say if they are not there."""

import os
from pathlib import Path

import numpy as np
import torch


def data_folder(given: str | None) -> Path:
    """Return the folder named by `--data` or the environment variable MARGINALS_DATA."""
    name = given or os.environ.get("MARGINALS_DATA")
    if not name or not Path(name).is_dir():
        raise SystemExit(
            f"Expected the folder of data sets; got {name!r}. Give it with --data or in the "
            "environment variable MARGINALS_DATA."
        )
    return Path(name)


def load_density(folder: Path, name: str) -> dict[str, torch.Tensor]:
    """Load the parts train, val and test of one density data set, (N, D) float32."""
    path = folder / "density" / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"Expected the data set {path}; it is not there.")
    with np.load(path) as parts:
        return {part: torch.from_numpy(parts[part]) for part in parts.files}
