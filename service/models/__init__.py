"""The model: loaded, checked, warmed up, and changed in all workers without a request noticing.

model      a bundle as the service uses it
loading    open, verify, warm up, weigh against the running model
agreement  which model all workers are to serve
keeper     follows the pointer and the agreement, and swaps between two requests
"""
