"""Held-out likelihood: the scoreboard, the paper's table, and sweeps over single models."""

from studies.likelihood import paper_table, scoreboard, sweeps

STUDIES = (scoreboard.STUDY, paper_table.STUDY, sweeps.STARTS, sweeps.MEMBERS)
