/**
 * The one table of commands: it feeds dispatch and help. A file is loaded when one of its commands is asked
 * for, because all of them together take longer to load than most take to run.
 */
import type { Command } from './lib/command.ts'

type Group = () => Promise<readonly Command[]>

/** Commands by their first word, in the order of the help. */
const GROUPS: ReadonlyMap<string, Group> = new Map<string, Group>([
  ['serve', from(() => import('./commands/serve.ts'), 'SERVE')],
  ['status', from(() => import('./commands/status.ts'), 'STATUS')],
  ['init', from(() => import('./commands/init.ts'), 'INIT')],
  [
    'project',
    from(
      () => import('./commands/project.ts'),
      'PROJECT_CREATE',
      'PROJECT_LIST',
      'PROJECT_SET',
      'PROJECT_SHOW',
    ),
  ],
  ['snippet', from(() => import('./commands/snippet.ts'), 'SNIPPET_SHOW', 'SNIPPET_INSTALL')],
  [
    'key',
    from(() => import('./commands/key.ts'), 'KEY_CREATE', 'KEY_LIST', 'KEY_ROTATE', 'KEY_REVOKE'),
  ],
  [
    'user',
    from(
      () => import('./commands/user.ts'),
      'USER_CREATE',
      'USER_LIST',
      'USER_SET',
      'USER_DEACTIVATE',
    ),
  ],
  [
    'role',
    from(
      () => import('./commands/role.ts'),
      'ROLE_CREATE',
      'ROLE_LIST',
      'ROLE_SET',
      'ROLE_DELETE',
      'ROLE_ADD',
      'ROLE_REMOVE',
      'ROLE_DEFAULT',
    ),
  ],
  ['audit', from(() => import('./commands/audit.ts'), 'AUDIT_LIST')],
  [
    'flag',
    from(
      () => import('./commands/flag.ts'),
      'FLAG_LIST',
      'FLAG_SHOW',
      'FLAG_CREATE',
      'FLAG_SET',
      'FLAG_DELETE',
      'FLAG_EXPLAIN',
    ),
  ],
  [
    'event',
    all(
      from(() => import('./commands/events/event.ts'), 'EVENT_LIST', 'EVENT_SHOW', 'EVENT_TAIL'),
      from(() => import('./commands/events/event-why.ts'), 'EVENT_WHY'),
      from(() => import('./commands/events/event-dropped.ts'), 'EVENT_DROPPED'),
    ),
  ],
  [
    'dead-letter',
    from(
      () => import('./commands/events/dead-letter.ts'),
      'DEAD_LETTER_LIST',
      'DEAD_LETTER_REPLAY',
      'DEAD_LETTER_DROP',
    ),
  ],
  [
    'person',
    all(
      from(() => import('./commands/person.ts'), 'PERSON_LIST', 'PERSON_SHOW'),
      from(() => import('./commands/person-merge.ts'), 'PERSON_MERGE'),
      from(() => import('./commands/person.ts'), 'PERSON_SPLIT', 'PERSON_DELETE'),
    ),
  ],
  [
    'query',
    all(
      from(
        () => import('./commands/query/query.ts'),
        'QUERY_TRENDS',
        'QUERY_FUNNEL',
        'QUERY_LIFECYCLE',
        'QUERY_RETENTION',
        'QUERY_STICKINESS',
      ),
      from(() => import('./commands/query/query-paths.ts'), 'QUERY_PATHS'),
    ),
  ],
  [
    'erasure',
    from(
      () => import('./commands/events/erasure.ts'),
      'ERASURE_CREATE',
      'ERASURE_LIST',
      'ERASURE_SHOW',
    ),
  ],
  [
    'retention',
    from(
      () => import('./commands/events/retention.ts'),
      'RETENTION_SHOW',
      'RETENTION_SET',
      'RETENTION_CLEAR',
      'RETENTION_RUN',
    ),
  ],
  ['export', from(() => import('./commands/events/export.ts'), 'EXPORT')],
  ['import', from(() => import('./commands/events/import.ts'), 'IMPORT')],
  ['backup', from(() => import('./commands/backup.ts'), 'BACKUP', 'BACKUP_LIST', 'BACKUP_VERIFY')],
  ['restore', from(() => import('./commands/backup.ts'), 'RESTORE')],
  ['verify', from(() => import('./commands/verify.ts'), 'VERIFY')],
  ['migrate', from(() => import('./commands/migrate.ts'), 'MIGRATE')],
  ['doctor', from(() => import('./doctor/doctor.ts'), 'DOCTOR')],
  ['bench', from(() => import('./bench/bench.ts'), 'BENCH')],
  ['config', from(() => import('./commands/config.ts'), 'CONFIG_PRINT', 'CONFIG_CHECK')],
  [
    'completion',
    async () => [(await import('./commands/completion.ts')).completionCommand(allCommands)],
  ],
  ['man', async () => [(await import('./commands/man.ts')).manCommand(allCommands)]],
  ['version', from(() => import('./commands/version.ts'), 'VERSION_COMMAND')],
  ['help', async () => [(await import('./commands/help.ts')).helpCommand(allCommands)]],
])

/** The commands of a file, by the names that it exports them under. */
function from<Name extends string>(
  load: () => Promise<Readonly<Record<NoInfer<Name>, Command>>>,
  ...names: readonly Name[]
): Group {
  return async () => {
    const file = await load()
    return names.map((name) => file[name])
  }
}

function all(...groups: readonly Group[]): Group {
  return async () => (await Promise.all(groups.map((load) => load()))).flat()
}

/** Every command, in the order of the help. Loads all files. */
export function allCommands(): Promise<readonly Command[]> {
  return all(...GROUPS.values())()
}

/** The commands that begin with a word; empty when there are none. Loads their files only. */
export async function commandsOf(first: string): Promise<readonly Command[]> {
  return (await GROUPS.get(first)?.()) ?? []
}
