"""Whether a machine and a file system give what a log needs: `examine` runs every check, in `checks`, and yields a finding for each."""
