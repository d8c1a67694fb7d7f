import { testControls } from './controlling.ts'

// In a file of its own, so that it runs beside the other controls: it can take as long as all of them together.
testControls(['frozen-owner'])
