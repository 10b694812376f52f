/** The limits of http/server: each with its unit, and what happens beyond it. docs/LIMITS.md lists them all. */

/** Characters of an object's id that are kept. */
export const AUDIT_OBJECT_CHARACTERS_MAX = 200
/** An answer up to this size is asked for the id of what was made. */
export const AUDIT_ANSWER_BYTES_MAX = 64 * 1024
/** uWebSockets.js reads at most this much at a time: a larger body never comes in one piece. */
export const BODY_READ_BYTES_MAX = 512 * 1024
/** Memory of bodies that is kept to be used again. Further: given up. */
export const BODY_SPARES_MAX = 64
/** What a refused client may still send before its connection is cut instead of drained. */
export const BODY_DRAIN_BYTES_MAX = 64 * 1024 * 1024
/** Milliseconds between two looks at uploads that are too slow. */
export const BODY_SWEEP_MS_MAX = 1000
/** Lines of headers of a request. Further: 431. uWebSockets.js has the same limit. */
export const HEADER_LINES_MAX = 98
/** Milliseconds that a connection may be idle, that headers may take, and that a body or an answer may stand still. Longer: the connection is closed. uWebSockets.js has about the same limit. */
export const CONNECTION_IDLE_MS_MAX = 10_000
/** Bytes of a body that came within that time and count as a standstill. uWebSockets.js has the same limit. */
export const BODY_STANDSTILL_BYTES_MAX = 160 * 1024
/** Bytes of answers that wait on one connection of node:http for its reader. With more, the next request closes the connection. */
export const PIPELINED_ANSWERS_BYTES_MAX = 32 * 1024 * 1024
/** Milliseconds between two looks at the connections of node:http. */
export const CONNECTION_LOOK_MS_MAX = 1000
/** Milliseconds that a client of node:http has to close a connection behind its last answer. Longer: it is closed, and what the client still sends is lost. */
export const CONNECTION_LINGER_MS_MAX = 2000
/** Proxies in a row that are believed; the address that the last of them saw is taken. */
export const PROXY_HOPS_MAX = 16
/** Characters at the end of the header that are looked at. */
export const FORWARDED_CHARACTERS_MAX = 2048
/** Headers `X-Forwarded-For` whose address is remembered. A further one: all are looked at again. */
export const FORWARDED_KNOWN_MAX = 4096
/** Characters of one of them. A longer one is looked at each time. */
export const FORWARDED_KNOWN_CHARACTERS_MAX = 100
/** Characters of a name that a client chose, in an answer. */
export const NAME_SHOWN_CHARACTERS_MAX = 400
/** A value up to this many characters is named in a refusal. */
export const SHOWN_CHARACTERS_MAX = 20
/** Rows of a page and of a table. A larger limit is taken for this one. */
export const PAGE_ROWS_MAX = 10_000
/** Addresses, and projects, that are remembered; beyond, those that came least lately start afresh. */
export const RATE_BUCKETS_MAX = 100_000
/** Answers up to this size go out in one call; larger ones follow the pace of the reader. */
export const ANSWER_DIRECT_BYTES_MAX = 64 * 1024
/** UTF-16 units of a text that the main thread makes at a time. A longer one is made in pieces, and others have their turn in between. */
export const ANSWER_TEXT_UNITS_MAX = 256 * 1024
/** Milliseconds between two looks at answers that wait for their readers. */
export const ANSWER_LOOK_MS_MAX = 1000
/** Logins, and codes of invitations, of one address that may fail in a minute. A further one: 429 with `Retry-After`. */
export const LOGIN_FAILURES_PER_MINUTE_MAX = 5
