"""The report of one run. Import what is needed from its modules."""
