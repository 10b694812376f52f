/**
 * The table of all errors that a client can see. A code has one `type`, one HTTP status and one meaning. The text of
 * `detail` is written by the code that raises the error, and says what the client can do about it. Source:
 * docs/compatibility/errors.md, "Errors".
 */

/** For each code: the HTTP status and the `type` in the body. */
export const ERROR_CODES = {
  invalid_payload: { status: 400, type: 'validation_error' },
  no_data: { status: 400, type: 'validation_error' },
  malformed_data: { status: 400, type: 'validation_error' },
  missing_distinct_id: { status: 400, type: 'validation_error' },
  invalid_project: { status: 400, type: 'validation_error' },
  invalid_input: { status: 400, type: 'validation_error' },
  required: { status: 400, type: 'validation_error' },
  null: { status: 400, type: 'validation_error' },
  blank: { status: 400, type: 'validation_error' },
  max_length: { status: 400, type: 'validation_error' },
  unique: { status: 400, type: 'validation_error' },
  invalid_key: { status: 400, type: 'validation_error' },
  invalid_choice: { status: 400, type: 'validation_error' },
  invalid_date: { status: 400, type: 'validation_error' },
  invalid_value: { status: 400, type: 'validation_error' },
  invalid_operator: { status: 400, type: 'validation_error' },
  not_a_dict: { status: 400, type: 'validation_error' },
  not_a_list: { status: 400, type: 'validation_error' },
  does_not_exist: { status: 400, type: 'validation_error' },
  cohort_does_not_exist: { status: 400, type: 'validation_error' },
  parse_error: { status: 400, type: 'invalid_request' },
  bad_request: { status: 400, type: 'invalid_request' },
  missing_api_key: { status: 401, type: 'authentication_error' },
  no_api_key: { status: 401, type: 'authentication_error' },
  invalid_api_key: { status: 401, type: 'authentication_error' },
  invalid_personal_api_key: { status: 401, type: 'authentication_error' },
  not_authenticated: { status: 401, type: 'authentication_error' },
  authentication_failed: { status: 401, type: 'authentication_error' },
  permission_denied: { status: 403, type: 'authentication_error' },
  csrf_failed: { status: 403, type: 'authentication_error' },
  not_found: { status: 404, type: 'invalid_request' },
  method_not_allowed: { status: 405, type: 'invalid_request' },
  conflict: { status: 409, type: 'server_error' },
  request_too_large: { status: 413, type: 'client_error' },
  unsupported_media_type: { status: 415, type: 'invalid_request' },
  throttled: { status: 429, type: 'throttled_error' },
  error: { status: 500, type: 'server_error' },
  data_corrupted: { status: 500, type: 'server_error' },
  server_error: { status: 503, type: 'server_error' },
  invalid_query: { status: 400, type: 'validation_error' },
  unsupported_kind: { status: 400, type: 'validation_error' },
  query_too_large: { status: 400, type: 'validation_error' },
  query_timeout: { status: 504, type: 'server_error' },
} as const satisfies Record<string, { readonly status: number; readonly type: string }>

/** Every code that an error body can carry. */
export type ErrorCode = keyof typeof ERROR_CODES

/** The JSON body of an error. All four keys are always present. Source: docs/compatibility/errors.md, "Errors". */
export interface ErrorBody {
  readonly type: string
  readonly code: ErrorCode
  readonly detail: string
  readonly attr: string | null
}

/**
 * An expected refusal of a request. Any file may throw it, and only `http/server/respond.ts` converts it to an answer.
 * An instance cannot cross a thread boundary: send `toBody()` and rebuild the error with `fromBody()`.
 */
export class ServiceError extends Error {
  readonly code: ErrorCode
  /** The field that caused the error, or null. */
  readonly attr: string | null
  /** The seconds after which a retry makes sense (header `Retry-After`), or null. */
  readonly retryAfterSeconds: number | null

  constructor(
    code: ErrorCode,
    detail: string,
    options: { attr?: string; retryAfterSeconds?: number; cause?: unknown } = {},
  ) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'ServiceError'
    this.code = code
    this.attr = options.attr ?? null
    this.retryAfterSeconds = options.retryAfterSeconds ?? null
  }

  get status(): number {
    return ERROR_CODES[this.code].status
  }

  toBody(): ErrorBody {
    return {
      type: ERROR_CODES[this.code].type,
      code: this.code,
      detail: this.message,
      attr: this.attr,
    }
  }

  /**
   * Rebuilds an error from the result of `toBody`. `retryAfterSeconds` is passed separately, because the body does not
   * contain it.
   */
  static fromBody(body: ErrorBody, retryAfterSeconds: number | null = null): ServiceError {
    return new ServiceError(body.code, body.detail, {
      ...(body.attr === null ? {} : { attr: body.attr }),
      ...(retryAfterSeconds === null ? {} : { retryAfterSeconds }),
    })
  }
}

/**
 * Returns the text of an error about a field. `what` continues the sentence after the name of the field and has no full
 * stop, as in `must not be empty`.
 */
export function fieldText(name: string, what: string): string {
  return `\`${name}\` ${what}.`
}

/**
 * Returns 400 `invalid_input` about a field. `what` continues the sentence after the name of the field, as in
 * `fieldText`. If the fault is inside the field, `where` replaces the name in the text.
 */
export function invalidInput(attr: string, what: string, where?: string): ServiceError {
  const detail = where === undefined ? fieldText(attr, what) : `${where} ${what}.`
  return new ServiceError('invalid_input', detail, { attr })
}

/** A wrong setting or a wrong use of the command line. The exit code is 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/**
 * A failed command, or a store that cannot be opened. The message is one line for the operator. `exitCode` is 1 for a
 * failure, 3 for a check that found problems, and 78 for damaged data.
 */
export class OperatorError extends Error {
  override readonly name = 'OperatorError'
  readonly exitCode: 1 | 3 | 78

  constructor(message: string, options: { exitCode?: 1 | 3 | 78; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.exitCode = options.exitCode ?? 1
  }
}
