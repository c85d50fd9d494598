"""Forward passes of transformers models, shared by engines and learner."""
