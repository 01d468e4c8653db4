"""Research: methods of other papers, benchmarks, recipes and simulation. Imports only what other rooms export."""
