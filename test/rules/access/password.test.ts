/**
 * The passwords that users may have, and the text in which their hash is stored.
 *
 * @lane quick
 */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import {
  normalizedPassword,
  PASSWORD_COST,
  PASSWORD_HASH_BYTES,
  PASSWORD_SALT_BYTES,
  parsePasswordHash,
  passwordHashText,
  passwordObstacle,
} from '../../../src/rules/access/password.ts'

const USER = { email: 'Maria.Lund@shop.example', firstName: 'Maria' }

t.test('short, monotonous and obvious passwords are refused with a reason', async (t) => {
  const refused: readonly (readonly [string, RegExp])[] = [
    ['', /at least 10 characters/],
    ['short', /at least 10 characters/],
    ['\u{1F600}'.repeat(9), /at least 10 characters/],
    ['aaaaaaaaaaaa', /at least 4 different characters/],
    ['abababababab', /at least 4 different characters/],
    ['maria.lund@SHOP.example', /not your name or e-mail address/],
    ['maria.lundmaria', /not your name or e-mail address/],
  ]
  for (const [password, reason] of refused) t.match(passwordObstacle(password, USER), reason)
})

t.test('long passwords of any script are allowed', async (t) => {
  for (const password of ['correct horse battery', 'слон и муравей', '0123456789']) {
    t.equal(passwordObstacle(password, USER), null, password)
  }
})

t.test('both Unicode forms of a letter are the same password', async (t) => {
  t.equal(normalizedPassword('caf\u00e9 au lait'), normalizedPassword('cafe\u0301 au lait'))
})

t.test('the text of a hash can be read back', async (t) => {
  const parts = {
    ...PASSWORD_COST,
    salt: randomBytes(PASSWORD_SALT_BYTES),
    hash: randomBytes(PASSWORD_HASH_BYTES),
  }
  const text = passwordHashText(parts)
  t.match(text, /^\$scrypt\$ln=15,r=8,p=3\$[^=]+\$[^=]+$/)
  t.strictSame(parsePasswordHash(text), parts)
})

t.test('a text that is no hash is not taken for one', async (t) => {
  for (const text of [
    '',
    'secret',
    '$scrypt$ln=15,r=8,p=3$AAAA$AAAA',
    '$argon2id$v=19$m=1,t=1$a$b',
  ]) {
    t.equal(parsePasswordHash(text), null, text)
  }
})
