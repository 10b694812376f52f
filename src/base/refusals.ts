/**
 * The table of all reasons to answer 503 or 429. Code passes the name of a reason to `refusal` and throws the result.
 * 503 means a temporary problem of the server, and 429 means that the client sends too much. See docs/OPERATIONS.md,
 * "Refusals".
 */
import { type ErrorCode, ServiceError } from './errors.ts'

/** The answer to a request that cannot be served now. */
export interface RefusalDefinition {
  /** `server_error` is 503, `throttled` is 429. */
  readonly code: Extract<ErrorCode, 'server_error' | 'throttled'>
  /** The text for the client. `{limit}` and `{seconds}` are replaced by values when the refusal is created. */
  readonly detail: string
  /**
   * The value of the header `Retry-After` in seconds. Null: the header is not sent. 'given': the value is known only
   * when the refusal is created.
   */
  readonly retryAfterSeconds: number | null | 'given'
  /** The metric that shows how close the limit is or how often it was reached. Null if only the log shows it. */
  readonly metric: string | null
}

/** The answer for each reason. The name is for the code, the text is for clients. */
export const REFUSALS = {
  store_failed: resend('The store has failed and is about to be restarted.', 'service_ready'),
  disk_silent: resend('The disk does not answer.', 'store_commit_duration_seconds'),
  disk_queue_full: resend('Too many events wait for the disk.', 'store_commit_duration_seconds'),
  log_backlog: resend('Too many events wait to be processed.', 'ingest_backlog_bytes'),
  processing_behind: resend('Events come in faster than they are processed.', 'ingest_lag_seconds'),
  disk_full: resend('The disk is nearly full.', 'disk_free_bytes'),
  sender_share: resend(
    'Too many events from this address wait to be processed.',
    'ingest_share_refused_total',
  ),
  sender_bodies: busy(
    2,
    'This address is sending as many bytes at once as one address may. Send the request again later.',
    'ingest_share_refused_total',
  ),
  not_replicated: busy(
    5,
    'Too few brokers have stored the events. Send them again with the same uuids.',
    'cluster_alone',
  ),
  control_not_replicated: busy(
    5,
    'Too few brokers have confirmed the change. Check whether it was made before you repeat it.',
    'cluster_control_refused_total',
  ),
  machines_older: busy(
    60,
    'A machine of the cluster runs an older version of Tenrec, which cannot read this change. Upgrade all machines first.',
    null,
  ),
  nobody_holds: busy(
    5,
    'No replica of this project answers. Try again later.',
    'cluster_questions_unanswered_total',
  ),
  holder_silent: busy(
    5,
    'The replica of this project did not answer in time. Check whether the change was made before you repeat it.',
    'cluster_questions_unanswered_total',
  ),
  holder_behind: busy(
    2,
    'The replica has not caught up with your last write yet. Try again in a moment.',
    'cluster_questions_unanswered_total',
  ),
  holders_full: retry('Too many requests wait for replicas', 'cluster_questions_unanswered_total'),
  holder_message_large: busy(
    null,
    'The request or its answer is too large to be passed between machines. Ask for fewer rows, or send the request to a replica of this project.',
    'cluster_questions_unanswered_total',
  ),
  streams_elsewhere: busy(
    30,
    'This machine does not store the events of this project. Open the stream on a replica of it.',
    null,
  ),
  not_stored: busy(
    5,
    'The events could not be written to disk. Send them again with the same uuids.',
    'store_commit_duration_seconds',
  ),
  warehouse_away: busy(
    10,
    'Some of these events are in ClickHouse, which does not answer. Try again later.',
    'warehouse_away',
  ),
  warehouse_incomplete: busy(
    60,
    'ClickHouse does not have all of these events yet. Try again later.',
    'warehouse_away',
  ),
  warehouse_unset: busy(
    60,
    'Some of these events are in ClickHouse, but the setting `warehouse` is missing. Set it and restart.',
    null,
  ),
  bodies_full: busy(
    2,
    'The server is receiving as many bytes as it can hold. Send the request again later.',
    'http_body_bytes_in_flight',
  ),
  checks_full: busy(
    5,
    'Too many uploads wait to be checked. Send the request again later.',
    'ingest_checks_waiting',
  ),
  check_waited: busy(
    5,
    'The upload waited too long to be checked. Send the request again later.',
    'ingest_checks_waiting',
  ),
  check_unwanted: busy(5, 'The client has left.', 'http_requests_aborted_total'),
  check_slow: busy(
    5,
    'The upload could not be checked in time. Send fewer events in one request.',
    'worker_busy_seconds_total',
  ),
  passwords_full: busy(
    2,
    'Too many logins wait for their password to be checked. Log in again in a moment.',
    null,
  ),
  password_changing: throttled(
    2,
    'Another request is setting this password. Wait until it is done.',
    null,
  ),
  provider_away: busy(
    5,
    'The identity provider does not answer correctly. Try again later, or log in in another way.',
    null,
  ),
  logins_full: busy(
    2,
    'Too many logins wait for the identity provider. Log in again in a moment.',
    null,
  ),
  changes_stopped: busy(5, 'The store is about to be restarted. Try again later.', 'service_ready'),
  changes_disk_full: busy(5, 'The disk is nearly full. Try again later.', 'disk_free_bytes'),
  files_full: busy(
    5,
    'The server can open no more files and connections now. Try again later.',
    'http_connections',
  ),
  disk_unread: busy(5, 'The disk did not answer a read. Try again later.', null),
  commands_full: retry('Too many changes are waiting', 'ingest_queue_depth'),
  command_late: busy(
    2,
    'The change is stored and will be made soon. Check again later.',
    'ingest_oldest_unprocessed_age_seconds',
  ),
  command_stopped: busy(
    2,
    'The store is about to be restarted. Check later whether the change was made.',
    'service_ready',
  ),
  command_failed: busy(null, 'The change failed. The server log says why.', 'dead_letters'),
  flags_write_failed: busy(
    5,
    'An earlier write failed. Flags can be changed again after a restart.',
    null,
  ),
  catalog_write_failed: busy(
    null,
    'The store has failed, so nothing can be changed until the server is restarted.',
    null,
  ),
  readers_full: retry('Too many requests wait for a worker thread', 'worker_queue_depth'),
  long_reads_full: busy(
    2,
    'Too many large requests are waiting. Try again in a moment, or ask for fewer rows.',
    'worker_queue_depth',
  ),
  questions_full: retry('Too many analytic queries are waiting', 'worker_queue_depth'),
  answers_full: retry('Too many large answers wait for their clients', 'http_answer_bytes_waiting'),
  streams_full: busy(
    30,
    'All {limit} event streams are in use. Close one, or try again later.',
    'live_streams',
  ),
  listeners_full: busy(
    30,
    'All {limit} streams of flag changes are in use. Ask for the flags at intervals, or try again later.',
    'flag_listeners',
  ),
  project_listeners: busy(
    30,
    'This project has {limit} streams of flag changes, which is the limit. Ask for the flags at intervals, or try again later.',
    'flag_listeners',
  ),
  read_unwanted: busy(null, 'The client has left.', 'http_requests_aborted_total'),
  thread_ended: retry(
    'The worker thread that handled this request ended unexpectedly',
    'worker_thread_deaths_total',
  ),
  count_slow: busy(
    60,
    'Counting took more than {limit} seconds and was stopped. Narrow the filter, or try again later.',
    'worker_busy_seconds_total',
  ),
  plan_slow: busy(
    60,
    'Evaluating the flags took more than {limit} seconds and was stopped. Lower `sample`, or plan fewer flags at once.',
    'worker_busy_seconds_total',
  ),
  address_requests: throttled(
    'given',
    'Too many requests from this address. Send the request again after {seconds} seconds.',
    'http_rate_limited_total',
  ),
  project_requests: throttled(
    'given',
    'Too many requests for this project. Send the request again after {seconds} seconds.',
    'http_rate_limited_total',
  ),
  project_events: throttled(
    'given',
    'Too many events for this project. Send the request again after {seconds} seconds.',
    'http_rate_limited_total',
  ),
  address_listeners: throttled(
    30,
    'This address has {limit} streams of flag changes, which is the limit. Ask for the flags at intervals, or try again later.',
    'flag_listeners',
  ),
  login_failures: throttled(
    'given',
    'Too many logins from this address have failed. Try again after {seconds} seconds.',
    'http_rate_limited_total',
  ),
  account_failures: throttled(
    'given',
    'Too many logins with this e-mail address have failed. Try again after {seconds} seconds, or log in with a login link or a personal key.',
    'http_rate_limited_total',
  ),
  share_failures: throttled(
    'given',
    'Too many wrong passwords were sent for this shared page. Try again after {seconds} seconds.',
    'http_rate_limited_total',
  ),
  development_waits: throttled(
    1,
    '{limit} requests wait for events, which is the limit. Lower the number of parallel tests.',
    null,
  ),
  erasures_full: throttled(
    60,
    '{limit} erasures of this project are running, which is the limit. Wait until one is done.',
    null,
  ),
} as const satisfies Record<string, RefusalDefinition>

/** The name of a reason. */
export type RefusalReason = keyof typeof REFUSALS

/** Values of a refusal that only the code that throws it knows. */
export interface RefusalFacts {
  /** The value that replaces `{limit}` in the text. */
  readonly limit?: number
  /**
   * The number of seconds after which the client may try again, for a reason with `'given'` in the table. It also
   * replaces `{seconds}` in the text.
   */
  readonly retryAfterSeconds?: number
  readonly cause?: unknown
}

/** Returns the error for a reason. The caller throws it or answers with it. */
export function refusal(reason: RefusalReason, facts: RefusalFacts = {}): ServiceError {
  const definition: RefusalDefinition = REFUSALS[reason]
  const { limit = '', cause } = facts
  const given = definition.retryAfterSeconds
  const retryAfterSeconds = given === 'given' ? facts.retryAfterSeconds : given
  const detail = definition.detail
    .replace('{limit}', String(limit))
    .replace('{seconds}', String(retryAfterSeconds))
  return new ServiceError(definition.code, detail, {
    ...(typeof retryAfterSeconds === 'number' ? { retryAfterSeconds } : {}),
    cause,
  })
}

/** Returns the first sentence of the text for a reason, for monitoring: the problem without the advice. */
export function reasonText(reason: RefusalReason): string {
  const { detail } = REFUSALS[reason]
  return detail.slice(0, detail.indexOf('.') + 1)
}

/** Returns the definition of a refusal of events. None of the events were stored, so the client may send them again. */
function resend(what: string, metric: string | null) {
  return busy(5, `${what} Send the events again later.`, metric)
}

function retry(what: string, metric: string | null) {
  return busy(2, `${what}. Try again in a moment.`, metric)
}

function busy(retryAfterSeconds: number | null, detail: string, metric: string | null) {
  return { code: 'server_error', detail, retryAfterSeconds, metric } as const
}

function throttled(
  retryAfterSeconds: RefusalDefinition['retryAfterSeconds'],
  detail: string,
  metric: string | null,
) {
  return { code: 'throttled', detail, retryAfterSeconds, metric } as const
}
