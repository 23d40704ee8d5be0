"""Deliveries over HTTP: signed URLs of waits, and webhooks whose signatures are verified."""

from outlast.edges import lazy

lazy.attach(__name__)
