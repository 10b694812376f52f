/** The warehouse check of `tenrec doctor`: whether ClickHouse answers and supports what Tenrec needs. */

import { warehouseTrouble } from '../../clickhouse/warehouse-trouble.ts'
import type { Settings } from '../../config/settings.ts'
import { type Finding, fine, problem, warning } from './doctor-finding.ts'

const CHECK = 'warehouse'

/** Checks whether the warehouse in the settings can be used. Sends one request to it. */
export async function checkWarehouse(settings: Settings): Promise<readonly Finding[]> {
  const { warehouse, warehouseKeepDays } = settings
  if (warehouse === null) return []
  const trouble = await warehouseTrouble(warehouse)
  if (trouble === null) return [fine(CHECK, 'ClickHouse answers.')]
  // With `warehouseKeepDays`, the properties of old events are only in the warehouse. Queries need it then, so this is
  // a problem and not a warning.
  if (warehouseKeepDays !== null)
    return [
      problem(CHECK, `ClickHouse cannot be used, so queries are answered with 503: ${trouble}`),
    ]
  return [warning(CHECK, `ClickHouse cannot be used, so no events are copied: ${trouble}`)]
}
