package replay

import (
	"fmt"
	"sort"
	"strings"

	"millrace/projections/view"
	"millrace/task"
	"millrace/task/node"
)

// Focus is the subject of interest: a task, a node, a queue, a schedule or a limit. The zero value is
// everything.
type Focus struct {
	// Kind is one of [FocusKinds]; "" for everything.
	Kind string
	// ID is its name.
	ID string
}

// FocusKinds are the possible kinds of focus.
var FocusKinds = []string{"task", "node", "queue", "schedule", limitKind}

const limitKind = "limit"

func (f *Focus) String() string { return strings.TrimSpace(f.Kind + " " + f.ID) }

// ref is the subject whose fields are tracked.
func (f *Focus) ref() view.Ref {
	switch f.Kind {
	case "task":
		return view.Task(task.ID(f.ID))
	case "node":
		return view.Node(node.ID(f.ID))
	case "queue":
		return view.Queue(f.ID)
	case "schedule":
		return view.Definition(task.Named(task.DefSchedule, f.ID))
	}
	return view.Ref{}
}

// aim is a focus with its places in the span.
type aim struct {
	Focus
	at []int32 // not set for everything
}

// look sets the focus. The error says that the span has nothing about it. For a task, a unique part
// of the id is enough.
func (s *Span) look(f Focus) (*aim, error) {
	a := &aim{Focus: f}
	switch f.Kind {
	case "":
		return a, nil
	case "task":
		id, err := s.taskOf(f.ID)
		if err != nil {
			return nil, err
		}
		a.ID = string(id)
		if c := s.chains[view.Task(id)]; c != nil {
			a.at = c.at[c.upTo(s.begin-1):]
		}
	case limitKind:
		a.at = s.under(f.ID)
	default:
		concerns := s.concerns(&f)
		for pos := s.begin; pos < len(s.facts); pos++ {
			if concerns(pos) {
				a.at = append(a.at, int32(pos)) // a span of more facts does not go into memory
			}
		}
	}
	if len(a.at) == 0 {
		return nil, fmt.Errorf("the span has no event about %s: take a longer one, or look at something else", a.String())
	}
	return a, nil
}

// upTo is how many facts of the focus lie at or before a place, in a span that begins at begin.
func (a *aim) upTo(pos, begin int) int {
	if a.Kind == "" {
		return pos - begin + 1
	}
	return sort.Search(len(a.at), func(i int) bool { return int(a.at[i]) > pos })
}

// place is the place of the i-th fact of the focus, from 0; false if there is none.
func (a *aim) place(i int, s *Span) (int, bool) {
	if a.Kind == "" {
		return s.begin + i, i >= 0 && i < s.Len()
	}
	if i < 0 || i >= len(a.at) {
		return 0, false
	}
	return int(a.at[i]), true
}

// len is how many facts the focus has.
func (a *aim) len(s *Span) int {
	if a.Kind == "" {
		return s.Len()
	}
	return len(a.at)
}

// taskOf is the task with an id, or with a unique part of it.
func (s *Span) taskOf(text string) (task.ID, error) {
	if id, err := task.ParseID(text); err == nil {
		return id, nil
	}
	part, ok := task.Part(text)
	if !ok {
		return "", fmt.Errorf("%q is no task id, and no part of one", text)
	}
	var found []string
	for ref := range s.chains {
		if ref.Kind == view.Tasks && strings.Contains(ref.ID, part) {
			found = append(found, ref.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("the span has no task whose id has %q in it", text)
	case 1:
		return task.ID(found[0]), nil
	}
	sort.Strings(found)
	return "", fmt.Errorf("%d tasks have %q in their ids: %s", len(found), text, strings.Join(found[:min(len(found), 5)], ", "))
}

// concerns tells whether the fact at a place belongs to the focus.
func (s *Span) concerns(f *Focus) func(pos int) bool {
	chain := s.chains[f.ref()]
	about := func(pos int) bool {
		if chain == nil {
			return false
		}
		i := chain.upTo(pos)
		return i > 0 && int(chain.at[i-1]) == pos
	}
	n := s.words.number[f.ID]
	switch f.Kind {
	case "node":
		return s.onNode(f.ID)
	case "queue":
		return func(pos int) bool {
			at := &s.facts[pos]
			return n != 0 && (at.is.queue == n || at.was.queue == n) || about(pos)
		}
	case "schedule":
		return func(pos int) bool { return n != 0 && s.facts[pos].schedule == n }
	}
	return about
}
