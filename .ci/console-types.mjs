/**
 * Writes `src/console/base/api-types.d.ts`, the types of the routes that the console uses, from the API description. A
 * page that requests an unknown route therefore does not compile. Needs the loader that lets Node run sources.
 */
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const TARGET = join(ROOT, 'src/console/base/api-types.d.ts')
// It is a package of the tests and has its own compiler.
const { default: openapi, astToString } = createRequire(join(ROOT, 'test/'))('openapi-typescript')

const { buildDocument } = await import(join(ROOT, '.js/src/http/openapi/document.js'))
writeFileSync(TARGET, astToString(await openapi(JSON.stringify(buildDocument()))))
