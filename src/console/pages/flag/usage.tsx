/** How often a flag is decided, hour by hour and value by value. */
import { ago, Card, Chart, Empty, plain, Shown, TakeAlong, time, useGet } from '../../kit.ts'
import type { Flag } from './draft.ts'

const DAYS = 7

/** The chart. */
export function Usage({ flag }: { readonly flag: Flag }) {
  const loaded = useGet('project/feature_flags/{id}/usage/', { id: flag.id, days: DAYS })
  return (
    <Card title="The last seven days">
      <Shown of={loaded}>
        {({ results, last_evaluated_at: last }) => {
          const hours = [...new Set(results.map(({ at }) => at))].sort()
          const values = [...new Set(results.map(({ value }) => plain(value)))]
          const counts = new Map(results.map(({ at, value, count }) => [`${at} ${plain(value)}`, count]))
          const lines = values.map((label) => ({
            label,
            data: hours.map((at) => counts.get(`${at} ${label}`) ?? 0),
          }))
          if (hours.length === 0)
            return <Empty title="Nobody asked for it.">Evaluations show here within a minute.</Empty>
          return (
            <>
              <p>Decided last {ago(last)}.</p>
              <Chart
                label={`Decisions of ${flag.key}`}
                labels={hours.map((at) => time(at).slice(0, -3))}
                lines={lines}
                kind="bars"
              />
              <TakeAlong
                name={flag.key}
                head={['hour', ...values]}
                rows={() => hours.map((at, index) => [at, ...lines.map(({ data }) => data[index])])}
              />
            </>
          )
        }}
      </Shown>
    </Card>
  )
}
