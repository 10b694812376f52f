/**
 * The scopes that the console offers for a new key.
 *
 * @lane quick
 */
import t from 'tap'
import {
  READ_ONLY_RESOURCES,
  SCOPE_AREAS,
  SCOPE_PRESETS,
  scopesOfArea,
} from '../../src/console/pages/access/scope-areas.ts'
import { isScope, SCOPES } from '../../src/rules/access/scopes.ts'

t.test('the areas have exactly the scopes that routes require', (t) => {
  const scopes = SCOPE_AREAS.flatMap((area) => [
    ...scopesOfArea(area, 'read'),
    ...scopesOfArea(area, 'write'),
  ])
  t.strictSame([...new Set(scopes)].toSorted(), [...SCOPES].toSorted())
  const resources = [...new Set(SCOPES.map((scope) => scope.replace(/:.*/, '')))]
  const readOnly = resources.filter((one) => !SCOPES.some((scope) => scope === `${one}:write`))
  t.strictSame(READ_ONLY_RESOURCES.toSorted(), readOnly.toSorted())
  t.end()
})

t.test('the presets have known scopes, and the first one changes nothing', (t) => {
  for (const { id, scopes } of SCOPE_PRESETS) t.ok(scopes.length > 0 && scopes.every(isScope), id)
  t.notOk(SCOPE_PRESETS[0]?.scopes.some((scope) => !scope.endsWith(':read')))
  t.end()
})
