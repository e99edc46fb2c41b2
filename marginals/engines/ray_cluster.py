"""Join a Ray cluster, or start one on this machine."""

import logging
from typing import Any

from marginals.runtime.extras import optional


def join_cluster(address: str | None = None) -> tuple[Any, int, int]:
    """Return Ray, and the numbers of CPUs and GPUs of the cluster.

    Args:
        address: of the cluster; None joins that of RAY_ADDRESS, or starts one on this machine.
    """
    ray = ray_module()
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    resources = ray.cluster_resources()
    cpus, gpus = (int(resources.get(kind, 0)) for kind in ("CPU", "GPU"))
    return ray, cpus, gpus


def ray_module() -> Any:
    """Import Ray."""
    optional("ray.data", "marginals[ray]")  # a plain Ray comes without its packages
    ray = optional("ray", "marginals[ray]")
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    return ray
