/**
 * Tests that stack traces of built files name the source files. Without a source map, a stack trace stays unchanged.
 *
 * @lane quick
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { withSourcePositions } from '../../src/base/source-positions.ts'

/** Maps line 2, column 3 of the built file to line 12, column 5 of `src/run.ts`. */
const MAP = { version: 3, sources: ['../src/run.ts'], names: [], mappings: ';EAWI' }

t.test('a position in a built file becomes the position in its source', async (t) => {
  const root = t.testdir({ dist: { 'main.js.map': JSON.stringify(MAP) } })
  const built = join(root, 'dist/main.js')
  const source = join(root, 'src/run.ts')
  t.equal(
    withSourcePositions(`Error: no\n    at run (file://${built}:2:3)\n    at ${built}:2:9`, 'no'),
    `Error: no\n    at run (${source}:12:5)\n    at ${source}:12:5`,
  )
})

t.test(
  'a file without a readable map, and a position before the first mapping, stay',
  async (t) => {
    const root = t.testdir({ 'cut.js.map': '{"version":3,', 'main.js.map': JSON.stringify(MAP) })
    const stack = ['plain.js:2:3', 'cut.js:2:3', 'main.js:1:1']
      .map((position) => `    at run (file://${root}/${position})`)
      .join('\n')
    t.equal(withSourcePositions(stack, ''), stack)
    t.equal(withSourcePositions('    at node:internal/fs:12:3', ''), '    at node:internal/fs:12:3')
  },
)

t.test('a message stays, whatever it contains, and a folder may have a blank', async (t) => {
  const root = t.testdir({ 'my dist': { 'main.js.map': JSON.stringify(MAP) } })
  const url = pathToFileURL(join(root, 'my dist/main.js')).href
  const message = `no\n    at run (${url}:2:3)`
  t.equal(
    withSourcePositions(`Error: ${message}\n    at run (${url}:2:3)`, message),
    `Error: ${message}\n    at run (${join(root, 'src/run.ts')}:12:5)`,
  )
})
