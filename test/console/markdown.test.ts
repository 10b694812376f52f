/**
 * Markdown of text tiles: its blocks and spans, and texts that stay text.
 *
 * @lane quick
 */
import fc from 'fast-check'
import t from 'tap'
import { type Block, markdownBlocks, type Span } from '../../src/console/base/markdown.ts'
import { runsOf } from '../fixtures/random-depth.ts'

const paragraph = (...spans: readonly Span[]) => [{ kind: 'paragraph', spans }]
const strong = (...spans: readonly Span[]) => ({ kind: 'strong', spans }) as const

t.test('blocks', (t) => {
  t.strictSame(markdownBlocks('**Goal for Q4:** 20 %\nof *all*'), [
    {
      kind: 'paragraph',
      spans: [strong('Goal for Q4:'), ' 20 %\nof ', { kind: 'em', spans: ['all'] }],
    },
  ])
  t.strictSame(markdownBlocks('# One\n\n### Two ##\ntext'), [
    { kind: 'heading', level: 1, spans: ['One'] },
    { kind: 'heading', level: 3, spans: ['Two'] },
    ...paragraph('text'),
  ])
  t.strictSame(markdownBlocks('- a\n- **b**\n  more\n\n3. c\n4. d'), [
    {
      kind: 'list',
      isNumbered: false,
      start: 1,
      items: [paragraph('a'), paragraph(strong('b'), '\nmore')],
    },
    { kind: 'list', isNumbered: true, start: 3, items: [paragraph('c'), paragraph('d')] },
  ])
  t.strictSame(markdownBlocks('- a\n  - b'), [
    {
      kind: 'list',
      isNumbered: false,
      start: 1,
      items: [
        [...paragraph('a'), { kind: 'list', isNumbered: false, start: 1, items: [paragraph('b')] }],
      ],
    },
  ])
  t.strictSame(markdownBlocks('> a\n> b\n\n---\n```js\n**x**\n\n<b>\n```'), [
    { kind: 'quote', blocks: paragraph('a\nb') },
    { kind: 'rule' },
    { kind: 'code', text: '**x**\n\n<b>' },
  ])
  t.strictSame(markdownBlocks(''), [])
  t.end()
})

t.test('spans', (t) => {
  const cases: readonly (readonly [string, ...Span[]])[] = [
    ['a `**b**` c', 'a ', { kind: 'code', text: '**b**' }, ' c'],
    ['~~a~~', { kind: 'del', spans: ['a'] }],
    ['snake_case_name 2 * 3 * 4', 'snake_case_name 2 * 3 * 4'],
    ['\\*a\\*', '*', 'a', '*'],
    ['a  \nb', 'a', { kind: 'break' }, 'b'],
    ['[a](https://b.example/c)', { kind: 'link', href: 'https://b.example/c', spans: ['a'] }],
    [
      'see https://b.example/c.',
      'see ',
      { kind: 'link', href: 'https://b.example/c', spans: ['https://b.example/c'] },
      '.',
    ],
  ]
  for (const [text, ...spans] of cases)
    t.strictSame(markdownBlocks(text), paragraph(...spans), text)
  t.end()
})

t.test('markup, images and links to anything but the web stay text', (t) => {
  const texts = [
    '<img src=x onerror=alert(1)>',
    '<script>alert(1)</script>',
    '[a](javascript:alert(1))',
    '[a](JaVaScRiPt:x)',
    '[a](data:text/html,x)',
    '[a](//b.example)',
    '[a](/p/1/settings)',
  ]
  for (const text of texts) {
    const found = JSON.stringify(markdownBlocks(text))
    t.notMatch(found, /"kind":"link"/, text)
    t.equal(textOf(markdownBlocks(text)), text)
  }
  t.end()
})

t.test('any text is read completely, and its links lead to the web', (t) => {
  const part = fc.constantFrom(
    '*',
    '**',
    '_',
    '`',
    '[',
    ']',
    '(',
    ')',
    '\n',
    '> ',
    '- ',
    '1. ',
    '# ',
    'a',
    ' ',
    'https://x.y',
    '~~',
    '\\',
  )
  fc.assert(
    fc.property(fc.array(part, { maxLength: 300 }), (parts) => {
      const blocks = markdownBlocks(parts.join(''))
      for (const [, href] of JSON.stringify(blocks).matchAll(/"href":"([^"]*)"/g))
        t.match(href, /^https?:/)
      const letters = parts.filter((one) => one === 'a').length
      t.equal((textOf(blocks).match(/a/g) ?? []).length >= letters, true)
    }),
    runsOf(300),
  )
  for (const mark of ['*', '**', '_', '`', '~~', '[', '> ', '- ', '[a](', '**a ', '`a ``'])
    markdownBlocks(mark.repeat(4000 / mark.length))
  t.end()
})

/** Returns all text of blocks, without the marks that were read. */
function textOf(blocks: readonly Block[]): string {
  const ofSpan = (span: Span): string => {
    if (typeof span === 'string') return span
    if (span.kind === 'break') return '\n'
    return span.kind === 'code' ? span.text : span.spans.map(ofSpan).join('')
  }
  const ofBlock = (block: Block): string => {
    switch (block.kind) {
      case 'rule':
        return ''
      case 'code':
        return block.text
      case 'quote':
        return textOf(block.blocks)
      case 'list':
        return block.items.map(textOf).join('')
      case 'heading':
      case 'paragraph':
        return block.spans.map(ofSpan).join('')
    }
  }
  return blocks.map(ofBlock).join('')
}
