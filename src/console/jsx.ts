/**
 * The functions that JSX elements are compiled to. The build adds this import to each file.
 *
 * A component is drawn again when a signal changes that it has read while it was drawn. The package `@preact/signals`
 * does the same with four times the code, because it can also bind signals to attributes and texts.
 */
import { effect } from '@preact/signals-core'
import {
  type ComponentChildren,
  h as create,
  Fragment,
  type FunctionComponent,
  type VNode,
} from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

export { Fragment } from 'preact'

type Component = FunctionComponent<never>

/** The components by the components that they draw. */
const followers = new WeakMap<Component, Component>()

/** Creates an element. */
export function h(
  type: string | Component,
  properties: object | null,
  ...children: readonly ComponentChildren[]
): VNode {
  const isPlain = typeof type === 'string' || type === (Fragment as unknown)
  return create((isPlain ? type : followerOf(type)) as string, properties, ...children)
}

/** Returns the component that draws what `component` draws, and draws it again when a signal changes. */
function followerOf(component: Component): Component {
  const known = followers.get(component)
  if (known !== undefined) return known
  function Follower(properties: never) {
    const [, setTurn] = useState(0)
    const stop = useRef(() => {})
    useLayoutEffect(() => () => stop.current(), [])
    stop.current()
    let view: ComponentChildren = null
    let isDrawn = false
    stop.current = effect(() => {
      if (isDrawn) return setTurn((turn) => turn + 1)
      isDrawn = true
      view = component(properties)
      return undefined
    })
    return view
  }
  followers.set(component, Follower)
  return Follower
}
