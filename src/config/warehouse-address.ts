/** The address of a warehouse as an operator writes it: `http://user:password@host:8123/database`. */

/** The address of ClickHouse, with its database and credentials. */
export interface WarehouseAddress {
  /** The origin, without user, password and database. */
  readonly origin: string
  /** The database. The default is `default`. */
  readonly database: string
  /** The value of the header `Authorization`. Null: ClickHouse's default user. */
  readonly authorization: string | null
}

const DATABASE = /^[A-Za-z_]\w{0,63}$/
/** A percent sign without two hexadecimal digits after it. */
const BAD_ESCAPE = /%(?![0-9A-Fa-f]{2})/

/** Returns the parts of an address, or null if it is not valid. */
export function parseWarehouse(text: string): WarehouseAddress | null {
  if (!URL.canParse(text) || BAD_ESCAPE.test(text)) return null
  const { protocol, username, password, host, origin, pathname, search, hash } = new URL(text)
  const database = pathname.slice(1) === '' ? 'default' : pathname.slice(1)
  const isHttp = protocol === 'http:' || protocol === 'https:'
  if (!isHttp || host === '' || search !== '' || hash !== '' || !DATABASE.test(database)) {
    return null
  }
  const credentials = Buffer.concat([username, ':', password].map(unescaped))
  const authorization = username === '' ? null : `Basic ${credentials.toString('base64')}`
  return { origin, database, authorization }
}

/**
 * Returns the host and database of an address, such as `host:8123/database`, which contain no secret. Returns null if
 * the address is not valid.
 */
export function warehouseName(text: string): string | null {
  const parsed = parseWarehouse(text)
  return parsed === null ? null : `${new URL(parsed.origin).host}/${parsed.database}`
}

/** Returns the bytes of a text in which percent signs encode bytes. The bytes need not be UTF-8. */
function unescaped(text: string): Buffer {
  const bytes = text.replace(/%([0-9A-Fa-f]{2})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  )
  return Buffer.from(bytes, 'latin1')
}
