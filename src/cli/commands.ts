/** The one table of commands: it feeds dispatch and help. */

import { BENCH } from './bench/bench.ts'
import { AUDIT_LIST } from './commands/audit.ts'
import { BACKUP, BACKUP_LIST, BACKUP_VERIFY, RESTORE } from './commands/backup.ts'
import { completionCommand } from './commands/completion.ts'
import { CONFIG_CHECK, CONFIG_PRINT } from './commands/config.ts'
import {
  DEAD_LETTER_DROP,
  DEAD_LETTER_LIST,
  DEAD_LETTER_REPLAY,
} from './commands/events/dead-letter.ts'
import { ERASURE_CREATE, ERASURE_LIST, ERASURE_SHOW } from './commands/events/erasure.ts'
import { EVENT_LIST, EVENT_SHOW, EVENT_TAIL } from './commands/events/event.ts'
import { EVENT_DROPPED } from './commands/events/event-dropped.ts'
import { EVENT_WHY } from './commands/events/event-why.ts'
import { EXPORT } from './commands/events/export.ts'
import { IMPORT } from './commands/events/import.ts'
import {
  RETENTION_CLEAR,
  RETENTION_RUN,
  RETENTION_SET,
  RETENTION_SHOW,
} from './commands/events/retention.ts'
import {
  FLAG_CREATE,
  FLAG_DELETE,
  FLAG_EXPLAIN,
  FLAG_LIST,
  FLAG_SET,
  FLAG_SHOW,
} from './commands/flag.ts'
import { helpCommand } from './commands/help.ts'
import { INIT } from './commands/init.ts'
import { KEY_CREATE, KEY_LIST, KEY_REVOKE, KEY_ROTATE } from './commands/key.ts'
import { manCommand } from './commands/man.ts'
import { MIGRATE } from './commands/migrate.ts'
import { PERSON_DELETE, PERSON_LIST, PERSON_SHOW, PERSON_SPLIT } from './commands/person.ts'
import { PERSON_MERGE } from './commands/person-merge.ts'
import { PROJECT_CREATE, PROJECT_LIST, PROJECT_SET, PROJECT_SHOW } from './commands/project.ts'
import {
  QUERY_FUNNEL,
  QUERY_LIFECYCLE,
  QUERY_RETENTION,
  QUERY_STICKINESS,
  QUERY_TRENDS,
} from './commands/query/query.ts'
import { QUERY_PATHS } from './commands/query/query-paths.ts'
import {
  ROLE_ADD,
  ROLE_CREATE,
  ROLE_DEFAULT,
  ROLE_DELETE,
  ROLE_LIST,
  ROLE_REMOVE,
  ROLE_SET,
} from './commands/role.ts'
import { SERVE } from './commands/serve.ts'
import { SNIPPET_INSTALL, SNIPPET_SHOW } from './commands/snippet.ts'
import { STATUS } from './commands/status.ts'
import { USER_CREATE, USER_DEACTIVATE, USER_LIST, USER_SET } from './commands/user.ts'
import { VERIFY } from './commands/verify.ts'
import { VERSION_COMMAND } from './commands/version.ts'
import { DOCTOR } from './doctor/doctor.ts'
import type { Command } from './lib/command.ts'

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  SERVE,
  STATUS,
  INIT,
  PROJECT_CREATE,
  PROJECT_LIST,
  PROJECT_SET,
  PROJECT_SHOW,
  SNIPPET_SHOW,
  SNIPPET_INSTALL,
  KEY_CREATE,
  KEY_LIST,
  KEY_ROTATE,
  KEY_REVOKE,
  USER_CREATE,
  USER_LIST,
  USER_SET,
  USER_DEACTIVATE,
  ROLE_CREATE,
  ROLE_LIST,
  ROLE_SET,
  ROLE_DELETE,
  ROLE_ADD,
  ROLE_REMOVE,
  ROLE_DEFAULT,
  AUDIT_LIST,
  FLAG_LIST,
  FLAG_SHOW,
  FLAG_CREATE,
  FLAG_SET,
  FLAG_DELETE,
  FLAG_EXPLAIN,
  EVENT_LIST,
  EVENT_SHOW,
  EVENT_TAIL,
  EVENT_WHY,
  EVENT_DROPPED,
  DEAD_LETTER_LIST,
  DEAD_LETTER_REPLAY,
  DEAD_LETTER_DROP,
  PERSON_LIST,
  PERSON_SHOW,
  PERSON_MERGE,
  PERSON_SPLIT,
  PERSON_DELETE,
  QUERY_TRENDS,
  QUERY_FUNNEL,
  QUERY_LIFECYCLE,
  QUERY_RETENTION,
  QUERY_STICKINESS,
  QUERY_PATHS,
  ERASURE_CREATE,
  ERASURE_LIST,
  ERASURE_SHOW,
  RETENTION_SHOW,
  RETENTION_SET,
  RETENTION_CLEAR,
  RETENTION_RUN,
  EXPORT,
  IMPORT,
  BACKUP,
  BACKUP_LIST,
  BACKUP_VERIFY,
  RESTORE,
  VERIFY,
  MIGRATE,
  DOCTOR,
  BENCH,
  CONFIG_PRINT,
  CONFIG_CHECK,
  completionCommand(() => COMMANDS),
  manCommand(() => COMMANDS),
  VERSION_COMMAND,
  helpCommand(() => COMMANDS),
]
