"""The golden record: what the product answers on fixed tables, stored before a change and compared after it."""
