"""What people see of a run, derived once for every surface. Provisional: names may change before 1.0.

Records, and pure functions from a `RunSnapshot`: requests as rows, the customer's side, troubles and
their words.
"""

from outlast.edges import lazy

lazy.attach(__name__)
