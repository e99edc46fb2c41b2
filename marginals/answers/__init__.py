"""Every question about a table by column name, for the estimator and for its views."""

from marginals.answers.table_density import TableDensity, TableView

__all__ = ["TableDensity", "TableView"]
