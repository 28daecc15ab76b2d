"""Manages the files in a log's directory."""
