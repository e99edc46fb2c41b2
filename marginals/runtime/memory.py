"""How much a step may hold at a time."""

import torch

# Of the memory that a GPU has free; the rest is for what the count of floats leaves out, and for
# other fits beside this one.
_SHARE = 0.125
# A gigabyte keeps a large GPU busy; blocks much larger would leave its memory in pieces.
_MOST_ON_GPU = 1 << 28


def floats_at_once(device: torch.device, on_cpu: int) -> int:
    """Return how many floats a batch may hold: `on_cpu` there, else by what a GPU has free.

    On a CPU larger batches gain nothing once they fall out of the caches.

    >>> floats_at_once(torch.device("cpu"), 1 << 23)
    8388608
    """
    if device.type != "cuda":
        return on_cpu
    free, _ = torch.cuda.mem_get_info(device)
    # What torch holds for later use is free too.
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(on_cpu, min(_MOST_ON_GPU, int(_SHARE * (free + kept)) // 4))
