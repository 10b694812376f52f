/** Charts of how often a flag was decided, by hour and value. */
import { ago, Card, Chart, Empty, exact, Got, percent, plain, type Shapes, time } from '../../kit.ts'
import type { Flag } from './draft.ts'

type Rows = Shapes['FlagUsage']['results']

const DAYS = 7
const HOUR_MS = 3_600_000

/** The card with the decisions of a week. */
export function Usage({ flag }: { flag: Flag }) {
  return (
    <Card title="Decisions in the last 7 days">
      <Decisions flag={flag} hours={DAYS * 24} />
    </Card>
  )
}

/**
 * The chart of the decisions of the last hours. It also shows the share of each value, and when the last decision was
 * made.
 */
export function Decisions({ flag, hours }: { flag: Flag; hours: number }) {
  return (
    <Got
      route="project/feature_flags/{id}/usage/"
      values={{ id: flag.id, days: Math.ceil(hours / 24) }}
      everyMs={30_000}
    >
      {({ results, last_evaluated_at: last }) =>
        results.length === 0 ? (
          <Empty title={last === null ? 'No code has asked for this flag yet.' : `Last decision ${ago(last)}.`}>
            Decisions appear here within a few seconds.
          </Empty>
        ) : (
          <>
            <p>
              <Shares results={results} /> <span class="quiet">Last decision {ago(last)}.</span>
            </p>
            <Bars flag={flag} results={results} hours={hours} />
          </>
        )
      }
    </Got>
  )
}

/** Returns a value of a flag in words. Null stands for a decision that failed. */
function wordOf(value: Rows[number]['value']): string {
  if (value === null) return 'failed'
  return value === true ? 'on' : value === false ? 'off' : plain(value)
}

function Shares({ results }: { results: Rows }) {
  const counts = new Map<string, number>()
  for (const { value, count } of results) counts.set(wordOf(value), (counts.get(wordOf(value)) ?? 0) + count)
  const all = [...counts.values()].reduce((sum, count) => sum + count, 0)
  const shares = [...counts].sort(([, one], [, other]) => other - one)
  const words = shares.map(([value, count]) => `${value} ${percent(count / all, 0)}`).join(', ')
  return (
    <>
      <b>{exact(all)}</b> {all === 1 ? 'decision' : 'decisions'}: {words}.
    </>
  )
}

interface BarsProps {
  readonly flag: Flag
  readonly results: Rows
  readonly hours: number
}

function Bars({ flag: { key: name, filters }, results, hours: count }: BarsProps) {
  const variants = (filters.multivariate?.variants ?? []).map(({ key }) => key)
  const hours = hoursUntil(Date.now(), count)
  const found = new Set(results.map(({ value }) => wordOf(value)))
  // Variants are in the order of the flag, so that they have the same colors as elsewhere on the page.
  const values = [...variants.filter((key) => found.delete(key)), ...[...found].sort().reverse()]
  const counts = new Map(results.map(({ at, value, count: times }) => [`${Date.parse(at)} ${wordOf(value)}`, times]))
  const lines = values.map((label) => ({ label, data: hours.map((at) => counts.get(`${at} ${label}`) ?? 0) }))
  const labels = hours.map((at) => time(at).slice(0, -3))
  return <Chart label={`Decisions of ${name}`} labels={labels} lines={lines} kind="bars" isOpen />
}

/** Returns the starts of the last hours, including hours in which the flag was not decided. */
function hoursUntil(nowMs: number, count: number): readonly number[] {
  const last = Math.floor(nowMs / HOUR_MS) * HOUR_MS
  return Array.from({ length: count + 1 }, (_, index) => last - (count - index) * HOUR_MS)
}
