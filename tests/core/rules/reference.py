"""A page under rules, as slowly and plainly as can be: what greedy_core/rules is compared with."""

import numpy as np


def page(
    items,
    ids,
    scores,
    *,
    caps=(),
    factors=None,
    diversity=0.0,
    pins=None,
    allowance=0,
    more=(),
    top_k=10,
    offset=0,
):
    """Return (ids, scores, spent) of the page.

    items    the vectors of all items
    caps     for each, (most, item -> its values)
    factors  item -> factor
    more     items that stand in, in their order
    """
    scores = np.array(
        [raised(score, 1.0 if factors is None else factors[j]) for j, score in zip(ids, scores, strict=True)]
    )
    order = sorted(range(len(ids)), key=lambda at: (-scores[at], ids[at]))
    candidates, scores = [int(ids[at]) for at in order], [float(scores[at]) for at in order]
    score_of = dict(zip(candidates, scores, strict=True))
    kept = {}
    taken = []
    for place, item in sorted((pins or {}).items()):
        if fits(item, taken, caps):
            kept[place] = item
            taken.append(item)
    left = [item for item in candidates if item not in (pins or {}).values()]
    ranking, spent, left_out = [], 0, False
    state = {"pool": [], "room": (allowance + 45) // 10, "known": {}, "ended": False, "squares": set()}
    while len(ranking) < offset + top_k:
        place = len(ranking) + 1
        if place in kept:
            ranking.append(kept.pop(place))
            continue
        if diversity and candidates:
            chosen, cost = next_diverse(
                items, left, score_of, scores[0], diversity, ranking, taken, caps, state, allowance - spent
            )
            spent += cost
        else:
            chosen = next((item for item in left if fits(item, taken, caps)), None)
        if chosen is None:
            left_out |= len(left) > 0
            standing = [j for j in more if j not in candidates and j not in (pins or {}).values() and j not in ranking]
            usable = left_out or not candidates
            chosen = next((j for j in standing if usable and fits(j, taken, caps)), None)
        if chosen is None and kept:
            ranking.append(kept.pop(min(kept)))
            continue
        if chosen is None:
            break
        if chosen in left:
            left.remove(chosen)
        ranking.append(chosen)
        taken.append(chosen)
    found = ranking[offset : offset + top_k]
    return found, [score_of.get(item) for item in found], spent


def raised(score, factor):
    return np.float32(float(score) * factor if score >= 0 else float(score) / factor)


def fits(item, taken, caps):
    return all(sum(value in values(other) for other in taken) < most for most, values in caps for value in values(item))


def cosine(items, a, b):
    lengths = np.linalg.norm(items[a].astype(np.float64)) * np.linalg.norm(items[b].astype(np.float64))
    return 0.0 if lengths == 0 else float(items[a].astype(np.float64) @ items[b].astype(np.float64)) / lengths


def next_diverse(items, left, score_of, best, strength, above, taken, caps, state, allowance):
    """Return the next item by maximal marginal relevance, and the products that this took.

    Whoever may be worth most is compared with all above it, until that one is known to be worth most.
    """
    scale = abs(best) or 1.0
    spent = 0

    def most(item):
        """What an item may be worth at most: by what it was compared with."""
        return (1 - strength) * score_of[item] / scale - strength * likeness(item)

    def likeness(item):
        return max([0.0, *(cosine(items, item, other) for other in state["known"].get(item, ()))])

    while not state["ended"]:
        pool = [item for item in state["pool"] if item in left and fits(item, taken, caps)]
        fresh = [item for item in left if item not in state["pool"] and fits(item, taken, caps)]
        # In the order of candidates, so that the first of equals is the best of them by score.
        open_ = pool + (fresh[:1] if state["room"] else [])
        if not open_:
            state["ended"] = True
            break
        item = min(open_, key=lambda j: (-most(j), left.index(j)))
        if item not in state["pool"]:
            state["pool"].append(item)
            state["room"] -= 1
        new = [other for other in above if other not in state["known"].get(item, ())]
        if not new:
            return item, spent
        cost = len(new) + len({item, *new} - state["squares"])
        if cost > allowance - spent:
            state["ended"] = True
            break
        spent += cost
        state["squares"] |= {item, *new}
        state["known"].setdefault(item, []).extend(new)
    return next((item for item in left if fits(item, taken, caps)), None), spent
