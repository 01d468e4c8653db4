"""The review page: a table and its photos in, decisions of a person out. Import what is needed from its modules."""
