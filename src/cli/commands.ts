/**
 * The table of commands, which dispatch and help use. A file is loaded only when one of its commands is needed, because
 * loading all files takes longer than most commands run.
 */
import { type Command, type Commands, commandOf } from './lib/command.ts'

type CommandFile = () => Promise<{ readonly COMMANDS: Commands }>

/** Maps the first words of commands, in the order of the help, to the files that describe them. */
const FILES: ReadonlyMap<string, readonly CommandFile[]> = new Map<string, readonly CommandFile[]>([
  ['serve', [() => import('./commands/serve.ts')]],
  ['dev', [() => import('./dev/dev.ts')]],
  ['status', [() => import('./commands/status.ts')]],
  ['cluster', [() => import('./commands/cluster.ts')]],
  ['init', [() => import('./commands/init.ts')]],
  ['login-link', [() => import('./commands/login-link.ts')]],
  [
    'project',
    [() => import('./commands/project.ts'), () => import('./commands/project-member.ts')],
  ],
  ['snippet', [() => import('./commands/snippet.ts')]],
  ['key', [() => import('./commands/key.ts')]],
  ['user', [() => import('./commands/user.ts')]],
  ['role', [() => import('./commands/role.ts')]],
  ['audit', [() => import('./commands/audit.ts')]],
  ['flag', [() => import('./commands/flag.ts'), () => import('./commands/flag-files.ts')]],
  [
    'event',
    [
      () => import('./commands/events/event.ts'),
      () => import('./commands/events/event-why.ts'),
      () => import('./commands/events/event-dropped.ts'),
    ],
  ],
  ['dead-letter', [() => import('./commands/events/dead-letter.ts')]],
  ['person', [() => import('./commands/person.ts')]],
  [
    'query',
    [() => import('./commands/query/query.ts'), () => import('./commands/query/query-paths.ts')],
  ],
  ['erasure', [() => import('./commands/events/erasure.ts')]],
  ['retention', [() => import('./commands/events/retention.ts')]],
  ['export', [() => import('./commands/events/export.ts')]],
  ['import', [() => import('./commands/events/import.ts')]],
  ['backup', [() => import('./commands/backup.ts')]],
  ['restore', [() => import('./commands/backup.ts')]],
  ['verify', [() => import('./commands/verify.ts')]],
  ['prove-durability', [() => import('./proof/proof.ts')]],
  ['migrate', [() => import('./commands/migrate.ts')]],
  ['doctor', [() => import('./doctor/doctor.ts')]],
  ['bench', [() => import('./bench/bench.ts')]],
  ['config', [() => import('./commands/config.ts')]],
  ['completion', [() => import('./commands/completion.ts')]],
  ['man', [() => import('./commands/man.ts')]],
  ['version', [() => import('./commands/version.ts')]],
  ['help', [() => import('./commands/help.ts')]],
])

/** Returns every command, in the order of the help. Loads all files. */
export async function allCommands(): Promise<readonly Command[]> {
  return (await Promise.all([...FILES.keys()].map(commandsOf))).flat()
}

/** Returns the commands that begin with a word. Loads only their files. */
export async function commandsOf(first: string): Promise<readonly Command[]> {
  const files = await Promise.all((FILES.get(first) ?? []).map((load) => load()))
  return files
    .flatMap(({ COMMANDS }) => COMMANDS)
    .filter(({ name }) => name.split(' ')[0] === first)
    .map(commandOf)
}
