"""Backups: complete, consistent copies of logs, made while they are written."""
