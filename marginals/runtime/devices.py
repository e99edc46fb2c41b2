"""Devices by their names."""

import torch


def device_of(name: str | None) -> torch.device:
    """Return a device by its name; None is a GPU if there is one."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as cause:
        raise ValueError(
            f"Expected `device` to be 'cpu' or 'cuda', and torch to have it; got {name!r} "
            f"({str(cause).splitlines()[0]})."
        ) from None
