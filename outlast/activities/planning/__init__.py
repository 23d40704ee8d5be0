"""Internal. The plan of a reply: which calls run, which ask people, and which are mistakes."""
