/**
 * How a data directory that was never one of several gets its catalogue, before anything is served: that of the
 * cluster when there is one; else its own becomes it, and is made first where there is none.
 */
import { OperatorError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { warehouseName } from '../config/warehouse-address.ts'
import { SHARED_CATALOGUE } from '../store/catalog/organization-store.ts'
import { ControlState } from './control-state.ts'
import { JOIN_MS_MAX } from './limits.ts'
import { CONTROL_STREAM, NatsBrokers } from './nats.ts'
import { shareChange } from './shared-change.ts'

const LOOK_MS = 50
const TELL_MS = 5000

/** What is joined to what. */
export interface JoinOptions {
  /** Locked by this process, and nobody has its catalogue open to write. */
  readonly dataDir: string
  readonly servers: readonly string[]
  readonly logger: Logger
  /** To which this machine copies events, as in `parseWarehouse`; null: to none. */
  readonly warehouse: string | null
  /** Makes a catalogue if there is none, and tells whether it has made one. */
  readonly fill: () => boolean
}

/**
 * Answers whether the catalogue of the directory is the one that it had. A directory that has been one of several
 * goes on with what it has, with or without brokers; others wait for them. Throws `OperatorError` when none answers
 * within a minute, and when the cluster has the catalogue of another organization, or another warehouse.
 */
export async function joinCatalogue(options: JoinOptions): Promise<boolean> {
  const isKept = await join(options)
  const { dataDir, servers, warehouse } = options
  const name = warehouse === null ? null : warehouseName(warehouse)
  if (name === null || (await SHARED_CATALOGUE.warehouse(dataDir)) === name) return isKept
  const note = () => shareChange(dataDir, () => SHARED_CATALOGUE.warehouse(dataDir, name), servers)
  // Before anything is copied, so that receipts of erasures wait for this machine. Brokers may just be choosing a leader.
  const known = await note().catch(note).catch(note)
  if (known === name) return isKept
  const how = "'tenrec cluster forget-warehouse' on one of its machines, before it has another one"
  throw new OperatorError(`the cluster has the warehouse ${known}: ${how}`)
}

async function join(options: JoinOptions): Promise<boolean> {
  const { dataDir, servers, logger, fill } = options
  const copy = SHARED_CATALOGUE.open(dataDir)
  try {
    if (copy.place() !== null) {
      fill()
      return true
    }
    const brokers = new NatsBrokers(servers, logger)
    const control = new ControlState({
      ...{ stream: brokers.stream(CONTROL_STREAM), copy, place: null, logger },
      onChange: () => {},
      onEmpty: () => {
        if (fill()) copy.isNew = true
      },
    })
    try {
      await settled(control, logger)
      await control.caughtUp(JOIN_MS_MAX)
      return control.isBeginner
    } finally {
      control.close()
      await brokers.close()
    }
  } finally {
    await copy.close()
  }
}

async function settled(control: ControlState, logger: Logger): Promise<void> {
  const startedAtMs = performance.now()
  let tellAtMs = startedAtMs + TELL_MS
  while (!control.isSettled) {
    if (control.failure instanceof OperatorError) throw control.failure
    const now = performance.now()
    if (now > startedAtMs + JOIN_MS_MAX) {
      const what = control.trouble ?? 'no majority of brokers answers, and they have the catalogue'
      throw new OperatorError(what, { cause: control.failure })
    }
    if (now > tellAtMs) {
      logger.warn('waiting for a majority of the brokers, which have the catalogue')
      tellAtMs = Number.POSITIVE_INFINITY
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
}
