"""How the work is carried out: kernels, threads and memory."""
