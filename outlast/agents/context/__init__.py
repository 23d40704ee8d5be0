"""What every callable of a program is given: the run's context, and how it is stored as JSON."""
