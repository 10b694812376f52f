/**
 * Tests the validation of values. Also checks the schemas against the meta-schema of JSON Schema, because the program
 * does not: it compiles a schema when it validates the first value.
 *
 * @lane quick
 */
import { Ajv } from 'ajv'
import t from 'tap'
import { compileInput, compileShape } from '../../src/base/validator.ts'
import { captureEventShape } from '../../src/rules/capture/capture-schema.ts'

t.test('the parts of shapes are valid JSON schemas', async (t) => {
  const ajv = new Ajv({ strict: true, allowUnionTypes: true })
  ajv.addKeyword({ keyword: 'clientUuid', schemaType: 'boolean' })
  const { schema } = captureEventShape
  t.ok(ajv.validateSchema(schema), ajv.errorsText())
  t.doesNotThrow(() => ajv.compile(schema))
})

t.test('a schema with an unknown keyword throws at the first value', async (t) => {
  const shape = compileShape({ type: 'object', propertys: {} })
  t.throws(() => shape.matches({}), /propertys/)
  t.throws(() => compileInput({ type: 'text' }), /text/)
})

t.test('a shape reports the first error and its position', async (t) => {
  const shape = compileShape<{ readonly name: string }>({
    type: 'object',
    properties: { name: { type: 'string' }, uuid: { clientUuid: true } },
    required: ['name'],
  })
  t.ok(shape.matches({ name: 'a' }))
  t.equal(shape.problemOf({ name: 'a' }), null)
  t.same(shape.problemOf({ name: 1 }), { field: 'name', message: 'must be string' })
  t.same(shape.problemOf({ name: 'a', uuid: 'b' }), { field: 'uuid', message: 'must be a UUID' })
  t.match(shape.problemOf({}), { field: '', message: /name/ })
})
