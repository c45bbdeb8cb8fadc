"""One process holds a run; workers, here or on other machines, judge its examples."""
