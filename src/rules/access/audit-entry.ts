/**
 * Who changed what, when and from where: an entry of the audit log. Neither keys nor bodies nor
 * query strings are in it.
 */

/** A change that somebody asked for. */
export interface AuditEntry {
  readonly atMs: number
  /**
   * `api`: over HTTP with a personal key; `console`: in the console, with a session; `command_line`: by a
   * command on the machine itself.
   */
  readonly source: 'api' | 'console' | 'command_line'
  /** Whose key or session it was; null on the command line. */
  readonly userId: number | null
  /** Number of the personal key; null on the command line, and in a session of a login link. */
  readonly keyId: number | null
  /** Account of the operating system on the command line, else null. */
  readonly account: string | null
  /** The client's address, '' on the command line. */
  readonly address: string
  /** Null for what belongs to no project. */
  readonly projectId: number | null
  /** Method of the request; '' on the command line. */
  readonly method: string
  /** Pattern of the path, or the command, such as `tenrec flag set`. */
  readonly route: string
  /** What was changed or made: the last id of the path, the id in the answer, the operand. */
  readonly objectId: string | null
  /** Status of the answer; 0 on the command line, where only what was done is noted. */
  readonly status: number
}

/** An entry as it was stored. */
export interface StoredAuditEntry extends AuditEntry {
  readonly id: number
}
