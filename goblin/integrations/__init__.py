"""goblin under other libraries: one module each. It imports its library at its top; nothing in goblin imports it."""
