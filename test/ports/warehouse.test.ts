/**
 * Tests the segments on disk and a warehouse in memory against src/ports/warehouse.ts.
 *
 * @lane quick
 */
import t from 'tap'
import { EventReader } from '../../src/store/events/read/event-reader.ts'
import { ProcessingWriter } from '../../src/store/events/write/processing-writer.ts'
import { SharedBlocks } from './memory-log.ts'
import { MemoryWarehouse, MemoryWarehouseWriter } from './memory-warehouse.ts'
import { type WarehouseMaker, warehouseContract } from './warehouse-contract.ts'

function maker(isInMemory: boolean): WarehouseMaker {
  return (t) => {
    const dataDir = t.testdir()
    const shared = new SharedBlocks()
    const warehouse = new MemoryWarehouseWriter(shared)
    const store = new ProcessingWriter({ dataDir, ...(isInMemory ? { warehouse } : {}) })
    t.teardown(() => store.close())
    const open = () => {
      const reader = new EventReader({ dataDir })
      t.teardown(() => reader.close())
      return isInMemory ? new MemoryWarehouse(shared, reader) : reader
    }
    return { store, open }
  }
}

warehouseContract(t, 'embedded', maker(false))
warehouseContract(t, 'in memory', maker(true))
