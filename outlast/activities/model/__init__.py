"""Internal. The input of a model call, its response, and its retries."""
