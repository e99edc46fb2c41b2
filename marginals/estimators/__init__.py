"""scikit-learn estimators: the joint distribution of a table, and uses of it."""
