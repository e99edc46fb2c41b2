"""How fast the library is: steps, queries, fits and how they scale, beside the authors' code."""
