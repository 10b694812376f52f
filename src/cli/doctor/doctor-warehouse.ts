/** The check of `tenrec doctor` on the warehouse: whether ClickHouse answers, and takes what is needed. */
import type { Settings } from '../../config/settings.ts'
import { warehouseTrouble } from '../../warehouse/warehouse-trouble.ts'
import { type Finding, fine, problem, warning } from './doctor-finding.ts'

const CHECK = 'warehouse'

/** Whether the warehouse of the settings can be used. Asks it once. */
export async function checkWarehouse(settings: Settings): Promise<readonly Finding[]> {
  const { warehouse, warehouseKeepDays } = settings
  if (warehouse === null) return []
  const trouble = await warehouseTrouble(warehouse)
  if (trouble === null) return [fine(CHECK, 'ClickHouse answers')]
  // What has left the store is nowhere else.
  if (warehouseKeepDays !== null) return [problem(CHECK, `${trouble}: questions get 503`)]
  return [warning(CHECK, `${trouble}: nothing is copied until it does`)]
}
