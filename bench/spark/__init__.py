"""The Spark source and sink beside uncompressed Parquet, against their goals."""
