/**
 * `tenrec cluster ...`: prints the status of a cluster, and removes the record of its warehouse. The status is read
 * from the brokers, so no daemon needs to run.
 */
import { OperatorError } from '../../base/errors.ts'
import { bytesText } from '../doctor/doctor-finding.ts'
import { type Commands, JSON_OPTION } from '../lib/command.ts'
import { print } from '../lib/output.ts'
import { changeOrganization, readOrganization } from '../lib/with-store.ts'

const AT_RISK = 3

/** `tenrec cluster`. */
export const COMMANDS: Commands = [
  {
    name: 'cluster status',
    sentence:
      'Print the progress of each machine of a cluster, and what would be lost if one more machine failed. The exit code is 0 if nothing would be lost, and 3 otherwise.',
    options: JSON_OPTION,
    settings: ['dataDir', 'cluster', 'clusterCopies'],
    async run(input) {
      const { io, isJson } = input
      const { cluster, clusterCopies, dataDir } = input.settings()
      // The module is loaded here, so that other commands do not load the NATS client.
      const { lookAtCluster } = await import('../../cluster/cluster-view.ts')
      const { clusterStatus } = await import('../doctor/cluster-status.ts')
      const { notedBrokers } = await import('../../cluster/shared-change.ts')
      const servers = cluster.length > 0 ? cluster : notedBrokers(dataDir)
      if (servers.length === 0) {
        throw new OperatorError(
          'This data directory does not belong to a cluster. Name the brokers of a cluster with --cluster.',
        )
      }
      const view = await lookAtCluster(servers)
      const status = clusterStatus(view, clusterCopies, io.clock.now())
      const { brokers, nodes, risks } = status
      const partitions = status.partitions.map((one) => ({
        partition: one.partition,
        machines: one.machines,
        stream_seconds: one.streamSeconds,
        stream_bytes: one.streamBytes,
      }))
      const row = { brokers, partitions, nodes, risks }
      print(io, isJson ? row : readable(row), isJson)
      return risks.length === 0 ? 0 : AT_RISK
    },
  },
  {
    name: 'cluster forget-warehouse',
    sentence:
      'Forget the warehouse of a cluster, so that receipts of erasures no longer wait for it. No machine may still copy to it. Delete the data in the warehouse yourself.',
    async run(input) {
      const name = await readOrganization(input, ({ warehouse }) => warehouse)
      if (name === null)
        throw new OperatorError(
          'No warehouse is recorded for this cluster, so there is nothing to forget.',
        )
      const { lookAtCluster } = await import('../../cluster/cluster-view.ts')
      const { notedBrokers } = await import('../../cluster/shared-change.ts')
      const { nodes } = await lookAtCluster(notedBrokers(input.dataDir))
      const copying = nodes.find(({ isCopying }) => isCopying)
      if (copying !== undefined) {
        const what = `${copying.host} still copies to ${name}. Restart it without the setting \`warehouse\` first.`
        throw new OperatorError(what)
      }
      await changeOrganization(input, (store) => store.noteWarehouse(null))
      return { warehouse: name, forgotten: true }
    },
  },
]

interface Row {
  readonly brokers: readonly string[]
  readonly partitions: readonly {
    readonly partition: number
    readonly machines: number
    readonly stream_seconds: number | null
    readonly stream_bytes: number | null
  }[]
  readonly nodes: readonly object[]
  readonly risks: readonly string[]
}

/** Returns the status for people: a record with one line for each fact. */
function readable({ nodes, risks, brokers, partitions }: Row): object {
  const lines = nodes.map((node) =>
    Object.entries(node)
      .map(([name, value]) => `${name} ${value ?? (name === 'partition' ? 'none' : 'unknown')}`)
      .join(', '),
  )
  const streams = partitions.map(
    ({ partition, machines, stream_bytes: bytes, ...row }): [string, string] => {
      const stream =
        bytes === null ? 'unknown' : `${bytesText(bytes)}, ${row.stream_seconds ?? 0} s`
      return [`partition_${partition}`, `machines ${machines}, stream ${stream}`]
    },
  )
  return {
    brokers: brokers.join(', ') || 'no majority',
    ...Object.fromEntries(streams),
    ...Object.fromEntries(lines.map((line, index) => [`machine_${index + 1}`, line])),
    risks: risks.join(' ') || 'none',
  }
}
