package quota

import (
	"cmp"
	"maps"
	"millrace/task"
	"millrace/task/limit"
	"slices"
	"time"
)

// Parts splits a decision into parts that share no scope, in the order of their first grants. A
// part may consist of refusals alone. Each is recorded, confirmed or undone by itself. Call it
// before any other change of the limiter.
func (a *Limiter) Parts(d *Decision) []Decision {
	p := parts{of: map[*scope]*part{}}
	for i, l := range d.lines {
		if i == 0 || l != d.lines[i-1] {
			p.join(l.scopes)
		}
	}
	rates := slices.Sorted(maps.Keys(d.Rates))
	for _, name := range rates {
		p.join([]*scope{a.counter(name).scope})
	}
	for i, l := range d.lines {
		p.of[l.scopes[0]].grant(l, d.Grants[i])
	}
	for _, name := range rates {
		of := a.counter(name).scope
		p.of[of].rate(of, name, d)
	}
	for _, r := range d.Refused {
		of := p.under(a.counter(r.Counter).scope)
		of.Refused = append(of.Refused, r)
	}
	for _, r := range d.Replaced {
		of := p.under(a.counter(r.Counter).scope)
		of.Replaced = append(of.Replaced, r)
	}
	var all []Decision
	for _, one := range p.all {
		if one.joined {
			continue
		}
		one.finish()
		all = append(all, one.Decision)
	}
	return all
}

// parts are the parts of a decision under construction.
type parts struct {
	of  map[*scope]*part
	all []*part
}

// part is a part under construction.
type part struct {
	Decision
	index  int
	scopes []*scope // the scopes on whose chains it is recorded
	joined bool     // it was merged into another part
}

// join merges scopes into one part: the earliest of theirs, or a new one.
func (p *parts) join(scopes []*scope) {
	var into *part
	for _, s := range scopes {
		if was := p.of[s]; was != nil && (into == nil || was.index < into.index) {
			into = was
		}
	}
	if into == nil {
		into = p.add()
	}
	for _, s := range scopes {
		was := p.of[s]
		switch {
		case was == into:
		case was == nil:
			p.of[s] = into
			into.scopes = append(into.scopes, s)
		default:
			for _, moved := range was.scopes {
				p.of[moved] = into
			}
			into.scopes, was.scopes, was.joined = append(into.scopes, was.scopes...), nil, true
		}
	}
}

func (p *parts) add() *part {
	one := &part{index: len(p.all)}
	p.all = append(p.all, one)
	return one
}

// under returns the part that is recorded on the chain of a scope.
func (p *parts) under(s *scope) *part {
	p.join([]*scope{s})
	return p.of[s]
}

// Refuse adds a refused or stopped task to the record of its scope.
func (d *Decision) Refuse(r Refusal) {
	at, _ := slices.BinarySearch(d.Scopes, limit.ScopeOf(r.Counter))
	d.Records[at].Refused = append(d.Records[at].Refused, r.Task)
}

// Under returns the grants for the chain of a scope.
func (d *Decision) Under(of limit.Scope) (all []task.Grant) {
	for i, l := range d.lines {
		if slices.ContainsFunc(l.scopes, func(s *scope) bool { return s.name == of }) {
			all = append(all, d.Grants[i])
		}
	}
	return all
}

// Replace is the request to stop a task that must make place.
func (r Refusal) Replace() task.Cancel {
	return task.Cancel{Reason: "task " + string(r.By) + " takes its place under " + r.Counter}
}

func (p *part) grant(l *line, g task.Grant) {
	p.Grants, p.lines = append(p.Grants, g), append(p.lines, l)
}

func (p *part) rate(of *scope, name string, d *Decision) {
	if p.Rates == nil {
		p.Rates, p.was = map[string]time.Time{}, map[string]bucketWas{}
	}
	p.Rates[name] = d.Rates[name]
	if was, ok := d.was[name]; ok {
		p.was[name] = was
	}
}

// finish makes the record for each chain: each grant goes onto the chains of all its scopes, a rate
// onto that of its own.
func (p *part) finish() {
	slices.SortFunc(p.scopes, func(x, y *scope) int { return cmp.Compare(x.name, y.name) })
	for _, s := range p.scopes {
		p.Scopes = append(p.Scopes, s.name)
	}
	if len(p.scopes) <= 1 {
		if len(p.scopes) == 1 {
			p.Records = []task.Granted{{Grants: p.Grants, Rates: p.Rates}}
		}
		return
	}
	p.Records = make([]task.Granted, len(p.scopes))
	for at, s := range p.Scopes {
		p.Records[at].Grants = p.Under(s)
	}
	for name, used := range p.Rates {
		at, _ := slices.BinarySearch(p.Scopes, limit.ScopeOf(name))
		r := &p.Records[at]
		if r.Rates == nil {
			r.Rates = map[string]time.Time{}
		}
		r.Rates[name] = used
	}
}
