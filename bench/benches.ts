/** All benches, in the order in which they run and stand in docs/BENCHMARKS.md. */
import { ANALYTICS } from './analytics.ts'
import { BASELINES } from './baselines.ts'
import { CRASH } from './crash.ts'
import { DECIDE } from './decide.ts'
import type { Bench } from './harness.ts'
import { INGEST_BATCH } from './ingest-batch.ts'
import { INGEST_CPU } from './ingest-cpu.ts'
import { INGEST_DISK } from './ingest-disk.ts'
import { INGEST_LATENCY } from './ingest-latency.ts'
import { INGEST_SINGLE } from './ingest-single.ts'
import { INGEST_SUSTAINED } from './ingest-sustained.ts'
import { LARGE_BODIES } from './large-bodies.ts'
import { LARGE_MEMORY } from './large-memory.ts'
import { LIFECYCLE } from './lifecycle.ts'
import { OPERATE } from './operate.ts'
import { PEERS } from './peers.ts'
import { PERSONS } from './persons.ts'
import { RESTART } from './restart.ts'
import { SOAK } from './soak.ts'

export const BENCHES: readonly Bench[] = [
  BASELINES,
  INGEST_SINGLE,
  INGEST_BATCH,
  INGEST_CPU,
  INGEST_SUSTAINED,
  INGEST_LATENCY,
  INGEST_DISK,
  LARGE_BODIES,
  LARGE_MEMORY,
  DECIDE,
  ANALYTICS,
  RESTART,
  PERSONS,
  CRASH,
  OPERATE,
  LIFECYCLE,
  PEERS,
  SOAK,
]
