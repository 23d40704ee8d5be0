"""Internal. Signs of life: what the server has to hear of an attempt, even while its loop is blocked."""
