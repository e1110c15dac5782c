package replay

import (
	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
)

// pass folds the facts of a span one by one.
type pass struct {
	span  *Span
	items map[view.Ref]*view.Item
	was   task.Task
}

func (s *Span) start() pass {
	return pass{span: s, items: map[view.Ref]*view.Item{}}
}

// add folds the next fact. It returns the subject before and after it. Was is valid until the next
// call, and only set for tasks.
func (p *pass) add(r *events.Record) (ref view.Ref, was, is view.Item) {
	if ref = view.RefOf(r); ref.Kind == 0 {
		return ref, was, is
	}
	item := p.items[ref]
	if item == nil {
		item = new(view.Item)
		if *item = view.Nothing(ref); p.span.chains[ref] != nil {
			*item = p.span.fold(ref, p.span.after(r.Seq-1)-1)
		}
		p.items[ref] = item
	}
	if item.Task != nil {
		p.was = *item.Task
		was.Task = &p.was
	}
	item.Add(ref, r)
	return ref, was, *item
}

// ended forgets an ended subject: if it has further facts, its chain is short.
func (p *pass) ended(ref view.Ref, is view.Item) {
	if is.Task != nil && is.Task.State.Terminal() {
		delete(p.items, ref)
	}
}

// rests forgets an ended subject, and a task that was just born: a log may have millions that wait,
// with a single fact each.
func (p *pass) rests(ref view.Ref, was, is view.Item) {
	if p.ended(ref, is); was.Task != nil && was.Task.Seq == 0 {
		delete(p.items, ref)
	}
}
