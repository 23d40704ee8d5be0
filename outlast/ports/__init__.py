"""What the shell needs from the outside world, as protocols; adapters implement them."""
