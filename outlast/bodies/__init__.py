"""Bounds of what others send: bytes, depth and values, counted before a parser reads them."""
