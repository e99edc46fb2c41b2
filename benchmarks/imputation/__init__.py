"""Imputation beside the peers: cells of real tables are hidden, filled and compared."""
