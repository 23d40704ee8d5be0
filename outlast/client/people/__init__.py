"""Internal. Sends what people do in runs."""
