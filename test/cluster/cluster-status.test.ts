/**
 * Tests the status of a cluster, and the reported risk of losing one more machine or broker.
 *
 * @lane quick
 */
import t from 'tap'
import { clusterStatus, serverAdvice } from '../../src/cli/doctor/cluster-status.ts'
import type { ClusterView } from '../../src/cluster/cluster-view.ts'
import type { NodeReport, StreamState } from '../../src/cluster/shared-stream.ts'

const NOW_MS = 1_700_000_000_000

function stream(current: readonly boolean[]): StreamState {
  const brokers = current.map((isCurrent, index) => ({ name: `broker ${index}`, isCurrent }))
  return { incarnation: 'a', first: 1, last: 100, bytes: 5000, oldestMs: NOW_MS - 60_000, brokers }
}

/** Of partition 0, and of other partitions. */
function events(...states: readonly (StreamState | null)[]): ClusterView['events'] {
  return new Map(states.entries())
}

function node(host: string, changes: Partial<NodeReport> = {}): NodeReport {
  return {
    partition: 0,
    partitions: [0],
    host,
    replica: `${host}0123456789`,
    places: {},
    waiting: 0,
    unsent: 0,
    control: 7,
    position: { incarnation: 'a', sequence: 100 },
    troubles: [],
    warehouse: null,
    isCopying: false,
    ...changes,
  }
}

const ALL = [true, true, true]

function risksOf(changes: Partial<ClusterView>): readonly string[] {
  const healthy = {
    events: events(stream(ALL)),
    control: stream(ALL),
    nodes: [node('one'), node('two')],
    serverVersion: '2.10.27',
  }
  return clusterStatus({ ...healthy, ...changes }, 2, NOW_MS).risks
}

t.test('a healthy cluster may lose one machine or broker of any kind', async (t) => {
  const nodes = [node('one'), node('two', { position: { incarnation: 'a', sequence: 90 } })]
  const view = { events: events(stream(ALL)), control: stream(ALL), nodes, serverVersion: null }
  const { risks, brokers, partitions, ...rest } = clusterStatus(view, 2, NOW_MS)
  t.strictSame(risks, [])
  t.strictSame(brokers, ['broker 0', 'broker 1', 'broker 2'])
  const only = { partition: 0, machines: 2, streamSeconds: 60, streamBytes: 5000 }
  t.strictSame(partitions, [only])
  t.strictSame(
    rest.nodes.map(({ host, behind, catalogue }) => [host, behind, catalogue]),
    [
      ['one', 0, 7],
      ['two', 10, 7],
    ],
  )
})

t.test('a replica of another incarnation has the whole stream still to read', async (t) => {
  const nodes = [node('one', { position: { incarnation: 'b', sequence: 500 } })]
  const view = { events: events(stream(ALL)), control: stream(ALL), nodes, serverVersion: null }
  t.equal(clusterStatus(view, 1, NOW_MS).nodes[0]?.behind, 100)
})

t.test('the status names the data at risk', async (t) => {
  t.match(risksOf({ events: events(null) }), [/No majority of the brokers answers/])
  t.match(risksOf({ events: events(stream([true, false, false])) }), [
    /No majority of the brokers answers/,
  ])
  t.match(risksOf({ events: events(stream([true, true, false])) }), [
    /Only the brokers broker 0, broker 1 are up to date/,
  ])
  t.match(risksOf({ events: events(stream([true])) }), [/fewer than three brokers/])
  t.match(risksOf({ nodes: [node('one', { unsent: 3 }), node('two')] }), [
    /disk of one failed, 3 blocks of events would be lost/,
  ])
  t.match(risksOf({ nodes: [node('one')] }), [/Only 1 of the 2 machines/])
  t.match(risksOf({ nodes: [] }), [/No machine has reported/])
  t.match(risksOf({ nodes: [node('one', { control: 8 }), node('two')] }), [
    /Only one and the brokers have the newest change/,
  ])
  const wait = { warehouse: 'clickhouse:8123/tenrec' }
  t.match(risksOf({ nodes: [node('one', wait), node('two')] }), [
    /Receipts of erasures wait for the warehouse clickhouse:8123\/tenrec/,
  ])
  t.strictSame(
    risksOf({ nodes: [node('one', { ...wait, isCopying: true }), node('two', wait)] }),
    [],
  )
  t.match(risksOf({ nodes: [node('one', { troubles: ['It is ill.'] }), node('two')] }), [
    'one: It is ill.',
  ])
})

t.test('an update is advised for brokers of older versions', async (t) => {
  for (const serverVersion of ['2.9.10', '2.10.22']) {
    t.match(serverAdvice({ serverVersion }), [/Use version 2\.10\.23 or newer/], serverVersion)
  }
  for (const serverVersion of ['2.10.23', '2.15.1', '3.0.0', null]) {
    t.strictSame(serverAdvice({ serverVersion }), [], String(serverVersion))
  }
})

t.test('each partition has its own machines, stream and position', async (t) => {
  const other = { ...stream(ALL), incarnation: 'b', last: 30 }
  const both = { partitions: [0, 1] }
  const place = { incarnation: 'b', sequence: 20 }
  const nodes = [
    node('one', both),
    node('two', both),
    node('three', { ...both, partition: 1, position: place }),
    node('edge', { ...both, partition: null }),
  ]
  const view = {
    events: events(stream(ALL), other),
    control: stream(ALL),
    nodes,
    serverVersion: null,
  }
  const { risks, partitions, nodes: rows } = clusterStatus(view, 2, NOW_MS)
  t.strictSame(
    partitions.map(({ partition, machines }) => [partition, machines]),
    [
      [0, 2],
      [1, 1],
    ],
  )
  t.strictSame(
    rows.map(({ partition, behind }) => [partition, behind]),
    [
      [0, 0],
      [0, 0],
      [1, 10],
      [null, 0],
    ],
  )
  t.match(risks, [/^Only 1 of the 2 machines that should store each event of partition 1 /])
  t.equal(risks.length, 1)
})
