"""Choose among many models: recipes, search, ensembles and folds."""
