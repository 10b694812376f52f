/**
 * `tenrec completion`: completion scripts for shells, generated from the table of commands. A script contains all
 * commands, options and values, so that completion starts no process.
 */
import { UsageError } from '../../base/errors.ts'
import type { Command, Commands } from '../lib/command.ts'
import { allOptions, plain, type TypedOption } from '../lib/command-options.ts'

const SHELLS = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof SHELLS)[number]

/** `tenrec completion`. */
export const COMMANDS: Commands = [
  {
    name: 'completion',
    sentence: 'Print the completion script for a shell: bash, zsh or fish.',
    operands: [SHELLS.join('|')],
    settings: [],
    async run({ io, operand }, allCommands) {
      const shell = SHELLS.find((candidate) => candidate === operand)
      if (shell === undefined) {
        const choices = SHELLS.join(', ')
        throw new UsageError(
          `There is no completion for the shell ${JSON.stringify(operand)}. Choose one of ${choices}.`,
        )
      }
      io.out(WRITERS[shell](await allCommands()))
      return 0
    },
  },
]

const WRITERS: Readonly<Record<Shell, (commands: readonly Command[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

/**
 * Returns, for each first word of a command, the second words that can follow it. The list is empty for a command of
 * one word.
 */
function wordsOf(commands: readonly Command[]): ReadonlyMap<string, readonly string[]> {
  const words = new Map<string, string[]>()
  for (const { name } of commands) {
    const [first = '', second] = name.split(' ')
    const seconds = words.get(first) ?? []
    words.set(first, seconds)
    if (second !== undefined) seconds.push(second)
  }
  // `completion` and `help` are followed by an operand: the name of a shell, or the first word of a command.
  words.set('completion', [...SHELLS])
  words.set('help', [...words.keys()])
  return words
}

/** Returns the options of all commands that take a value, without duplicates. */
function valuedOptions(commands: readonly Command[]): readonly TypedOption[] {
  const options = new Map<string, TypedOption>()
  for (const command of commands) {
    for (const option of allOptions(command)) {
      if (option.placeholder !== null) options.set(option.flag, option)
    }
  }
  return [...options.values()]
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/**
 * Returns the lines of a shell `case` that completes the value of an option. `known` returns the action for an option
 * whose values are listed. `free` is the action for an option that takes any value.
 */
function valueCases(
  commands: readonly Command[],
  known: (choices: readonly string[]) => string,
  free: string,
): readonly string[] {
  const options = valuedOptions(commands)
  const withChoices = options.filter(({ choices }) => choices.length > 0)
  const others = options.filter(({ choices }) => choices.length === 0)
  return [
    ...withChoices.map(({ flag, choices }) => `        ${flag}) ${known(choices)} ;;`),
    ...(others.length === 0
      ? []
      : [`        ${others.map(({ flag }) => flag).join('|')}) ${free} ;;`]),
  ]
}

function bashScript(commands: readonly Command[]): string {
  const words = wordsOf(commands)
  const optionCases = commands.map((command) => {
    const flags = allOptions(command).map(({ flag }) => flag)
    return `        ${pattern(command)}) choices=${quoted(flags.join(' '))} ;;`
  })
  const wordCases = [...words]
    .filter(([, seconds]) => seconds.length > 0)
    .map(([first, seconds]) => `            ${first}) choices="$choices ${seconds.join(' ')}" ;;`)
  return `# Completion of tenrec for bash. Source this file.
_tenrec() {
    local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}
    local first=\${COMP_WORDS[1]-} second=\${COMP_WORDS[2]-} choices=''
    COMPREPLY=()
    case $previous in
${valueCases(commands, (choices) => `COMPREPLY=($(compgen -W ${quoted(choices.join(' '))} -- "$current")); return`, 'return').join('\n')}
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W ${quoted([...words.keys()].join(' '))} -- "$current"))
        return
    fi
    case "$first $second" in
${[...optionCases].sort((a, b) => Number(a.includes('*')) - Number(b.includes('*'))).join('\n')}
    esac
    if [ "$COMP_CWORD" -eq 2 ]; then
        case $first in
${wordCases.join('\n')}
        esac
    fi
    COMPREPLY=($(compgen -W "$choices" -- "$current"))
}
complete -o default -F _tenrec tenrec
`
}

/**
 * Returns the pattern that matches the first words of a command. In a `case`, patterns of two words must come before
 * patterns of one word.
 */
function pattern({ name }: Command): string {
  return name.includes(' ') ? `'${name}'` : `'${name} '*`
}

function zshScript(commands: readonly Command[]): string {
  const words = wordsOf(commands)
  const sentences = new Map(commands.map(({ name, sentence }) => [name, sentence]))
  const described = (word: string, name: string): string => {
    const sentence = plain(sentences.get(name) ?? `Commands of ${word}.`)
    return quoted(`${word}:${sentence.replaceAll(':', '\\:')}`)
  }
  const firsts = [...words.keys()].map((word) => described(word, word))
  const wordCases = [...words]
    .filter(([, seconds]) => seconds.length > 0)
    .map(([first, seconds]) => {
      const list = seconds.map((second) => described(second, `${first} ${second}`))
      return `            ${first}) choices=(${list.join(' ')}) ;;`
    })
  const optionCases = commands.map((command) => {
    const list = allOptions(command).map(({ flag, sentence }) =>
      quoted(`${flag}:${plain(sentence).replaceAll(':', '\\:')}`),
    )
    return `        ${pattern(command)}) options=(${list.join(' ')}) ;;`
  })
  return `#compdef tenrec
# Completion of tenrec for zsh. Source this file, or save it as _tenrec in a directory of $fpath.
_tenrec() {
    local -a choices options
    case "\${words[CURRENT-1]}" in
${valueCases(commands, (choices) => `compadd -- ${choices.join(' ')}; return`, '_files; return').join('\n')}
    esac
    if (( CURRENT == 2 )); then
        choices=(${firsts.join(' ')})
        _describe command choices
        return
    fi
    case "\${words[2]} \${words[3]}" in
${[...optionCases].sort((a, b) => Number(a.includes('*')) - Number(b.includes('*'))).join('\n')}
    esac
    if (( CURRENT == 3 )); then
        case "\${words[2]}" in
${wordCases.join('\n')}
        esac
        (( \${#choices} )) && _describe command choices
    fi
    (( \${#options} )) && _describe -o option options
}
if [ "\${funcstack[1]}" = _tenrec ]; then _tenrec "$@"; else compdef _tenrec tenrec; fi
`
}

function fishScript(commands: readonly Command[]): string {
  const sentences = new Map(commands.map(({ name, sentence }) => [name, sentence]))
  const lines: string[] = []
  const word = (condition: string, choice: string, name: string): void => {
    const sentence = plain(sentences.get(name) ?? `Commands of ${choice}.`)
    lines.push(`complete -c tenrec -f -n ${condition} -a ${choice} -d ${fishQuoted(sentence)}`)
  }
  for (const [first, seconds] of wordsOf(commands)) {
    word('__tenrec_is_first', first, first)
    for (const second of seconds) word(`'__tenrec_is ${first}'`, second, `${first} ${second}`)
  }
  for (const command of commands) {
    for (const { flag, placeholder, sentence, choices } of allOptions(command)) {
      const values = choices.length === 0 ? '' : ` -f -a ${fishQuoted(choices.join(' '))}`
      const value = placeholder === null ? '' : ` -r${values}`
      const condition = `'__tenrec_in ${command.name}'`
      lines.push(
        `complete -c tenrec -n ${condition} -l ${flag.slice(2)}${value} -d ${fishQuoted(plain(sentence))}`,
      )
    }
  }
  return `# Completion of tenrec for fish. Source this file.
function __tenrec_is_first
    test (count (commandline -opc)) -eq 1
end
function __tenrec_is
    set -l typed (commandline -opc)
    test "$typed[2..-1]" = "$argv"
end
function __tenrec_in
    set -l typed (commandline -opc)
    set -l last (math (count $argv) + 1)
    test (count $typed) -ge $last; and test "$typed[2..$last]" = "$argv"
end
${lines.join('\n')}
`
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
