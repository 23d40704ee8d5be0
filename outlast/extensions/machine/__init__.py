"""Internal. Tools that work on a machine: a shell, patches of files, a computer's screen."""
