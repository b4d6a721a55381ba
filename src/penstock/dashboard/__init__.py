"""The dashboard: what goes on in the queues, in a browser, and what an operator can do about it.

`penstock dashboard` runs it.  Pages are rendered here and kept current by server-sent events; one
poller on one connection feeds every browser.
"""
