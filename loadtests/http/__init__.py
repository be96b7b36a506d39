"""The service under load, with real parts and on loopback only.

processes    one process of a fleet: start, wait until it answers, stop, kill
fleet        replicas of the service, nginx in front of them, Prometheus beside them
models       made-up models in two versions
connection   a keep-alive HTTP/1.1 client that costs little enough not to be what is measured
traffic      which requests are sent: users, budgets and their shares
capacity     the most that one worker can do, and its memory
open_loop    requests on a fixed timetable, latencies counted from the timetable
locustfile   the same traffic from locust's closed-loop users: steady, ramp, burst, reload, kill
dashboard    the Grafana dashboard's queries
wall         a picture of the dashboard, made from them
report       one HTML page from what was measured

`python -m loadtests.http` (that is `make loadtest`) runs the whole set.
"""
