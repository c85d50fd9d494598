"""How a transformers model is read, by engines and by the learner alike."""
