/** The functions that JSX elements are compiled to. The build adds this import to each file. */
export { Fragment, h } from 'preact'
