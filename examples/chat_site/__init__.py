"""A shop with a chat: its own login, and the customer's page of the desk."""
