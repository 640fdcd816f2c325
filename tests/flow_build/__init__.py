"""What a flow may be told when it is built, its names, its pictures, and what is not to be refused."""
