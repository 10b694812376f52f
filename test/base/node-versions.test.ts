/**
 * Tests which releases of Node are supported, and the message that users of an old release get.
 *
 * @lane quick
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { nodeObstacle, nodeRange } from '../../src/base/node-versions.ts'

t.test('supported release lines of Node are accepted, others are named', async (t) => {
  for (const version of ['20.19.0', '20.20.2', '22.0.0', '22.23.5', '24.0.0', '26.12.1']) {
    t.equal(nodeObstacle(version), null, version)
  }
  for (const version of ['18.20.4', '20.18.3', '21.7.0', '23.1.0', '25.9.0', '27.0.0', '']) {
    t.match(
      nodeObstacle(version),
      new RegExp(`^Node\\.js ${version} is not supported\\. .*20\\.19`),
    )
  }
})

t.test('package.json names the same releases', async (t) => {
  const { engines } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    readonly engines: { readonly node: string }
  }
  t.equal(engines.node, nodeRange())
})

t.test('on an unsupported Node nothing is loaded or written', async (t) => {
  const dataDir = join(t.testdir(), 'data')
  const preload = "Object.defineProperty(process.versions, 'node', { value: '18.20.4' })"
  for (const script of ['dist/main.js', '.ci/prepare.mjs']) {
    const child = spawnSync(
      process.execPath,
      [
        `--import=data:text/javascript,${encodeURIComponent(preload)}`,
        script,
        'serve',
        '--data-dir',
        dataDir,
      ],
      { encoding: 'utf8' },
    )
    t.match(
      child.stderr,
      /^tenrec: Node\.js 18\.20\.4 is not supported\. [^\n]* Nothing was changed\.\n$/,
    )
    t.equal(child.stdout, '')
    t.not(child.status, 0)
    t.notOk(existsSync(dataDir))
  }
})
