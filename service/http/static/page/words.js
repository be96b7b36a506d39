// Numbers as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** 12,345 */
export const count = (number) => whole.format(number);

/** A share between 0 and 1 with three digits; 1.000 only if it is that. */
export const share = (number) => (number < 1 ? Math.min(number, 0.999) : number).toFixed(3);

/** Microseconds in the unit that suits them: 83 µs, 1.2 ms, 3 s. */
export function duration(microseconds) {
  if (microseconds < 1000) return `${microseconds < 10 ? microseconds.toFixed(1) : Math.round(microseconds)} µs`;
  const milliseconds = microseconds / 1000;
  if (milliseconds < 1000) return `${milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
  return `${(milliseconds / 1000).toFixed(1)} s`;
}

/** "1 item", "2 items" */
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** A moment in ISO 8601 as a date and a time of this place. */
export function moment(text) {
  const time = new Date(text);
  if (!text || Number.isNaN(time.getTime())) return "unknown";
  return time.toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
}
