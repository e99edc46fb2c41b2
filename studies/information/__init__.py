"""Mutual information: the paper's Gaussian, what its training takes, and benchmark-mi."""

from studies.information import gaussian, tasks, training

STUDIES = (gaussian.STUDY, training.STUDY, tasks.STUDY)
