"""The learner runs in several processes (``torchrun``), with DDP or FSDP2."""
