/** Any failure of a call that is not an abort by the caller. */
export class BudgetrecError extends Error {
  override name = "BudgetrecError";
}

/** No answer came, on any attempt. */
export class Unreachable extends BudgetrecError {
  override name = "Unreachable";
}

/** The time of the call was used up. */
export class DeadlineExceeded extends BudgetrecError {
  override name = "DeadlineExceeded";
}

/** The service answered with an error. `code` is for programs and never changes. */
export class ApiError extends BudgetrecError {
  override name = "ApiError";

  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
    readonly requestId: string | null,
  ) {
    super(`${status} ${code}: ${message} ${hint}`.trimEnd());
  }
}
