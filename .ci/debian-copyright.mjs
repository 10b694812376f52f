/**
 * Writes the file `copyright` of the Debian package in its machine-readable format 1.0: the program, then every package
 * below a `node_modules` folder with the text of its own license.
 *
 * node .ci/debian-copyright.mjs FOLDER
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const folder = process.argv[2]
const HEADER = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: tenrec
Comment: The packages below usr/lib/tenrec/node_modules come from the npm registry, in the versions of
 package-lock.json.`
const APACHE = ` Licensed under the Apache License, Version 2.0. On Debian systems the text is in
 /usr/share/common-licenses/Apache-2.0.`

/** Folders of packages, including nested ones. */
function packagesIn(path, prefix = '') {
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
    if (!entry.isDirectory() || entry.name.startsWith('.')) return []
    const name = join(prefix, entry.name)
    const own = join(path, entry.name)
    if (entry.name.startsWith('@')) return packagesIn(own, name)
    const nested = join(own, 'node_modules')
    return [name, ...(existsSync(nested) ? packagesIn(nested, join(name, 'node_modules')) : [])]
  })
}

function licenseText(path) {
  const name = readdirSync(path).find((entry) => /^(licen[cs]e|copying)(\.\w+)?$/i.test(entry))
  return name === undefined ? '' : readFileSync(join(path, name), 'utf8').replaceAll('\r', '')
}

/** Text as a field of the format: indented, with a dot for an empty line. */
function indented(text) {
  return text
    .trim()
    .split('\n')
    .map((line) => (line.trim() === '' ? ' .' : ` ${line.trimEnd()}`))
    .join('\n')
}

function holders(text, manifest) {
  const lines = text.split('\n').map((line) => line.replace(/^[\s*#]+|[\s*#]+$/g, ''))
  const found = lines.filter(
    (line) => /^(copyright\b|\(c\)|©).*\w/i.test(line) && line.length < 200,
  )
  const named = found.filter((line) => !/copyright (notice|holder|owner|licen)/i.test(line))
  if (named.length > 0 && named.length < 20) return named.map((line) => ` ${line}`).join('\n')
  const { author } = manifest
  const name = typeof author === 'string' ? author : author?.name
  return ` ${name ?? `the authors of ${manifest.name}`}`
}

function licenseName({ license }, text) {
  const name = typeof license === 'string' ? license : license?.type
  if (name === 'MIT') return 'Expat'
  return name ?? (text.includes('Permission is hereby granted') ? 'Expat' : 'unknown')
}

const own = readFileSync('LICENSE', 'utf8')
const expat = own.slice(own.indexOf('Permission is hereby granted'))
const stanzas = [HEADER, `Files: *\nCopyright:${holders(own, { name: 'tenrec' })}\nLicense: Expat`]
const texts = new Map([['Expat', indented(expat)]])
for (const name of packagesIn(folder).sort()) {
  const path = join(folder, name)
  if (!existsSync(join(path, 'package.json'))) continue
  const manifest = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'))
  const text = licenseText(path)
  const kind = licenseName(manifest, text)
  // The texts of the other licenses differ between packages, so each package has its own.
  const isShared = kind === 'Expat' || kind === 'Apache-2.0'
  const label = isShared ? kind : `${kind}-${name.replaceAll(/[@/]/g, '-').replace(/^-+/, '')}`
  if (kind === 'Apache-2.0') texts.set(kind, APACHE)
  else if (!isShared) texts.set(label, indented(text))
  stanzas.push(
    `Files: usr/lib/tenrec/node_modules/${name}/*\nCopyright:${holders(text, manifest)}\nLicense: ${label}`,
  )
}
for (const [name, text] of texts) stanzas.push(`License: ${name}\n${text}`)
process.stdout.write(`${stanzas.join('\n\n')}\n`)
