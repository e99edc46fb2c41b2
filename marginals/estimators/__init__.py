"""scikit-learn estimators: the joint of a table, and what it is used for."""
