"""Section 5 of the paper, run again: `python -m loadtests.index.paper`, or `make paper`.

    plan.py       which data, which methods and knobs, which panel of which figure; three sizes of run
    curves.py     the methods behind one interface: ours from greedy_core, the others from loadtests.index.baselines
    measure.py    truth, quality and time of one setting
    results.py    measured settings, cached under .cache/paper so that a run can stop and go on
    figures.py    figures 3 to 6, PNG and SVG, with a CSV behind each
    claims.py     what the paper says about its figures, checked against ours
    summary.py    the page that says what agrees and what does not

Quality is the paper's prec@5 and prec@10 (a returned item counts if it is among the true top 20) and the strict
recall@10. Time is for one thread. Speed-ups are over the paper's kind of naive search (scalar double, full sort)
and over ours (`ExactIndex`).
"""
