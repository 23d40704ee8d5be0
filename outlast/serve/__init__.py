"""Internal. The desk: what people and other programs see of runs over HTTP."""
