"""Internal. Starts runs and resumes them."""
