/** The check of `tenrec doctor` on a cluster: what would be lost with one more machine or broker. */
import type { Settings } from '../../config/settings.ts'
import { type Finding, fine, warning } from './doctor-finding.ts'

const CHECK = 'cluster'

/** Asks the brokers of the settings, and listens to the machines for some seconds. */
export async function checkCluster(
  { cluster, clusterCopies }: Pick<Settings, 'cluster' | 'clusterCopies'>,
  nowMs: number,
): Promise<readonly Finding[]> {
  const { lookAtCluster, clusterStatus } = await import('../../cluster/cluster-status.ts')
  const { nodes, risks } = clusterStatus(await lookAtCluster(cluster), clusterCopies, nowMs)
  if (risks.length > 0) return risks.map((risk) => warning(CHECK, risk))
  const what = `${nodes.length} machines follow, and one of them or a broker may be lost`
  return [fine(CHECK, what)]
}
