/** The limits of http/server, listed in docs/LIMITS.md or docs/limits-internal.md by `npm run docs`. */

/** The largest number of characters of an object's ID that an audit entry keeps. The rest is cut off. */
export const AUDIT_OBJECT_CHARACTERS_MAX = 200
/**
 * The largest number of bytes of an answer in which the audit log searches for the ID of a created object. Larger
 * answers are not searched.
 */
export const AUDIT_ANSWER_BYTES_MAX = 64 * 1024
/** The largest number of bytes that uWebSockets.js reads from a socket at a time. A larger body arrives in chunks. */
export const BODY_READ_BYTES_MAX = 512 * 1024
/** The largest number of buffers for bodies that are kept for reuse. Further ones are released. */
export const BODY_SPARES_MAX = 64
/**
 * The largest number of bytes that a client may still send after its request was refused. If more are left, or if their
 * number is unknown, the connection is closed at once.
 * @user Requests and answers
 */
export const BODY_DRAIN_BYTES_MAX = 64 * 1024 * 1024
/** The time between two checks for uploads that are too slow. */
export const BODY_SWEEP_MS_MAX = 1000
/**
 * The largest number of header lines of a request. A request with more is answered 431. uWebSockets.js has the same
 * limit.
 * @user Requests and answers
 */
export const HEADER_LINES_MAX = 98
/**
 * A connection is closed after this time if it is idle, if its headers are incomplete, or if a body or an answer makes
 * no progress. uWebSockets.js has about the same limit.
 * @user Requests and answers
 */
export const CONNECTION_IDLE_MS_MAX = 10_000
/**
 * If at most this many bytes of a body arrive within `CONNECTION_IDLE_MS_MAX`, the body makes no progress and its
 * connection is closed. uWebSockets.js has the same limit.
 */
export const BODY_STANDSTILL_BYTES_MAX = 160 * 1024
/**
 * The largest number of bytes of answers that may wait on one connection of node:http for its reader. Beyond it, the
 * next request closes the connection.
 */
export const PIPELINED_ANSWERS_BYTES_MAX = 1024 * 1024
/** The time between two checks of the connections of node:http. */
export const CONNECTION_LOOK_MS_MAX = 1000
/**
 * The time that a client of node:http has to close a connection after its last answer. After it, the server closes the
 * connection, and further data of the client is lost.
 */
export const CONNECTION_LINGER_MS_MAX = 2000
/**
 * The largest number of trusted proxies in a row. Beyond it, the address that the last of them saw is taken as the
 * address of the client.
 */
export const PROXY_HOPS_MAX = 16
/**
 * The largest number of characters at the end of `X-Forwarded-For` that are read. The beginning of a longer header is
 * ignored.
 */
export const FORWARDED_CHARACTERS_MAX = 2048
/** The largest number of `X-Forwarded-For` headers whose address is cached. Beyond it, the cache is cleared. */
export const FORWARDED_KNOWN_MAX = 4096
/** The largest number of characters of an `X-Forwarded-For` header that is cached. A longer one is read each time. */
export const FORWARDED_KNOWN_CHARACTERS_MAX = 100
/** The largest number of characters of a name in a request that the text of an error quotes. The rest is cut off. */
export const NAME_SHOWN_CHARACTERS_MAX = 400
/**
 * The largest number of rows on a page of persons, cohorts, actions or analytic rows, and in a table. A larger `limit`
 * is treated as this one.
 * @user Requests and answers
 */
export const PAGE_ROWS_MAX = 10_000
/**
 * The largest number of addresses, and of projects, whose request rate is counted. Beyond it, the counts of those with
 * the oldest requests are discarded.
 */
export const RATE_BUCKETS_MAX = 100_000
/**
 * The largest number of bytes of an answer that is sent in one call. If the socket does not accept all of them, a copy
 * of the rest waits. Larger answers follow the pace of the reader and are not copied.
 */
export const ANSWER_DIRECT_BYTES_MAX = 64 * 1024
/**
 * The largest number of UTF-16 units of a text that the main thread builds at a time. A longer text is built in chunks,
 * and other requests are served in between.
 */
export const ANSWER_TEXT_UNITS_MAX = 256 * 1024
/** The time between two checks of answers that wait for their readers. */
export const ANSWER_LOOK_MS_MAX = 1000
/**
 * The largest number of failed attempts, to log in or to use an invitation code, from one address in a minute. Further
 * attempts are answered 429 with `Retry-After`.
 * @user Console and live events
 */
export const LOGIN_FAILURES_PER_MINUTE_MAX = 5
/**
 * The largest number of logins with a wrong password for one e-mail address in an hour, from all IP addresses together.
 * Further logins with a password are answered 429 with `Retry-After`. Login links and personal keys still work.
 * @user Console and live events
 */
export const ACCOUNT_FAILURES_PER_HOUR_MAX = 30
