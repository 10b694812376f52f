/** Bodies for `/batch/` as an attacker sends them: JSON with the project key, compressed with gzip. */
import { gzipSync } from 'node:zlib'
import { PROJECT_KEY } from '../fixtures/daemon.ts'

/** The body limit of the daemon is 20 MiB. The difference leaves room for the members around the events. */
export const BODY_BYTES_MAX = 20 * 1024 ** 2 - 1024

/** A body that is ready to be sent. */
export interface Body {
  readonly packed: Buffer
  /** Bytes before compression. */
  readonly bytes: number
  readonly events: number
}

/** Compresses events, each of them the JSON text of an object. */
export function packBody(events: readonly string[]): Body {
  const json = Buffer.from(`{"api_key":"${PROJECT_KEY}","batch":[${events.join(',')}]}`)
  return { packed: gzipSync(json), bytes: json.length, events: events.length }
}

/** Compresses events around one large text, which is copied and never becomes part of a JavaScript string. */
export function packAround(
  text: Buffer,
  events: readonly { before: string; after: string }[],
): Body {
  const parts = events.flatMap(({ before, after }, index) => [
    Buffer.from(`${index === 0 ? '' : ','}${before}`),
    text,
    Buffer.from(after),
  ])
  const head = Buffer.from(`{"api_key":"${PROJECT_KEY}","batch":[`)
  const json = Buffer.concat([head, ...parts, Buffer.from(']}')])
  return { packed: gzipSync(json), bytes: json.length, events: events.length }
}

/** Compresses objects, at most `eventsMax` in a body. */
export function packEvents(events: readonly object[], eventsMax: number): readonly Body[] {
  const bodies: Body[] = []
  for (let start = 0; start < events.length; start += eventsMax) {
    const part = events.slice(start, start + eventsMax)
    bodies.push(packBody(part.map((event) => JSON.stringify(event))))
  }
  return bodies
}

/** Returns the total bytes of a list of bodies on the wire. */
export function packedBytes(bodies: readonly Body[]): number {
  return bodies.reduce((sum, { packed }) => sum + packed.length, 0)
}
