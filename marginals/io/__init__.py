"""Files: models, checkpoints and tables."""
