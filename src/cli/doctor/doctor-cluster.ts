/**
 * The cluster check of `tenrec doctor`: what would be lost if a machine or broker failed, and which brokers are too
 * old.
 */
import type { Settings } from '../../config/settings.ts'
import { type Finding, fine, warning } from './doctor-finding.ts'

const CHECK = 'cluster'

/** Asks the brokers in the settings, and listens to the machines for some seconds. */
export async function checkCluster(
  { cluster, clusterCopies }: Pick<Settings, 'cluster' | 'clusterCopies'>,
  nowMs: number,
): Promise<readonly Finding[]> {
  const { lookAtCluster } = await import('../../cluster/cluster-view.ts')
  const { clusterStatus, serverAdvice } = await import('./cluster-status.ts')
  const view = await lookAtCluster(cluster)
  const { nodes, partitions, risks } = clusterStatus(view, clusterCopies, nowMs)
  const found = [...risks, ...serverAdvice(view)]
  if (found.length > 0) return found.map((text) => warning(CHECK, text))
  const of = partitions.length === 1 ? '' : ` with ${partitions.length} partitions`
  const what = `The cluster has ${nodes.length} machines${of}. No data would be lost if one machine or one broker failed.`
  return [fine(CHECK, what)]
}
