"""Inputs on which programs are compared: what they are drawn from, and what a user says of them."""
