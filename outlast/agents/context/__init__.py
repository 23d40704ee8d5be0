"""The run's context, which every user callable receives, and its conversion to JSON and back."""
