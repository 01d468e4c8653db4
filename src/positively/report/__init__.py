"""Reports: figures, tables and one self-contained HTML page. Import what is needed from its modules."""
