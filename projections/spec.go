package projections

import "millrace/events"

// specCache knows the specs in the rows of one store. It is not the one for
// facts: a row's text of a spec is always our own writing, a fact's is whoever's.
type specCache struct{ *events.SpecCache }

func newSpecCache() *specCache { return &specCache{events.NewSpecCache()} }
