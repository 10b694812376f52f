/** The buttons for the steps of an experiment. Each first asks a question that says what will happen. */
import { Ask, go, inProjectPath, may, patch, post, say } from '../../kit.ts'
import { CONCLUSIONS, type Experiment, metricsIn, stateOf } from './words.ts'

const JUDGED = [['', 'No judgment yet'], ...CONCLUSIONS] as const
const COMMENT = { label: 'Comment', type: 'area' } as const

interface StepProps {
  readonly experiment: Experiment
}

/** The buttons for the steps that are possible in the current state of an experiment. */
export function Steps({ experiment }: StepProps) {
  if (!may('experiment:write')) return null
  const state = stateOf(experiment)
  const isRunning = state === 'Running' || state === 'Paused'
  return (
    <>
      {state === 'Draft' && <Launch experiment={experiment} />}
      {isRunning && <Pause experiment={experiment} isPaused={state === 'Paused'} />}
      {isRunning && <End experiment={experiment} />}
      {state !== 'Draft' && <Ship experiment={experiment} />}
      <details class="flag-menu">
        <summary>More</summary>
        <div>
          <Duplicate experiment={experiment} />
          {state === 'Ended' && <Archive experiment={experiment} />}
          {state !== 'Draft' && <Reset experiment={experiment} />}
          <Delete experiment={experiment} />
        </div>
      </details>
    </>
  )
}

function judgment({ conclusion, comment }: { readonly conclusion: string; readonly comment: string }) {
  return {
    conclusion: conclusion === '' ? null : (conclusion as 'won'),
    conclusion_comment: comment === '' ? null : comment,
  }
}

function Launch({ experiment }: StepProps) {
  const { id, feature_flag_key: key } = experiment
  async function submit() {
    await post('project/experiments/{id}/launch/', { id }, {})
    say('The experiment runs.')
  }
  return (
    <Ask label="Launch" title="Launch the experiment?" isDangerous={false} submit={submit}>
      <p>
        The flag {key} is switched on. Each person who meets its conditions gets one of the variants and keeps it.
        Counting begins now, and the variants can no longer change.
      </p>
      {metricsIn(experiment, 'metrics').length === 0 && (
        <p class="worse">There is no primary metric yet, so nothing would decide.</p>
      )}
    </Ask>
  )
}

function Pause({ experiment: { id, feature_flag_key: key }, isPaused }: StepProps & { isPaused: boolean }) {
  const step = isPaused ? 'resume' : 'pause'
  const label = isPaused ? 'Resume' : 'Pause'
  async function submit() {
    await post(`project/experiments/{id}/${step}/`, { id }, {})
    say(isPaused ? 'The experiment runs again.' : 'The experiment is paused.')
  }
  return (
    <Ask label={label} title={`${label} the experiment?`} isDangerous={false} submit={submit}>
      {isPaused
        ? `The flag ${key} is switched on again. Everybody gets the same variant as before.`
        : `The flag ${key} is switched off. Nobody gets a variant until you resume the experiment. Everybody sees what the code shows without the flag.`}
    </Ask>
  )
}

function End({ experiment: { id, feature_flag_key: key } }: StepProps) {
  return (
    <Ask
      label="End"
      title="End the experiment?"
      action="End the experiment"
      fields={{ conclusion: { kind: 'choice', label: 'Judgment', options: JUDGED }, comment: COMMENT }}
      submit={async (values) => {
        await post('project/experiments/{id}/end/', { id }, judgment(values))
        say('The experiment has ended.')
      }}
    >
      <p>
        Events after this moment do not count. The flag {key} stays on, and everybody keeps their variant until you ship
        one.
      </p>
    </Ask>
  )
}

function Ship({ experiment: { id, feature_flag_key: key, parameters, end_date: end } }: StepProps) {
  const variants = (parameters.feature_flag_variants ?? []).map(({ key: one }) => [one, one] as const)
  return (
    <Ask
      label="Ship a variant"
      title="Ship a variant to everybody?"
      action="Ship the variant"
      isDangerous
      fields={{
        variant: { kind: 'choice', label: 'Variant', options: variants, value: variants.at(-1)?.[0] ?? '' },
        conclusion: { kind: 'choice', label: 'Judgment', options: JUDGED },
        comment: COMMENT,
      }}
      submit={async ({ variant, ...values }) => {
        const { conclusion, conclusion_comment: comment } = judgment(values)
        const judged = {
          ...(conclusion !== null && { conclusion }),
          ...(comment !== null && { conclusion_comment: comment }),
        }
        await post('project/experiments/{id}/ship_variant/', { id }, { variant_key: variant, ...judged })
        say(`Everybody gets “${variant}”.`)
      }}
    >
      <p>
        From now on everybody gets this variant, also persons who had another one and persons who did not take part. The
        flag {key} is switched on, gets a first condition for 100 %, and the other variants get 0 %.{' '}
        {end === null && 'The experiment ends.'} The history of the flag keeps its conditions of today.
      </p>
    </Ask>
  )
}

function Duplicate({ experiment: { id, name, feature_flag_key: key } }: StepProps) {
  return (
    <Ask
      label="Duplicate"
      title={`Duplicate ${name}`}
      fields={{
        name: { label: 'Name of the copy', value: `${name} (copy)`, isRequired: true },
        key: { label: 'Flag key of the copy', value: `${key}-2`, isRequired: true },
      }}
      submit={async (values) => {
        const body = { name: values.name, feature_flag_key: values.key }
        const copy = await post('project/experiments/{id}/duplicate/', { id }, body)
        go(inProjectPath(`/experiments/${copy.id}`))
      }}
    />
  )
}

function Archive({ experiment: { id, archived } }: StepProps) {
  const [step, label] = archived ? (['unarchive', 'Restore'] as const) : (['archive', 'Archive'] as const)
  return (
    <Ask
      label={label}
      title={`${label} the experiment?`}
      isDangerous={false}
      submit={() => post(`project/experiments/{id}/${step}/`, { id }, {})}
    >
      {archived ? 'The list shows it again.' : 'The list no longer shows it, except under “Archived”.'}
    </Ask>
  )
}

function Reset({ experiment: { id } }: StepProps) {
  return (
    <Ask label="Reset" title="Reset the experiment?" submit={() => post('project/experiments/{id}/reset/', { id }, {})}>
      It becomes a draft again, without start, end and judgment. The events stay, and the flag stays as it is.
    </Ask>
  )
}

function Delete({ experiment: { id, name } }: StepProps) {
  async function submit() {
    await patch('project/experiments/{id}/', { id }, { deleted: true })
    go(inProjectPath('/experiments'))
  }
  return (
    <Ask label="Delete" action="Delete the experiment" title={`Delete ${name}?`} submit={submit}>
      The flag stays as it is, and everybody keeps their variant.
    </Ask>
  )
}
