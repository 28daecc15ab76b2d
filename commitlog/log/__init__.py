"""An open log: opened, appended to, taken over after a fork, closed."""
