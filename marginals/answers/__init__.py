"""Every question about a table by column name, for the estimator and for its views."""

from marginals.answers.copulas import TableCopula
from marginals.answers.table_density import TableDensity, TableView
from marginals.answers.tester import IndependenceTester

__all__ = ["IndependenceTester", "TableCopula", "TableDensity", "TableView"]
