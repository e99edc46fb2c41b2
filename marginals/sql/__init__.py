"""Fitted models inside DuckDB: SQL functions of rows, and tables of draws and filled rows."""

from marginals.sql.duckdb_functions import register

__all__ = ["register"]
