"""Our models and their peers, each defined once for all studies."""
