"""The golden record: results on fixed tables, stored before a change and compared after it."""
