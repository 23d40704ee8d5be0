"""Notifiers (webhooks, Slack, mail), and the receivers of people's answers.

The names are in `__init__.pyi` and loaded when first used. A program passes notifiers to its
workers; the parts that receive answers run wherever the program serves HTTP.
"""

from outlast.edges import lazy

lazy.attach(__name__)
