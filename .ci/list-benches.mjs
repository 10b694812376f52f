/**
 * Prints the name and the question of each bench, in the order of bench/benches.ts. It reads the sources as text, so
 * the list is available before anything is installed or built.
 */
import { readFileSync } from 'node:fs'

const folder = new URL('../bench/', import.meta.url)
const table = readFileSync(new URL('benches.ts', folder), 'utf8')
const files = new Map(
  [...table.matchAll(/^import \{ (\w+) \} from '\.\/(.+)'$/gm)].map(([, name, file]) => [
    name,
    file,
  ]),
)
const [, order] = /BENCHES.*= \[\n(.*?)\n\]/s.exec(table)
for (const [name] of order.matchAll(/\w+/g)) {
  const bench = readFileSync(new URL(files.get(name), folder), 'utf8')
  const text = (field) => new RegExp(`^  ${field}: (['"])(.*)\\1,$`, 'm').exec(bench)[2]
  process.stdout.write(`${text('name').padEnd(18)} ${text('question')}\n`)
}
