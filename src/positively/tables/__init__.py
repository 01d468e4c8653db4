"""Files to label tables and images."""
