/**
 * Baseline (c): `JSON.parse` of the same bodies in a loop, in a new process that does nothing else. The CPU time is
 * that of the whole process, so it includes the threads of the garbage collector.
 */
import { type EventRequestOptions, generatorOf } from '../ingest/bodies.ts'

export interface ParseLoopOptions extends Pick<EventRequestOptions, 'users' | 'isUniform'> {
  readonly seed: number
  readonly eventsPerBody: number
  /** The number of distinct events. The loop repeats them until `events` are parsed. */
  readonly distinctEvents: number
  readonly events: number
}

/** Runs in the helper process: receives options and returns CPU microseconds per event. */
export function serveParseLoop(): void {
  process.on('disconnect', () => process.exit(0))
  process.on('message', (message: unknown) => {
    // harness.ts of the same build writes the message.
    process.send?.({ cpuUsPerEvent: measure(message as ParseLoopOptions) })
  })
}

function measure(options: ParseLoopOptions): number {
  const bodies = bodiesOf(options)
  parse(bodies, Math.min(bodies.length, 200))
  const before = process.cpuUsage()
  const rounds = Math.ceil(options.events / options.eventsPerBody)
  parse(bodies, rounds)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / (rounds * options.eventsPerBody)
}

function bodiesOf(options: ParseLoopOptions): string[] {
  const generator = generatorOf(options)
  const bodies: string[] = []
  for (let events = 0; events < options.distinctEvents; events += options.eventsPerBody) {
    const body = generator.batch('phc_baseline', options.eventsPerBody)
    // Each text is made from bytes, so that V8 stores it in the same form as a received body.
    bodies.push(Buffer.from(JSON.stringify(body)).toString('utf8'))
  }
  return bodies
}

function parse(bodies: readonly string[], rounds: number): void {
  for (let round = 0; round < rounds; round++) {
    const parsed = JSON.parse(bodies[round % bodies.length] ?? '')
    if (parsed === null) throw new Error('a body was empty')
  }
}
