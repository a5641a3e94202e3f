"""goblin under other libraries: one module each, which imports its library at its top. Nothing in goblin imports these."""
