"""What an open does before anything is exposed: finds the log's end, settles what is in doubt,
makes the rest durable.
"""

from commitlog.recovery.recovered import Recovered
from commitlog.recovery.recovery import recover

__all__ = ["Recovered", "recover"]
