/** The functions that elements in JSX become. The build adds them to each file. */
export { Fragment, h } from 'preact'
