"""Tools: functions of the program, hosted tools of the provider, and the policy after their calls."""
