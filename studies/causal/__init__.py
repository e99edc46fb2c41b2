"""Causal graphs: the paper's table, and how long a search takes after one fit."""

from studies.causal import graphs, speed

STUDIES = (graphs.STUDY, speed.STUDY)
