"""Clients of the service, and the document that they are made from."""
