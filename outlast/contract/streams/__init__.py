"""Internal. The output of model calls in progress: what workers send and readers assemble."""
