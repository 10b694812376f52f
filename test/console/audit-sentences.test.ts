/**
 * The sentences of the page Audit.
 *
 * @lane quick
 */
import t from 'tap'
import { sentenceOfChange } from '../../src/console/pages/audit/sentence.ts'

const change = (method: string | null, route: string, id: string | null = null, status = 200) =>
  sentenceOfChange({ method, route, object_id: id, status })

t.test('changes are sentences', (t) => {
  const flags = '/api/projects/:project_id/feature_flags/'
  for (const [method, route, id, sentence] of [
    ['POST', flags, '12', 'created the flag 12'],
    ['PATCH', `${flags}:id/`, '12', 'changed the flag 12'],
    ['POST', `${flags}:id/role_access/`, '3', 'created the role access of the flag 3'],
    ['PATCH', '/api/projects/:project_id/', '1', 'changed the settings of the project 1'],
    ['POST', '/api/projects/', '2', 'created the project 2'],
    ['DELETE', '/api/personal_api_keys/:id/', '7', 'revoked the personal key 7'],
    ['POST', '/api/personal_api_keys/:id/roll/', '7', 'replaced the personal key 7'],
    ['POST', '/api/console/session/', '9', 'logged in to the console'],
    ['POST', '/api/organizations/:org_id/invites/', '4', 'created the invitation 4'],
    ['POST', '/api/organizations/:org_id/dead_letters/drop/', null, 'discarded failed events'],
    [
      'POST',
      '/api/projects/:project_id/experiments/:id/create_exposure_cohort_for_experiment/',
      '8',
      'saved the persons of the experiment 8 as a cohort',
    ],
    ['PUT', '/api/projects/:project_id/retention/', null, 'changed the data retention'],
    ['POST', '/api/projects/:project_id/persons/:id/split/', 'u', 'split the person u'],
    [
      'POST',
      '/api/projects/:project_id/cohorts/:cohort_id/calculate/',
      '4',
      'counted the members of the cohort 4 again',
    ],
  ] as const) {
    t.equal(change(method, route, id), sentence, `${method} ${route}`)
    t.match(change(method, route, id, 403), /^tried to .*, but was refused$/)
  }
  t.equal(
    change('PATCH', `${flags}:id/`, '12', 403),
    'tried to change the flag 12, but was refused',
  )
  t.equal(
    change('PATCH', `${flags}:id/`, '12', 500),
    'tried to change the flag 12, but the request failed',
  )
  t.equal(change('POST', '/api/new_things/', null, 400), 'tried POST new_things/, but was refused')
  t.equal(
    change(null, 'scheduled change 3: ramp, step 2 of 4: 25 %', '12'),
    'schedule of the flag 12: ramp, step 2 of 4: 25 %',
  )
  t.equal(change(null, 'user create'), 'ran the command user create')
  t.equal(change('POST', '/api/new_things/:id/', '5'), 'POST new_things/:id/ 5')
  t.end()
})
