/** Starts the sides of the bench `peers` on the loopback address, with their files in a folder of the bench. */
import { availableParallelism } from 'node:os'
import { startClickHouse } from '../baselines/clickhouse.ts'
import { startFastify } from '../baselines/fastify.ts'
import { startInfluxDb } from '../baselines/influxdb.ts'
import { startNats } from '../baselines/nats.ts'
import { startRedis } from '../baselines/redis.ts'
import type { BenchContext } from '../harness.ts'
import type { Protocol } from './peer-protocols.ts'

/** One side: a program that accepts and acknowledges events. */
export interface Peer {
  readonly name: string
  /** The versions and settings, for the notes. */
  readonly description: string
  readonly protocol: Protocol
  readonly port: number
  /** The processes of the side. Their child processes are included. */
  readonly pids: readonly number[]
  /** True if acknowledged events survive a power cut. */
  readonly isDurable: boolean
  readonly connectionsMax: number
  /** Waits until all acknowledged events are processed. */
  settle(): Promise<void>
  /** Returns the number of events that were stored since `clear`. For `nats-batches`, it is the number of requests. */
  count(): Promise<number>
  /** Deletes all events, so that the events of earlier rounds slow down no side. */
  clear(): Promise<void>
}

/** The sides that were started, with Tenrec first, and the reasons why the other sides could not be started. */
export interface StartedPeers {
  readonly peers: readonly Peer[]
  readonly missing: readonly string[]
}

/** The name of the side with which single events are compared. */
export const FASTIFY_NAME = 'fastify + PostgreSQL'

const CLICKHOUSE_TABLE = `
CREATE TABLE events (uuid UUID, event String, timestamp DateTime, distinct_id String, properties String)
ENGINE = MergeTree PARTITION BY toYYYYMM(timestamp) ORDER BY (event, timestamp)`
/** ClickHouse itself allows 100 statements at the same time. */
const CLICKHOUSE_CONNECTIONS_MAX = 64
const CONNECTIONS_MAX = 1000

type Start = (context: BenchContext) => Promise<readonly Peer[]>

/**
 * Starts all sides, and leaves out the sides that cannot be started. It takes up to two minutes, mostly to install
 * packages.
 */
export async function startPeers(context: BenchContext): Promise<StartedPeers> {
  const peers: Peer[] = [...(await tenrecPeers(context))]
  const missing: string[] = []
  const starts: readonly (readonly [string, Start])[] = [
    [FASTIFY_NAME, fastify],
    ['NATS JetStream', nats],
    ['Redis streams', redis],
    ['ClickHouse', clickHouse],
    ['InfluxDB', influxDb],
  ]
  for (const [name, start] of starts) {
    try {
      peers.push(...(await start(context)))
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      missing.push(`${name}: ${reason.replaceAll(/\s+/g, ' ').slice(0, 300)}`)
    }
  }
  return { peers, missing }
}

async function tenrecPeers(context: BenchContext): Promise<readonly Peer[]> {
  const daemon = await context.startDaemon()
  let before = 0
  return [
    {
      name: 'Tenrec',
      protocol: 'capture',
      isDurable: true,
      port: Number(new URL(daemon.url).port),
      pids: [daemon.pid],
      description: '--durability fsync',
      connectionsMax: CONNECTIONS_MAX,
      settle: async () => void (await daemon.drain()),
      count: async () => (await daemon.progress()).stored - before,
      // A daemon cannot delete all events, so it continues with everything that it has stored.
      async clear() {
        before = (await daemon.progress()).stored
      },
    },
  ]
}

async function fastify(context: BenchContext): Promise<readonly Peer[]> {
  const { port, pids, version, query } = await startFastify(context)
  return [
    {
      name: FASTIFY_NAME,
      protocol: 'capture',
      isDurable: true,
      port,
      pids,
      description: `${version}, synchronous_commit on`,
      connectionsMax: CONNECTIONS_MAX,
      settle: () => Promise.resolve(),
      count: async () => Number(await query('SELECT count(*) FROM events')),
      async clear() {
        await query('TRUNCATE events')
      },
    },
  ]
}

async function nats(context: BenchContext): Promise<readonly Peer[]> {
  const { port, pid, version, count, clear } = await startNats(context)
  const usual = { isDurable: false, port, pids: [pid], connectionsMax: CONNECTIONS_MAX }
  const actions = { settle: () => Promise.resolve(), count, clear }
  return [
    {
      ...usual,
      ...actions,
      name: 'NATS JetStream',
      protocol: 'nats',
      description: `${version}, a message for each event`,
    },
    {
      ...usual,
      ...actions,
      name: 'NATS JetStream, whole batches',
      protocol: 'nats-batches',
      description: `${version}, the events of a request in one message that it cannot look into`,
    },
  ]
}

async function redis(context: BenchContext): Promise<readonly Peer[]> {
  const { port, pid, version, count, clear } = await startRedis(context)
  return [
    {
      name: 'Redis streams',
      protocol: 'redis',
      isDurable: true,
      port,
      pids: [pid],
      description: version,
      connectionsMax: CONNECTIONS_MAX,
      count,
      clear,
      settle: () => Promise.resolve(),
    },
  ]
}

async function clickHouse(context: BenchContext): Promise<readonly Peer[]> {
  const server = await startClickHouse(context.newFolder(), availableParallelism())
  context.cleanUpWith(() => server.stop())
  await server.query(CLICKHOUSE_TABLE)
  return [
    {
      name: 'ClickHouse',
      protocol: 'clickhouse',
      isDurable: false,
      port: server.port,
      pids: [server.pid],
      connectionsMax: CLICKHOUSE_CONNECTIONS_MAX,
      description: `ClickHouse ${server.version}, HTTP, MergeTree, not flushed before the answer`,
      settle: () => Promise.resolve(),
      count: async () => Number(await server.query('SELECT count() FROM events')),
      async clear() {
        await server.query('DROP TABLE events')
        await server.query(CLICKHOUSE_TABLE)
      },
    },
  ]
}

async function influxDb(context: BenchContext): Promise<readonly Peer[]> {
  const { port, pid, version, count, clear } = await startInfluxDb(context)
  return [
    {
      name: 'InfluxDB',
      protocol: 'influxdb',
      isDurable: true,
      port,
      pids: [pid],
      description: version,
      connectionsMax: CONNECTIONS_MAX,
      count,
      clear,
      settle: () => Promise.resolve(),
    },
  ]
}
