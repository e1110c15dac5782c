package events

import (
	"context"
	"sync"
	"time"

	"millrace/task/definition"
)

// FoldDefinition adds up the records of one definition's chain, in the order of the log. Unreadable
// records change nothing.
func FoldDefinition(records []Record) definition.Definition {
	var d definition.Definition
	for i := range records {
		r := &records[i]
		if e, ok := r.Fact.Event.(definition.DefinitionEvent); ok && r.Err == nil {
			d = definition.EvolveDefinition(d, r.Seq, r.Fact.At, r.Fact.Actor, e)
		}
	}
	return d
}

// definitionFresh is how long a read definition is used, so that a job whose tasks are made or
// start continually costs few reads.
const definitionFresh = 250 * time.Millisecond

// Definitions caches definitions for a moment. It is safe for concurrent use.
type Definitions struct {
	mu    sync.Mutex
	known map[definition.Def]definedAt // guarded by mu
}

type definedAt struct {
	definition.Definition
	at time.Time
}

// Get returns the definition of a name, at most 250 ms old. It does not cache missing ones.
func (d *Definitions) Get(ctx context.Context, r *Recorder, def definition.Def) (definition.Definition, error) {
	now := r.Now()
	d.mu.Lock()
	was, ok := d.known[def]
	d.mu.Unlock()
	if ok && now.Sub(was.at) < definitionFresh {
		return was.Definition, nil
	}
	is, err := r.Log.Definition(ctx, def)
	if err != nil {
		return is, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, def)
	if is.Exists() {
		if d.known == nil {
			d.known = map[definition.Def]definedAt{}
		}
		d.known[def] = definedAt{is, now}
	}
	return is, nil
}
