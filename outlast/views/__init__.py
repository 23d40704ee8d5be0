"""Internal. What people see of a run, derived once for every surface."""
