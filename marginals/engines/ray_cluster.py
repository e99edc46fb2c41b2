"""Join a Ray cluster, or start one on this machine."""

import importlib
import logging
from typing import Any


def join_cluster(address: str | None = None) -> tuple[Any, int, int]:
    """Return Ray, and the numbers of CPUs and GPUs of the cluster.

    Args:
        address: of the cluster; None joins that of RAY_ADDRESS, or starts one on this machine.
    """
    ray = _ray_module()
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    resources = ray.cluster_resources()
    cpus, gpus = (int(resources.get(kind, 0)) for kind in ("CPU", "GPU"))
    return ray, cpus, gpus


def _ray_module() -> Any:
    try:
        importlib.import_module("ray.data")
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise ImportError(
            "Expected Ray to be installed for --engine ray; it is not. Run: pip install "
            "'marginals[ray]'."
        ) from error
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    return ray
