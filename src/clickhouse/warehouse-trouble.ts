/** Checks whether ClickHouse can be used, for commands that inspect a machine, such as `tenrec doctor`. */
import { parseWarehouse } from '../config/warehouse-address.ts'
import { ClickHouse, WarehouseError } from './clickhouse.ts'
import { LOOK_MS_MAX } from './limits.ts'

/**
 * Sends ClickHouse a trivial query as the user in the address. Returns null if ClickHouse answers, otherwise the reason
 * for the failure.
 */
export async function warehouseTrouble(address: string): Promise<string | null> {
  const parsed = parseWarehouse(address)
  if (parsed === null) return 'the address is not valid'
  const clickhouse = new ClickHouse(parsed)
  try {
    await clickhouse.ask('SELECT 1', { msMax: LOOK_MS_MAX, isAnywhere: true })
    return null
  } catch (cause) {
    if (cause instanceof WarehouseError) return cause.message
    throw cause
  }
}
