"""Examples x method -> run: the engine, the run's record and the three doors to it."""
