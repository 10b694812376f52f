/** The one table of commands: it feeds dispatch and help. */
import type { Command } from './command.ts'
import { CONFIG_CHECK, CONFIG_PRINT } from './config.ts'
import { EVENT_LIST, EVENT_SHOW, EVENT_TAIL } from './event.ts'
import { EVENT_WHY } from './event-why.ts'
import { helpCommand } from './help.ts'
import { INIT } from './init.ts'
import { KEY_CREATE, KEY_LIST, KEY_REVOKE } from './key.ts'
import { PERSON_DELETE, PERSON_LIST, PERSON_MERGE, PERSON_SHOW, PERSON_SPLIT } from './person.ts'
import { PROJECT_CREATE, PROJECT_LIST, PROJECT_SET, PROJECT_SHOW } from './project.ts'
import { SERVE } from './serve.ts'
import { VERSION_COMMAND } from './version.ts'

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  SERVE,
  INIT,
  PROJECT_CREATE,
  PROJECT_LIST,
  PROJECT_SET,
  PROJECT_SHOW,
  KEY_CREATE,
  KEY_LIST,
  KEY_REVOKE,
  EVENT_LIST,
  EVENT_SHOW,
  EVENT_TAIL,
  EVENT_WHY,
  PERSON_LIST,
  PERSON_SHOW,
  PERSON_MERGE,
  PERSON_SPLIT,
  PERSON_DELETE,
  CONFIG_PRINT,
  CONFIG_CHECK,
  VERSION_COMMAND,
  helpCommand(() => COMMANDS),
]
