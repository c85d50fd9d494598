"""More than one process: players as Ray actors, learners over ranks; the one door to each."""
