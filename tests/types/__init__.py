"""What type checkers say of flows: right ones pass, wrong ones are told."""
