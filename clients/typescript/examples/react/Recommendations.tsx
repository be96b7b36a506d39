/**
 * Recommendations for a user, asked anew when the user or the budget changes. A question that nobody waits for any
 * more is aborted, so that a slider can be dragged without answers arriving out of order. Where no answer comes, the one
 * before stays: what the error says (`ApiError` has a code and a hint) is for the shop's log, not for its visitors.
 */
import { useEffect, useState } from "react";
import type { Client, Recommendation } from "budgetrec";

type State = { answer?: Recommendation; problem?: string };

export function useRecommendations(client: Client, userId: string, budget: number): State {
  const [state, setState] = useState<State>({});
  useEffect(() => {
    const leaving = new AbortController();
    client
      .recommend({ user_id: userId, budget, top_k: 10, deadline_ms: 200 }, { signal: leaving.signal })
      .then((answer) => setState({ answer }))
      .catch((error: unknown) => {
        if (leaving.signal.aborted) return;
        console.warn(error);
        setState((before) => ({ ...before, problem: "No new recommendations right now." }));
      });
    return () => leaving.abort();
  }, [client, userId, budget]);
  return state;
}

export function Recommendations({ client, userId }: { client: Client; userId: string }) {
  const [budget, setBudget] = useState(256);
  const { answer, problem } = useRecommendations(client, userId, budget);
  return (
    <section aria-label="Recommendations">
      <label>
        Budget: {budget} inner products
        <input
          type="range"
          min={1}
          max={4096}
          value={budget}
          onChange={(event) => setBudget(Number(event.target.value))}
        />
      </label>
      {problem !== undefined && <p role="alert">{problem}</p>}
      <ol>
        {answer?.items.map((item) => (
          <li key={item.item_id}>{item.title ?? item.item_id}</li>
        ))}
      </ol>
      {answer !== undefined && (
        <p>
          {answer.spent} of {answer.budget} spent{answer.complete ? ", exact" : ""}
        </p>
      )}
    </section>
  );
}
