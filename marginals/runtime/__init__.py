"""How computations run: the backend, its kernels, threads and memory."""
