/** Runs one command line, and converts errors to messages and exit codes. */
import { OperatorError, ServiceError, UsageError } from '../base/errors.ts'
import { withSourcePositions } from '../base/source-positions.ts'
import { DamagedRecordError } from '../store/faults.ts'
import { commandHelp, helpFor, unknownCommand } from './commands/help.ts'
import { allCommands, commandsOf } from './commands.ts'
import { type Command, type CommandIo, parseArguments } from './lib/command.ts'
import { print } from './lib/output.ts'

const OK = 0
const FAILED = 1
const USAGE = 2
const DAMAGED = 78

/**
 * Runs the command line `words` (without node and the script), and returns the exit code: 0 for success, 1 for a
 * failure, 2 for wrong usage or configuration, 3 if a check found problems, and 78 for damaged data.
 */
export async function runCommandLine(words: readonly string[], io: CommandIo): Promise<number> {
  const [first, second] = words
  if (first === undefined) {
    io.err(helpFor(await allCommands(), ''))
    return USAGE
  }
  if (first === '--help' || first === '-h') return runCommandLine(['help'], io)
  if (first === '--version' || first === '-v') return runCommandLine(['version'], io)
  // A command line that begins with an option means `serve`.
  if (first.startsWith('-')) return runCommandLine(['serve', ...words], io)
  let command: Command | undefined
  try {
    const commands = await commandsOf(first)
    const isGroup = commands.length > 0 && commands.every(({ name }) => name !== first)
    if (isGroup && (second === '--help' || second === '-h')) {
      io.out(helpFor(commands, first))
      return OK
    }
    command = await findCommand(commands, words)
    return await runCommand(command, words.slice(command.name.split(' ').length), io)
  } catch (error) {
    return report(error, command, io)
  }
}

/**
 * Finds the command whose name is the first two words, or else the first word. `commands` are the commands whose names
 * begin with the first word. Throws `UsageError`.
 */
async function findCommand(
  commands: readonly Command[],
  [first = '', second = '']: readonly string[],
): Promise<Command> {
  const named = (words: string): Command | undefined => commands.find(({ name }) => name === words)
  const command = named(`${first} ${second}`) ?? named(first)
  if (command !== undefined) return command
  if (commands.length > 0 && (second === '' || second.startsWith('-'))) {
    const choices = commands.map(({ name }) => name.slice(first.length + 1))
    throw new UsageError(`'${first}' must be followed by one of ${choices.join(', ')}.`)
  }
  const names = (await allCommands()).map(({ name }) => name)
  throw new UsageError(unknownCommand(commands.length > 0 ? `${first} ${second}` : first, names))
}

async function runCommand(
  command: Command,
  words: readonly string[],
  io: CommandIo,
): Promise<number> {
  const input = parseArguments(command, words, io)
  if (input === null) {
    io.out(commandHelp(command))
    return OK
  }
  const outcome = await command.run(input, allCommands)
  if (typeof outcome === 'number') return outcome
  print(io, outcome, input.isJson)
  return OK
}

function report(error: unknown, command: Command | undefined, io: CommandIo): number {
  if (error instanceof UsageError) {
    const help = command === undefined ? 'tenrec help' : `tenrec help ${command.name}`
    io.err(`tenrec: ${error.message}\nSee '${help}'.\n`)
    return USAGE
  }
  if (error instanceof OperatorError) {
    io.err(`tenrec: ${error.message}\n`)
    return error.exitCode
  }
  if (error instanceof ServiceError) {
    // Some commands use functions of the API. Such a function refuses a command with the same error as a request.
    io.err(`tenrec: ${error.message}\n`)
    return FAILED
  }
  if (error instanceof DamagedRecordError) {
    io.err(`tenrec: The store is damaged: ${error.message}\n`)
    return DAMAGED
  }
  const text =
    error instanceof Error
      ? withSourcePositions(error.stack ?? error.message, error.message)
      : String(error)
  io.err(`tenrec: Unexpected failure: ${text}\n`)
  return FAILED
}
