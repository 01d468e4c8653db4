"""The paper's tables, run again: grids of trainings, one result a cell, and what is read off them."""
