package events

import "slices"

// forms are the forms of all facts. Each names the fields of one type once, in the
// order in which they are written; docs/wire.md and the schemas say what they mean.
var forms = slices.Concat(taskForms, otherForms, scheduleForms, nodeForms)
