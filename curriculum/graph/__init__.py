"""Syntax and call graphs of C and C++."""
