/**
 * Tests filters on the elements of autocapture events: tag names, texts, links and selectors.
 *
 * @lane quick
 */
import t from 'tap'
import { elementsChain } from '../../../src/rules/capture/elements-chain.ts'
import { elementTest, isSelector } from '../../../src/rules/filters/element-filter.ts'

/** A click on a span inside a link inside a menu. */
const CHAIN = elementsChain([
  { tag_name: 'span', $el_text: 'Say "hi"; now', attr__class: 'label md:flex', nth_child: 2 },
  { tag_name: 'a', attr__href: 'https://x.io/a?b="c"', attr__id: 'go', attr__class: 'btn btn-big' },
  { tag_name: 'li', nth_child: 3, 'attr__data-kind': 'item' },
  { tag_name: 'ul', attr__class: 'menu' },
  { tag_name: 'body' },
])

function passes(key: string, value: unknown, operator?: string, negation = false): boolean | null {
  const given = operator === undefined ? {} : { operator }
  const test = elementTest({ type: 'element', key, value, negation, ...given })
  return test === null ? null : test(CHAIN)
}

t.test('a tag name, text or link matches if one element of the chain has it', async (t) => {
  t.equal(passes('tag_name', 'span'), true)
  t.equal(passes('tag_name', ['form', 'body']), true)
  t.equal(passes('tag_name', 'form'), false)
  t.equal(passes('tag_name', 'a', 'is_not'), false)
  t.equal(passes('tag_name', 'form', 'is_not'), true)
  t.equal(passes('tag_name', 'form', 'exact', true), true)
  t.equal(passes('tag_name', 'a', 'is_not', true), true)
  t.equal(passes('text', 'Say "hi"; now'), true)
  t.equal(passes('text', 'HI', 'icontains'), true)
  t.equal(passes('text', 'hi', 'not_icontains'), false)
  t.equal(passes('href', 'https://x.io/a?b="c"'), true)
  t.equal(passes('href', '^https://x', 'regex'), true)
  t.equal(passes('href', '^http://', 'not_regex'), true)
  t.equal(passes('href', undefined, 'is_set'), true)
  t.equal(passes('href', undefined, 'is_not_set'), false)
})

t.test('an invalid element filter cannot be built', async (t) => {
  t.equal(passes('color', 'red'), null)
  t.equal(passes('text', undefined), null)
  t.equal(passes('text', 'a', 'like'), null)
})

t.test('an event without elements matches no element filter', async (t) => {
  const test = (operator: string) => elementTest({ key: 'tag_name', value: 'a', operator })?.('')
  t.equal(test('exact'), false)
  t.equal(test('is_not'), true)
})

t.test('selectors name an element and its ancestors', async (t) => {
  const fitting = [
    'span',
    '*',
    '.label',
    'span.label',
    '.md\\:flex',
    'a#go',
    '#go',
    '[id="go"]',
    'a.btn.btn-big',
    'li > a',
    'li > a > span',
    'ul a',
    'body span',
    'ul > li a',
    '.menu .label',
    '[data-kind]',
    '[data-kind=item] a',
    "li[data-kind='item']",
    '[href]',
    'span:nth-child(2)',
    'form, li',
    'ul  >  li:nth-child(3)>a',
    '.menu > * span',
    'SPAN',
  ]
  for (const selector of fitting) {
    t.ok(isSelector(selector), selector)
    t.equal(passes('selector', selector), true, selector)
  }
  const others = [
    'form',
    '.lab',
    'span > a',
    'ul > a',
    'body > span',
    'span.btn',
    '[data-kind=other]',
    'li:nth-child(2)',
    'form a',
    'form, table',
    '.menu > .label',
    'li li',
  ]
  for (const selector of others) {
    t.ok(isSelector(selector), selector)
    t.equal(passes('selector', selector), false, selector)
    t.equal(passes('selector', selector, 'is_not'), true, selector)
  }
  t.equal(passes('selector', ['form', 'a']), true)
})

t.test('an invalid selector matches nothing', async (t) => {
  const broken = [
    '',
    ' ',
    '>',
    'a >',
    'a,',
    ', a',
    'a:hover',
    'a::before',
    'a[',
    'a + b',
    'a(',
    '.#',
    'x'.repeat(1001),
  ]
  for (const selector of broken) {
    t.notOk(isSelector(selector), selector)
    t.equal(passes('selector', selector), false, selector)
  }
})

t.test('a long selector on a long chain does not backtrack exponentially', async (t) => {
  const deep = elementsChain(Array.from({ length: 300 }, () => ({ tag_name: 'div' })))
  const selector = `form ${'> div div '.repeat(90)}`.trim()
  t.equal(elementTest({ key: 'selector', value: selector })?.(deep), false)
})
