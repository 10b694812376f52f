/**
 * `tenrec project`: the rules for paths and channels are the same as in the API.
 *
 * @lane quick
 */
import t from 'tap'
import { runCommand } from '../fixtures/command-line.ts'

const PATHS = [{ regex: '/users/[0-9]+', alias: '/users/:id' }]
const CHANNELS = [
  {
    channel_type: 'Ads',
    combiner: 'AND',
    items: [{ key: 'utm_source', op: 'exact', value: 'ads' }],
  },
]

t.test('a project has rules for paths and channels', async (t) => {
  const dataDir = t.testdir()
  const run = (...args: string[]) => runCommand(...args, '--data-dir', dataDir)
  await run('init')
  const options = [
    '--path-cleaning-filters',
    JSON.stringify(PATHS),
    '--custom-channel-type-rules',
    JSON.stringify(CHANNELS),
    '--json',
  ]
  const expected = { path_cleaning_filters: PATHS, custom_channel_type_rules: CHANNELS }
  t.match(JSON.parse((await run('project', 'set', '1', ...options)).out), expected)
  t.match(JSON.parse((await run('project', 'show', '1', '--json')).out), expected)
  const created = await run('project', 'create', '--name', 'Two', ...options)
  t.match(JSON.parse(created.out), expected)
  const none = await run('project', 'set', '1', '--path-cleaning-filters', '[]', '--json')
  t.match(JSON.parse(none.out), { path_cleaning_filters: [], custom_channel_type_rules: CHANNELS })

  const refused: readonly (readonly [string, string, RegExp, number])[] = [
    ['path-cleaning-filters', '{}', /JSON list of objects/, 2],
    ['path-cleaning-filters', '[{"regex": "a"}]', /`regex` and `alias`/, 2],
    ['path-cleaning-filters', '[{"regex": "(", "alias": "x"}]', /pattern that cannot be used/, 1],
    ['custom-channel-type-rules', '[{"channel_type": "x", "combiner": "XOR"}]', /AND or OR/, 2],
    [
      'custom-channel-type-rules',
      '[{"channel_type": "x", "combiner": "OR", "items": [{"key": "color", "op": "exact"}]}]',
      /must be one of utm_source/,
      2,
    ],
  ]
  for (const [name, value, message, code] of refused) {
    const answer = await run('project', 'set', '1', `--${name}`, value)
    t.match(answer.err, message, value)
    t.equal(answer.exitCode, code, value)
  }
})
