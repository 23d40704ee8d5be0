"""Internal. Protocols that front ends speak already: a module for each."""
