package main

import (
	"millrace/events"
	"millrace/projections"
)

// observers are told of what becomes part of the read model, one after the other; nil is nobody.
type observers []projections.Observer

// Observe implements [projections.Observer].
func (all observers) Observe(steps []events.Step) {
	for _, o := range all {
		if o != nil {
			o.Observe(steps)
		}
	}
}
