"""Tools: functions of the program, tools of the provider, and what their results lead to."""
