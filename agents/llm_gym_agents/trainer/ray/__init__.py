"""Ray actors play the episodes; the learner sends them new weights."""
