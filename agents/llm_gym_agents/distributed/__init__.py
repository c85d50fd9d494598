"""More than one process: ``ray/`` plays on actors, ``ranks/`` learns over processes."""
