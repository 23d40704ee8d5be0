"""Internal. Bounds what others send: bytes, depth and values are counted before they are parsed."""
