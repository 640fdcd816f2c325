"""The model machine: is everything legal tried, and nothing else?"""
