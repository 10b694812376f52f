/**
 * Tests a packaged or unpackaged Tenrec from outside: start, console, capture, read back, a flag and its decision, a
 * query, a backup, stop, and the same event after another start. Plain Node without dependencies.
 *
 * node .ci/smoke.mjs COMMAND [ARGUMENT ...]    such as `node24 dist/main.js`, or the path of an executable
 *
 * Prints the results. Its exit code is 1 if a check fails.
 */
import { strict as assert } from 'node:assert'
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const READY_MS_MAX = 60_000
const VISIBLE_MS_MAX = 30_000
const EVENT = '0190a3f2-6d1c-7b5e-8a11-2f3c4d5e6f70'

const words = process.argv.slice(2)
if (words.length === 0) {
  process.stderr.write('usage: node .ci/smoke.mjs COMMAND [ARGUMENT ...]\n')
  process.exit(64)
}
const [program, ...first] = words
const folder = mkdtempSync(join(tmpdir(), 'tenrec-smoke-'))
const dataDir = join(folder, 'data')

function say(what) {
  process.stdout.write(`${what}\n`)
}

/** Runs a command of Tenrec to its end and returns what it printed. */
function run(...args) {
  const child = spawnSync(program, [...first, ...args], { encoding: 'utf8' })
  assert.equal(child.status, 0, `${args.join(' ')}: ${child.stderr}${child.error ?? ''}`)
  return child.stdout
}

/** Starts the daemon. Resolves to its ready line and a function that stops it. */
async function start() {
  const startedAtMs = performance.now()
  const args = ['serve', '--data-dir', dataDir, '--port', '0', '--log-format', 'json']
  const child = spawn(program, [...first, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  const lines = []
  const ended = new Promise((resolve) => {
    child.once('error', (error) => lines.push(String(error)))
    child.once('close', (code, signal) => resolve(code ?? signal))
  })
  const ready = await new Promise((resolve, reject) => {
    const fail = (reason) => {
      child.kill('SIGKILL')
      reject(new Error(`no daemon: ${reason}\n${lines.join('\n')}`))
    }
    const timer = setTimeout(() => fail('it was not ready in time'), READY_MS_MAX)
    ended.then((how) => {
      clearTimeout(timer)
      fail(`it ended with ${how}`)
    })
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        lines.push(line)
        if (!line.includes('"msg":"ready"')) return
        clearTimeout(timer)
        resolve(JSON.parse(line))
      })
    }
  })
  const elapsedMs = Math.round(performance.now() - startedAtMs)
  const stop = async () => {
    child.kill('SIGTERM')
    assert.equal(await ended, 0, `it did not stop as asked\n${lines.join('\n')}`)
  }
  return { ready, elapsedMs, stop }
}

async function ask(url, options = {}) {
  const answer = await fetch(url, options)
  const text = await answer.text()
  assert.ok(answer.ok, `${url}: ${answer.status} ${text}`)
  return answer.headers.get('content-type')?.includes('json') ? JSON.parse(text) : text
}

function json(body, key) {
  const headers = { 'Content-Type': 'application/json' }
  if (key !== undefined) headers.Authorization = `Bearer ${key}`
  return { method: 'POST', headers, body: JSON.stringify(body) }
}

/** Resolves to the stored event. Processing may take a moment. */
async function visibleEvent(base, key) {
  const deadlineMs = performance.now() + VISIBLE_MS_MAX
  for (;;) {
    const { results } = await ask(`${base}/api/projects/1/events/`, {
      headers: { Authorization: `Bearer ${key}` },
    })
    const found = results.find(({ uuid }) => uuid === EVENT)
    if (found !== undefined) return found
    assert.ok(performance.now() < deadlineMs, 'the event is not to be seen')
    await sleep(50)
  }
}

async function smoke() {
  const { ready, elapsedMs, stop } = await start()
  const base = ready.url.replace(/\/$/, '')
  say(`ready      ${elapsedMs} ms, version ${ready.version}`)
  const keys = JSON.parse(readFileSync(join(dataDir, 'credentials.json'), 'utf8'))
  const page = await ask(`${base}/`)
  assert.match(page, /<html/i)
  const script = /src="([^"]+\.js)"/.exec(page)?.[1]
  assert.match(await ask(new URL(script, `${base}/`)), /function/)
  say('console    its page and its script')
  const properties = { plan: 'größe 💻' }
  const event = { event: 'signed up', distinct_id: 'ann', uuid: EVENT, properties }
  const captured = await ask(`${base}/capture/`, json({ api_key: keys.project_key, ...event }))
  assert.deepEqual(captured, { status: 1 })
  const stored = await visibleEvent(base, keys.personal_key)
  assert.equal(stored.properties.plan, properties.plan)
  say('capture    the event is stored')
  const flag = { key: 'new-page', active: true, filters: { groups: [{ rollout_percentage: 100 }] } }
  await ask(`${base}/api/projects/1/feature_flags/`, json(flag, keys.personal_key))
  const person = { api_key: keys.project_key, distinct_id: 'ann' }
  const decided = await ask(`${base}/decide/?v=3`, json(person))
  assert.equal(decided.featureFlags['new-page'], true)
  say('decide     the flag is on')
  const series = [{ kind: 'EventsNode', event: 'signed up' }]
  const question = { query: { kind: 'TrendsQuery', series, dateRange: { date_from: '-7d' } } }
  const trend = await ask(`${base}/api/projects/1/query/`, json(question, keys.personal_key))
  assert.equal(trend.results[0].count, 1)
  say('query      one event within a week')
  const backups = join(folder, 'backups')
  run('backup', backups, '--data-dir', dataDir)
  assert.ok(readdirSync(backups).length > 0)
  run('verify', '--data-dir', dataDir)
  say('backup     made beside the daemon; the store is sound')
  await stop()
  const second = await start()
  await visibleEvent(second.ready.url.replace(/\/$/, ''), keys.personal_key)
  await second.stop()
  say(`stop       and started again in ${second.elapsedMs} ms, with the event`)
}

try {
  say(`program    ${words.join(' ')}`)
  await smoke()
} catch (error) {
  process.stderr.write(`tenrec: ${error instanceof Error ? error.stack : error}\n`)
  process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
