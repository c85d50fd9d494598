"""Episodes are played by Ray actors; the learner sends them new weights."""
