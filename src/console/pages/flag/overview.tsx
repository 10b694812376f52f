/** The overview of a flag: who gets it, its decisions of the last day, a test with one user, and its latest changes. */
import { useState } from 'preact/hooks'
import { Bar, Button, Card, exact, go, may, percent, post, Shown, useLoaded, withQuery } from '../../kit.ts'
import { type Draft, draftOf, type Flag } from './draft.ts'
import { Reach } from './editor.tsx'
import { AskWho } from './explain.tsx'
import { Changes } from './history.tsx'
import type { FlagReferences } from './references.ts'
import { Review } from './review.tsx'
import { audienceOf, shareOf } from './sentences.ts'
import { VariantBar } from './share.tsx'
import { Decisions } from './usage.tsx'
import type { Editing } from './use-draft.ts'

interface OverviewProps {
  readonly flag: Flag
  readonly references: FlagReferences
  readonly editing: Editing
}

const HOURS = 24
const CHANGES_SHOWN = 5

/** The tab with the overview, which opens first. */
export function Overview(props: OverviewProps) {
  const { flag, editing } = props
  return (
    <>
      {editing.isChanged && <Unsaved {...editing} />}
      <div class="split even">
        <div>
          <WhoGetsIt {...props} />
          {may('activity_log:read') && (
            <Card title="Latest changes">
              <Changes {...props} limit={CHANGES_SHOWN} />
            </Card>
          )}
        </div>
        <div>
          <Card title="Decisions in the last 24 hours">
            <Decisions flag={flag} hours={HOURS} />
          </Card>
          <Card title="Test with a user">
            <AskWho />
          </Card>
        </div>
      </div>
    </>
  )
}

/** Tells the reader that this browser tab has unsaved changes of the flag. */
function Unsaved({ discard }: Editing) {
  return (
    <p class="notice row">
      You have changes that are not saved.{' '}
      <Button press={() => go(withQuery({ tab: 'edit' }))}>Continue editing</Button>
      <Button press={discard}>Discard changes</Button>
    </p>
  )
}

function canEdit({ can_edit: isAllowed }: Flag): boolean {
  return isAllowed && may('feature_flag:write')
}

function WhoGetsIt({ flag, references }: Omit<OverviewProps, 'editing'>) {
  const draft = draftOf(flag)
  const { rules, variants } = draft
  const [reviewed, setReviewed] = useState<Draft | null>(null)
  const edit = <Button press={() => go(withQuery({ tab: 'edit' }))}>Edit</Button>
  return (
    <Card title="Who gets it" aside={canEdit(flag) && edit}>
      <div class="stack">
        {rules.length === 0 && <p class="none">The flag has no rules, so nobody gets it.</p>}
        <ol class="rules">
          {rules.map((rule, at) => (
            <li key={`${at} of ${rules.length}`} class="rule">
              <div class="head">
                <b>{audienceOf(rule, references.names)}</b>
                <span class="number">
                  {rule.variant && <span class="badge">always {rule.variant}</span>} {shareOf(rule)} %
                </span>
              </div>
              <Bar share={shareOf(rule) / 100}>
                <Reach rule={rule} references={references} />
              </Bar>
            </li>
          ))}
        </ol>
        {variants.length > 0 && (
          <>
            <VariantBar variants={variants} />
            <ul class="legend">
              {variants.map(({ key, rollout_percentage: share }, at) => (
                <li key={key} style={{ '--color': `var(--series-${at % 8})` }}>
                  <span class="swatch" aria-hidden="true" /> {key} {share} %
                </li>
              ))}
            </ul>
          </>
        )}
        <Total flag={flag} references={references} />
        {canEdit(flag) && <RollOut draft={draft} review={setReviewed} />}
      </div>
      {reviewed && (
        <Review
          flag={flag}
          draft={reviewed}
          names={references.names}
          close={() => setReviewed(null)}
          saved={() => setReviewed(null)}
        />
      )}
    </Card>
  )
}

/** Shows how many persons or groups get the flag. If the flag is off, shows how many would get it if it were on. */
function Total({ flag, references: { names } }: Omit<OverviewProps, 'editing'>) {
  const body = { id: flag.id, active: true, filters: flag.filters }
  const loaded = useLoaded(`total ${flag.version} ${JSON.stringify(body)}`, (signal) =>
    post('project/feature_flags/rehearse/', {}, body, signal),
  )
  return (
    <Shown of={loaded}>
      {({ values, sampled, total }) => {
        const reached = values.reduce((sum, { value, after }) => sum + (value === false ? 0 : after), 0)
        const share = sampled === 0 ? 0 : reached / sampled
        const isSample = sampled < total
        const count = isSample ? `about ${exact(Math.round(share * total))}` : exact(reached)
        return (
          <p>
            {flag.active ? 'The flag reaches ' : 'The flag is off. Switched on, it reaches '}
            <b>
              {count} of {exact(total)} {names.subjects}
            </b>{' '}
            ({percent(share, 0)}).
          </p>
        )
      }}
    </Shown>
  )
}

const STEPS = [10, 25, 50, 100]

/** Buttons that increase the percentage of the last rule. Each opens the review of this change. */
function RollOut({ draft, review }: { draft: Draft; review: (draft: Draft) => void }) {
  const { rules } = draft
  const at = rules.length - 1
  const last = rules[at]
  if (last === undefined || shareOf(last) === 100) return null
  const steps = STEPS.filter((share) => share > shareOf(last))
  const to = (share: number) => review({ ...draft, rules: rules.with(at, { ...last, rollout_percentage: share }) })
  return (
    <p class="row">
      Roll out rule {at + 1} to
      {steps.map((share) => (
        <Button key={share} press={() => to(share)}>
          {share} %
        </Button>
      ))}
    </p>
  )
}
