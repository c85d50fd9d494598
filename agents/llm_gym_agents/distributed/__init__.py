"""More than one process: ``ray/`` plays on actors, ``process_group`` learns over processes."""
