"""vLLM, in this process or its own."""
