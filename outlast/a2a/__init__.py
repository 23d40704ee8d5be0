"""Internal. Agent2Agent: the records of the protocol."""
