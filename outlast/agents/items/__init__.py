"""Internal. The items of a run and the events of its stream, as programs read them."""
