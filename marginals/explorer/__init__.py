"""The explorer: a page and a notebook widget on which a column's evidence moves every marginal."""
