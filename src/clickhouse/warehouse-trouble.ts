/** Checks whether a warehouse can be used, for commands that inspect a machine. */
import { parseWarehouse } from '../config/warehouse-address.ts'
import { ClickHouse, WarehouseError } from './clickhouse.ts'
import { LOOK_MS_MAX } from './limits.ts'

/** Returns the reason why ClickHouse does not answer the user in the address, or null if it does. */
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
