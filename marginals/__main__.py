"""Run the program as a module: `python -m marginals`, `torchrun -m marginals fit ...`."""

from marginals.cli import main

main()
