"""Tools: the command line, figures for operators, checks of a machine, and measurements."""
