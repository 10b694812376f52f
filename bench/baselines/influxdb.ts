/**
 * Baseline: InfluxDB 1.x with points of the line protocol. The name of an event is a tag, and everything else is a
 * field. By default, InfluxDB flushes its log before each answer.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../test/fixtures/free-port.ts'
import type { BenchContext } from '../harness.ts'
import { findProgram, startServer } from './programs.ts'

/** A running InfluxDB with the database `bench`. */
export interface InfluxDb {
  readonly port: number
  readonly pid: number
  readonly version: string
  /** Returns the number of stored points. */
  count(): Promise<number>
  clear(): Promise<void>
}

/** Starts InfluxDB with its files in a folder of the bench. It ends with the bench. */
export async function startInfluxDb(context: BenchContext): Promise<InfluxDb> {
  const program = findProgram('influxd', 'influxdb')
  const folder = context.newFolder()
  const [port, otherPort] = [await freePort(), await freePort()]
  const config = join(folder, 'influxdb.conf')
  writeFileSync(config, configuration(folder, port, otherPort))
  const url = `http://127.0.0.1:${port}`
  const query = async (statement: string): Promise<string> => {
    const body = new URLSearchParams({ q: statement, db: 'bench' })
    const response = await fetch(`${url}/query`, { method: 'POST', body })
    const text = await response.text()
    if (!response.ok || text.includes('"error"')) throw new Error(`influxd: ${text.slice(0, 300)}`)
    return text
  }
  const command = [program, 'run', '-config', config] as const
  const child = await startServer(context, [...command], folder, () => fetch(`${url}/ping`))
  await query('CREATE DATABASE bench')
  const version = (await fetch(`${url}/ping`)).headers.get('x-influxdb-version') ?? ''
  return {
    port,
    pid: child.pid ?? 0,
    version: `InfluxDB ${version}, log flushed before the answer`,
    async count() {
      const answer = await query('SELECT count(uuid) FROM events')
      return Number(/"values":\[\[[^,]+,(\d+)\]\]/.exec(answer)?.[1] ?? 0)
    },
    async clear() {
      await query('DROP DATABASE bench')
      await query('CREATE DATABASE bench')
    },
  }
}

/** Returns the settings of the package, with other paths and ports, and without a log of each request. */
function configuration(folder: string, port: number, otherPort: number): string {
  const path = (name: string): string => {
    mkdirSync(join(folder, name))
    return JSON.stringify(join(folder, name))
  }
  return [
    'reporting-enabled = false',
    `bind-address = "127.0.0.1:${otherPort}"`,
    `[meta]\ndir = ${path('meta')}`,
    `[data]\ndir = ${path('data')}\nwal-dir = ${path('wal')}\nwal-fsync-delay = "0s"`,
    '[monitor]\nstore-enabled = false',
    `[http]\nbind-address = "127.0.0.1:${port}"\nlog-enabled = false`,
    '[logging]\nlevel = "error"',
    '',
  ].join('\n')
}
