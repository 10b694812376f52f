/**
 * The entries of the audit log: who changed what, when and from where. An entry contains no keys, no request bodies and
 * no query strings.
 */

/** A change that a user requested, or scheduled for a later time. */
export interface AuditEntry {
  readonly atMs: number
  /**
   * `api` is a request over HTTP with a personal key. `console` is a request of the console with a session.
   * `command_line` is a command on the machine itself. `schedule` is the daemon, which makes a scheduled change.
   */
  readonly source: 'api' | 'console' | 'command_line' | 'schedule'
  /** The user who owns the key or the session, or who scheduled the change. Null on the command line. */
  readonly userId: number | null
  /**
   * The number of the personal key. Null on the command line, for a schedule, and for a session that was started
   * without a key.
   */
  readonly keyId: number | null
  /** The account of the operating system on the command line. Null for other sources. */
  readonly account: string | null
  /** The IP address of the client. It is '' on the command line and for a schedule. */
  readonly address: string
  /** The project. Null if the change concerns no project. */
  readonly projectId: number | null
  /** The method of the request. It is '' on the command line and for a schedule. */
  readonly method: string
  /**
   * What was requested: the path pattern of the route, a command such as `tenrec flag set`, or the action of a
   * schedule.
   */
  readonly route: string
  /**
   * The id of the object that was changed or created. It is taken from the end of the path, from the answer, or from
   * the operand of the command.
   */
  readonly objectId: string | null
  /**
   * The HTTP status of the answer. It is 0 on the command line, where only successful changes are logged, and for a
   * schedule.
   */
  readonly status: number
}

/** An entry as it was stored. */
export interface StoredAuditEntry extends AuditEntry {
  readonly id: number
}
