"""How fast training steps, queries and fits are; the least time that the machine allows."""

from studies.speed.run import STUDY

STUDIES = (STUDY,)
