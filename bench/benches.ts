/** All benches, in the order in which they run and appear in docs/BENCHMARKS.md. */
import { ANALYTICS } from './analytics/analytics.ts'
import { QUERIES } from './analytics/queries.ts'
import { QUERY_ANSWERS } from './analytics/query-answers.ts'
import { BASELINES } from './baselines.ts'
import { CLUSTER_ACCEPTING } from './cluster/cluster-accepting.ts'
import { CLUSTER_FAILOVER } from './cluster/cluster-failover.ts'
import { CLUSTER_FAULTS } from './cluster/cluster-faults.ts'
import { WAREHOUSE_COPY } from './cluster/warehouse-copy.ts'
import { CONSOLE } from './console/console.ts'
import { DECIDE } from './decide/decide.ts'
import { FLAG_PLAN } from './decide/flag-plan.ts'
import { GUARD_BREACH } from './decide/guard-breach.ts'
import { LISTENERS } from './decide/listeners.ts'
import { EXPERIMENT_RESULTS } from './experiments/experiment-results.ts'
import { EXPERIMENTS } from './experiments/experiments.ts'
import { IDLE_EXPERIMENTS } from './experiments/idle-experiments.ts'
import type { Bench } from './harness.ts'
import { HTTP_SERVERS } from './ingest/http-servers.ts'
import { INGEST_BATCH } from './ingest/ingest-batch.ts'
import { INGEST_CPU } from './ingest/ingest-cpu.ts'
import { INGEST_DISK } from './ingest/ingest-disk.ts'
import { INGEST_LATENCY } from './ingest/ingest-latency.ts'
import { INGEST_SINGLE } from './ingest/ingest-single.ts'
import { INGEST_SUSTAINED } from './ingest/ingest-sustained.ts'
import { LARGE_BODIES } from './ingest/large-bodies.ts'
import { LARGE_MEMORY } from './ingest/large-memory.ts'
import { CRASH } from './operate/crash.ts'
import { IMPORT } from './operate/import.ts'
import { LIFECYCLE } from './operate/lifecycle.ts'
import { OPERATE } from './operate/operate.ts'
import { RESTART } from './operate/restart.ts'
import { SOAK } from './operate/soak.ts'
import { PEERS } from './peers/peers.ts'
import { PERSONS } from './persons/persons.ts'
import { UUID_INDEX } from './uuid-index/uuid-index.ts'

export const BENCHES: readonly Bench[] = [
  BASELINES,
  INGEST_SINGLE,
  HTTP_SERVERS,
  INGEST_BATCH,
  INGEST_CPU,
  INGEST_SUSTAINED,
  INGEST_LATENCY,
  INGEST_DISK,
  UUID_INDEX,
  LARGE_BODIES,
  LARGE_MEMORY,
  DECIDE,
  LISTENERS,
  FLAG_PLAN,
  GUARD_BREACH,
  ANALYTICS,
  QUERIES,
  QUERY_ANSWERS,
  RESTART,
  PERSONS,
  CRASH,
  OPERATE,
  IMPORT,
  LIFECYCLE,
  CLUSTER_ACCEPTING,
  CLUSTER_FAILOVER,
  WAREHOUSE_COPY,
  CLUSTER_FAULTS,
  CONSOLE,
  EXPERIMENTS,
  EXPERIMENT_RESULTS,
  IDLE_EXPERIMENTS,
  PEERS,
  SOAK,
]
