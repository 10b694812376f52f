/** The number of evaluations of a flag, by hour and value. */
import { ago, Card, Chart, Empty, Got, plain, type Shapes, time } from '../../kit.ts'
import type { Flag } from './draft.ts'

const DAYS = 7
const HOUR_MS = 3_600_000

/** The chart of evaluations. */
export function Usage({ flag }: { flag: Flag }) {
  return (
    <Card title="The last seven days">
      <Got route="project/feature_flags/{id}/usage/" values={{ id: flag.id, days: DAYS }}>
        {({ results, last_evaluated_at: last }) =>
          results.length === 0 ? (
            <Empty title="Nobody asked for it.">Evaluations show here within a minute.</Empty>
          ) : (
            <>
              <p class="quiet">Decided last {ago(last)}.</p>
              <Decisions name={flag.key} results={results} />
            </>
          )
        }
      </Got>
    </Card>
  )
}

function Decisions({ name, results }: { name: string; results: Shapes['FlagUsage']['results'] }) {
  const hours = hoursUntil(Date.now())
  const values = [...new Set(results.map(({ value }) => plain(value)))]
  const counts = new Map(results.map(({ at, value, count }) => [`${Date.parse(at)} ${plain(value)}`, count]))
  const lines = values.map((label) => ({ label, data: hours.map((at) => counts.get(`${at} ${label}`) ?? 0) }))
  const labels = hours.map((at) => time(at).slice(0, -3))
  return <Chart label={`Decisions of ${name}`} labels={labels} lines={lines} kind="bars" />
}

/** Returns the starts of all hours of the range, including hours without evaluations. */
function hoursUntil(nowMs: number): readonly number[] {
  const last = Math.floor(nowMs / HOUR_MS) * HOUR_MS
  return Array.from({ length: DAYS * 24 + 1 }, (_, index) => last - (DAYS * 24 - index) * HOUR_MS)
}
